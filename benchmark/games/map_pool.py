"""Which maps a game offers, and which of them to play on.

In: a connected game process, and names that a user typed. Out: map paths, as the game lists
them. Knows nothing of players or schedules.
"""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from starmill.converters.protos import sc2api_pb2
from starmill.engines.client import Client
from starmill.schema import errors

# Paper, section 3.1: the dataset's ten maps, as `_plain_name` writes them.
_DATASET_MAPS = frozenset(
    (
        "acropolis",
        "automaton",
        "cyberforest",
        "kairosjunction",
        "kingscove",
        "newrepugnancy",
        "portaleksander",
        "thunderbird",
        "turbocruise84",
        "yearzero",
    )
)
_EMBEDDED_FOLDER = "Skirmish/"


def available(client: Client, seconds: float) -> list[str]:
    """Returns the paths of the local maps that the game offers, sorted."""
    request = sc2api_pb2.Request(available_maps=sc2api_pb2.RequestAvailableMaps())
    answer = client.call(request, seconds)
    paths = sc2api_pb2.ResponseAvailableMaps.FromString(answer).local_map_paths
    return sorted(paths)


def choose(offered: Sequence[str], names: Sequence[str] = ()) -> list[str]:
    """Returns the paths of the maps to play on, sorted.

    `names` are paths or names, with or without folder, ending and edition. Without names, the
    embedded game's own maps are chosen if it offers any, otherwise the dataset's ten.
    """
    if names:
        return _named_maps(offered, names)
    embedded = [path for path in offered if path.startswith(_EMBEDDED_FOLDER)]
    dataset = [path for path in offered if _plain_name(path) in _DATASET_MAPS]
    if not embedded and not dataset:
        raise errors.ConfigError(
            "the game offers none of the dataset's maps; name maps with --maps. "
            f"It offers {', '.join(offered) or 'none'}"
        )
    return sorted(embedded or dataset)


def _named_maps(offered: Sequence[str], names: Sequence[str]) -> list[str]:
    plain_names = {_plain_name(name) for name in names}
    # One file of each name: "Acropolis" and "AcropolisLE" are the same map.
    files = {_plain_name(path): path for path in sorted(offered, reverse=True)}
    paths = [path for name, path in files.items() if name in plain_names]
    offered_names = {_plain_name(path) for path in paths}
    missing = [name for name in names if _plain_name(name) not in offered_names]
    if missing:
        raise errors.ConfigError(
            f"no map {', '.join(missing)}; the game offers {', '.join(offered)}"
        )
    return sorted(paths)


def _plain_name(path: str) -> str:
    """Returns a map's name in lower case, without folder, ending, edition and punctuation."""
    name = PurePosixPath(path.replace("\\", "/")).name
    name = re.sub(r"\.sc2map$", "", name, flags=re.IGNORECASE)
    letters = re.sub(r"[^A-Za-z0-9]", "", name)
    return re.sub(r"LE$", "", letters).lower()
