"""Single games, as agents see them: a live game, its maps, the throttle, and environments.

Enters: game processes and agents' actions. Leaves: observations as arrays, and outcomes.
Must not know: which agents exist, who plays whom, and how outcomes become ratings.
"""
