"""From parts to shards, and from the rows of shards to a dataset's tables.

Enters: parts of replays and a packet's work items, in the work folder. Leaves: shards and tables in
the output, and a summary for the manifest. Must not know: how replays are played, or Beam.
"""
