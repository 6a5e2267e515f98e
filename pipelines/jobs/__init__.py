"""Jobs: work on every shard of a dataset, in processes of this machine or on Beam.

Enters: a function of a shard's number, and options of Beam. Leaves: the function's results.
Must not know: what the function does.
"""
