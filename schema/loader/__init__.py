"""Reading a dataset: episodes, windows, samplers, batches and worker processes.

Enters: a reference and options. Leaves: arrays, in a seeded and resumable order.
Must not know: how the dataset was made, or who trains on it.
"""
