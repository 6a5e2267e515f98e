"""The computer's players: what they see, decide and do, by rating and difficulty.

Enters: a game and a seed. Leaves: commands, camera moves and selections.
Must not know: the server or replay files.
"""
