"""What a player sees: visible units, planes, panels, and the protocol's observation.

Enters: a game and an interface's options. Leaves: the bytes of an observation.
Must not know: the server, the players, or replay files.
"""
