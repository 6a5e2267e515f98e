"""The training losses, one algorithm per module.

Enters: parameters and a batch of rollouts. Leaves: a scalar loss and metrics.
Must not know: files, datasets and games.
"""
