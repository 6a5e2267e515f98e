"""Every observation field of the converter takes different values in bots' games."""

import dataclasses

import numpy as np
import pytest

from starmill.converters import observation
from starmill.engines.skirmish.observation import observer
from starmill.engines.skirmish.players import bots
from starmill.engines.skirmish.replays import members
from starmill.engines.skirmish.server import game_info
from starmill.engines.skirmish.simulation import maps
from starmill.engines.skirmish.simulation.game import Game, PlayerSetup
from starmill.schema import settings, specs
from tests.factories import games

SETTINGS = dataclasses.replace(settings.UNPLUGGED, supervised=False)
# (map, races, styles, seed): enough for every kind of thing to happen somewhere.
GAMES = (
    ("Amber Basin", (1, 3), ("macro", "macro"), 1),
    ("Twin Ridges", (2, 1), ("macro", "air"), 2),
    ("Long Reach", (3, 2), ("power", "air"), 3),
    ("Frost Hollow", (1, 2), ("power", "timing"), 4),
    ("Broken Span", (3, 3), ("timing", "macro"), 5),
    ("Amber Basin", (3, 1), ("macro", "macro"), 6),
    ("Frost Hollow", (2, 3), ("macro", "power"), 7),
    ("Twin Ridges", (1, 2), ("timing", "macro"), 8),
    ("Amber Basin", (3, 1), ("air", "macro"), 25),
)
EVERY_LOOPS = 200
PLANES = tuple(
    f"minimap_{name}"
    for name in ("height_map", "visibility_map", "creep", "player_relative", "alerts")
) + ("minimap_buildable", "minimap_pathable")
# Columns that only an action can change: the converter's memory of the last command.
MEMORY = specs.EXTRA_UNIT_COLUMNS


class Ranges:
    """Smallest and largest value seen, per column."""

    def __init__(self, width: int) -> None:
        self.low = np.full(width, np.iinfo(np.int64).max)
        self.high = np.full(width, np.iinfo(np.int64).min)

    def add(self, values: np.ndarray) -> None:
        rows = values.reshape(-1, len(self.low))
        if len(rows):
            self.low = np.minimum(self.low, rows.min(axis=0))
            self.high = np.maximum(self.high, rows.max(axis=0))

    @property
    def constant(self) -> np.ndarray:
        return np.flatnonzero(self.high <= self.low)


def _observed(entry: tuple) -> list[dict[str, np.ndarray]]:
    """Plays a game and converts both players' observations along the way."""
    name, races, styles, seed = entry
    setups = tuple(
        PlayerSetup(race_requested=race, race=race, start=index)
        for index, race in enumerate(races)
    )
    game = Game(maps.MAPS[name], setups, seed)
    players = [bots.human(8500, races[i], seed * 2 + i, styles[i]) for i in (0, 1)]
    options = games.replay_options()
    people = [members.Participant(name=f"p{i}", mmr=6500) for i in (1, 2)]
    info = game_info.game_info(game, people, observer=None, options=options)
    interface = observer.Interface.from_options(options)
    watchers = [observer.Observer(game, p, interface) for p in (1, 2)]
    converters = [observation.Converter(SETTINGS, info) for _ in (1, 2)]
    observations = []
    while game.result is None and game.loop < 20000:
        if game.loop % EVERY_LOOPS == 0:
            for watcher, converter in zip(watchers, converters, strict=True):
                observations.append(converter.convert(watcher.observation()))
        wait = min(p.next_loop for p in players) - game.loop
        upto = EVERY_LOOPS - game.loop % EVERY_LOOPS
        if wait > 0:
            game.advance(min(wait, upto))
            continue
        inputs = []
        for number, player in enumerate(players, start=1):
            inputs += player.act(game, number)
        game.step(inputs)
    return observations


@pytest.mark.slow
def test_every_field_varies() -> None:
    columns = specs.unit_columns(SETTINGS)
    units = Ranges(len(columns))
    player = Ranges(len(specs.PLAYER_COLUMNS))
    planes = {name: Ranges(1) for name in PLANES}
    upgrades = Ranges(1)
    for entry in GAMES:
        for arrays in _observed(entry):
            rows = arrays["raw_units"]
            units.add(rows[rows[:, 0] > 0])
            player.add(arrays["player"])
            upgrades.add(arrays["upgrades_fixed_length"])
            for name, ranges in planes.items():
                ranges.add(arrays[name])
    flat = {columns[i] for i in units.constant} - set(MEMORY)
    assert flat == set()
    assert {specs.PLAYER_COLUMNS[i] for i in player.constant} == {"one"}
    assert [name for name, ranges in planes.items() if len(ranges.constant)] == []
    assert len(upgrades.constant) == 0
