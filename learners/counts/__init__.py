"""Statistics of the training games, counted before a run begins.

Enters: a dataset's training episodes. Leaves: a weight of each function, and tables of the actions
that players never do.
Must not know: networks, losses, and any game's rules. Everything comes from the data.
"""
