"""Debug commands: changes of a game that its rules do not know.

Enters: a world, its map, and one change. Leaves: the world, changed. Must not know: the protocol, or
who asks.
"""
