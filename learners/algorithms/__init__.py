"""The training losses, one algorithm a module.

Enters: parameters, a batch of rollouts and what an algorithm carries from one update to the
next. Leaves: a scalar loss, metrics and the new carry.
Must not know: optimizers, files, datasets and games.
"""
