"""A critic of its own: who is ahead, from few numbers, fitted so that it does not memorise games.

Enters: a dataset's training games. Leaves: the value of every step, from models that did not see its
game, and how well these values are calibrated.
Must not know: policies and their networks, games' rules, and how values are used.
"""
