"""Losses as pure functions of arrays, one idea a module; algorithms compose them.

Enters: logits, values, rewards and weights as arrays, time-major where there is time. Leaves: errors
and weights of each step, as arrays.
Must not know: networks, batches, configurations and parameters.
"""
