"""Recording a game in the real replay format, and reading it back to play it again.

Enters: a game's inputs, or a replay's bytes. Leaves: the other.
Must not know: the server or the players.
"""
