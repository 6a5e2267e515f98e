"""starmill: StarCraft II replays in, the AlphaStar Unplugged benchmark out.

The names in `__all__` are the public interface, together with the commands. Each is imported
when it is first used, so `import starmill` needs neither Beam, JAX nor the game.
"""

import importlib
from typing import TYPE_CHECKING, Any

from starmill import extras
from starmill.version import __version__

if TYPE_CHECKING:
    from starmill.benchmark.games.environment import Environment
    from starmill.benchmark.opponents.contestants import load_agent
    from starmill.converters.observation import Converter
    from starmill.schema import errors
    from starmill.schema.loader.batch_options import BatchOptions
    from starmill.schema.loader.dataset import Dataset, open_dataset
    from starmill.schema.loader.lazy_episode import Episode
    from starmill.schema.selection import Selection
    from starmill.schema.settings import UNPLUGGED, ConverterSettings

__all__ = [
    "UNPLUGGED",
    "BatchOptions",
    "Converter",
    "ConverterSettings",
    "Dataset",
    "Environment",
    "Episode",
    "Selection",
    "__version__",
    "errors",
    "load_agent",
    "open_dataset",
]

# Where each public name is defined.
_MODULES = {
    "UNPLUGGED": "starmill.schema.settings",
    "BatchOptions": "starmill.schema.loader.batch_options",
    "Converter": "starmill.converters.observation",
    "ConverterSettings": "starmill.schema.settings",
    "Dataset": "starmill.schema.loader.dataset",
    "Environment": "starmill.benchmark.games.environment",
    "Episode": "starmill.schema.loader.lazy_episode",
    "Selection": "starmill.schema.selection",
    "load_agent": "starmill.benchmark.opponents.contestants",
    "open_dataset": "starmill.schema.loader.dataset",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used."""
    if name == "errors":
        return importlib.import_module("starmill.schema.errors")
    if name not in _MODULES:
        raise AttributeError(f"module 'starmill' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        advice = extras.advice(f"starmill.{name}", error)
        if advice is None:
            raise
        raise ModuleNotFoundError(advice, name=error.name) from error


def __dir__() -> list[str]:
    """Returns the public names, whether or not they are imported yet."""
    return sorted({*globals(), *__all__})
