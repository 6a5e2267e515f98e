"""The computer's players: scripted bots of a given rating or difficulty, and a random player.

Enters: a running game, a player's number and a seed. Leaves: that player's inputs, loop by loop
(commands, selections, control groups, camera moves, surrender).
Must not know: the server, the protocol or replay files.
"""
