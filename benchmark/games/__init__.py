"""Games as environments: an agent's live game, the computer's games, limits on actions.

Enters: a game process and contestants' actions. Leaves: observations as arrays, and outcomes.
Must not know: who plays whom, and how outcomes become ratings.
"""
