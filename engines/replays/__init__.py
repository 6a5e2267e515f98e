"""The replay file format, in both directions, without the game.

Enters: a file's bytes, or the members to store. Leaves: facts, decoded values, or a file's bytes.
Must not know: how a game is played or simulated.
"""
