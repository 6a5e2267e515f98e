"""What a player sees: visible units, feature layers, panels, and the protocol's observation.

Enters: a game, a player, and what the client asked to see. Leaves: the bytes of a
ResponseObservation; `observer` is the door.
Must not know: the server, the players, or replay files. It never changes the game.
"""
