"""Games as replay files in the real game's format, and replay files as games to play again.

Enters: a game's inputs and events, or a replay's bytes. Leaves: the other.
Must not know: the server or the players.
"""
