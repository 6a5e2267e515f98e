"""Pages on which games play: of an evaluation, one at a time or all of them, or through a server.

Enters: an evaluation's folder and a game that can play its replays. Leaves: `watch/GAME.html` in
that folder, with what the agents considered at each step.
Must not know: how games are scheduled and rated.
"""
