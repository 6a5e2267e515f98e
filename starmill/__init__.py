"""starmill: StarCraft II replays in, the AlphaStar Unplugged benchmark out."""

import importlib
from typing import TYPE_CHECKING, Any

from starmill.version import __version__

if TYPE_CHECKING:
    from starmill.schema.loader.dataset import open_dataset

__all__ = ["__version__", "open_dataset"]


def __getattr__(name: str) -> Any:
    """Imports `open_dataset` when it is first asked for: `import starmill` stays quick."""
    if name == "open_dataset":
        return importlib.import_module("starmill.schema.loader.dataset").open_dataset
    raise AttributeError(f"module 'starmill' has no attribute {name!r}")
