"""The game's process: a websocket server that speaks the protocol of StarCraft II.

Enters: a client's requests, and the command line of `SC2_x64`. Leaves: responses and replays.
Must not know: installations or ladders. Launchers that are installed already call `server.main()`.
"""

from starmill.engines.skirmish.server.process import main

__all__ = ["main"]
