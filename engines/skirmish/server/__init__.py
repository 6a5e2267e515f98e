"""The game's process: a websocket server that answers the game's protocol.

Enters: a client's requests and the command line of `SC2_x64`. Leaves: responses and replays.
Must not know: installations, ladders, or anything outside the embedded game's rooms below it.
"""

from starmill.engines.skirmish.server.process import main

__all__ = ["main"]
