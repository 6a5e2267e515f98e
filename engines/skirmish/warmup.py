"""Compiles the game in advance, once for a machine and release.

In: nothing. Out: numba's cache on disk. Compiling takes half a minute or more, longer than a client
waits for an answer, so `skirmish install` does it in advance. If several processes find that the
game is not compiled, one compiles it and the others wait.
"""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starmill.engines.skirmish.observation import (
    observer,
    plane_painting,
    score_message,
    unit_messages,
    visible_units,
)
from starmill.engines.skirmish.simulation import entry_points, maps, rules
from starmill.engines.skirmish.simulation.game import (
    Autocast,
    Game,
    PlayerSetup,
    UnitCommand,
)
from starmill.schema import compilation
from starmill.schema.game_constants import TERRAN, ZERG

if sys.platform != "win32":
    import fcntl


def ready() -> None:
    """Returns once the game is compiled, by this process or by another."""
    folder = _cache_folder()
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    kernels = (entry_points, plane_painting, unit_messages, visible_units)
    digest = compilation.source_digest(*(module.__name__ for module in kernels))[:16]
    mark = folder / f"skirmish-{digest}-{version}.compiled"
    if mark.exists():
        return
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder / "skirmish.lock"):
        if not mark.exists():
            compile_game()
            with contextlib.suppress(OSError):  # the folder may be read-only
                mark.touch()


def _cache_folder() -> Path:
    """Returns the folder in which numba keeps the compiled entry points."""
    dispatcher: Any = entry_points.advance
    return Path(dispatcher._cache.cache_path)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Holds a lock among processes, or none where the system cannot lock files."""
    with contextlib.ExitStack() as stack:
        if sys.platform != "win32":
            with contextlib.suppress(OSError):
                file = stack.enter_context(path.open("a"))
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def compile_game() -> float:
    """Compiles every kernel that a game or a query calls; returns the seconds that it took."""
    began = time.monotonic()
    players = tuple(
        PlayerSetup(race_requested=race, race=race, start=race - 1)
        for race in (TERRAN, ZERG)
    )
    game = Game(next(iter(maps.MAPS.values())), (players[0], players[1]), 1)
    tag = int(game.world.units["tag"][game.world.units["owner"] == 1][0])
    stop = rules.ability_id("Stop_Stop")
    game.step([UnitCommand(1, stop, (tag,))])
    game.step([Autocast(1, stop, (tag,))])
    command = UnitCommand(1, stop, (tag,))
    game.command_error(command)
    game.command_ability(command)
    entry_points.grant_upgrades(game.world.state, 1)
    score_message.score(game, 1)
    game.advance(2)
    row = int(game.rows_of([tag])[0])
    game.available_abilities(row)
    state = game.world.state
    x, y = game.map.starts[0]
    depot = rules.unit_id("SupplyDepot")
    entry_points.placement_error(state, 1, depot, x, y)
    entry_points.find_place(state, 1, depot, x, y, 0)
    marine = rules.unit_id("Marine")
    entry_points.kill(state, entry_points.spawn(state, marine, 1, x, y, 1.0), -1)
    interface = observer.Interface(screen=(8, 8), minimap=(8, 8))
    observer.Observer(game, 1, interface).observation()
    return time.monotonic() - began


if __name__ == "__main__":
    ready()
