"""A separate critic, which predicts from a few numbers who will win, without memorising games.

Enters: a dataset's training games. Leaves: the value of every step, from models that were not trained
on its game, and how well these values are calibrated.
Must not know: policies and their networks, games' rules, and how values are used.
"""
