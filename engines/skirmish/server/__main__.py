"""`python -m starmill.engines.skirmish.server` starts the game's process."""

import sys

from starmill.engines.skirmish.server.process import main

if __name__ == "__main__":
    sys.exit(main())
