"""The parts of a plan: judging an index, cutting the work list into packets, and reading packets.

Enters: an index's batches and a selection. Leaves: files of packets, `WorkItem`s of a packet, and
the counts of a selection. Must not know: how replays are played, or Beam.
"""
