"""Reads a dataset: single episodes, windows of steps, and batches for training.

Enters: a dataset's reference, filters and options. Leaves: arrays, in an order that a seed
decides and that can be resumed. Must not know: how the dataset was made, or who trains on it.
"""
