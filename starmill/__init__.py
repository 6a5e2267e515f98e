"""starmill: StarCraft II replays in, the AlphaStar Unplugged benchmark out."""

from starmill.version import __version__

__all__ = ["__version__"]
