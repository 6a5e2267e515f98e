"""Short replays of the embedded game for tests: seconds to make, milliseconds to play.

Two players act at random until one surrenders: commands, selections, control groups, camera
moves, pauses. Every kind of input occurs, and a hundred of these games take less time than one
game between bots.
"""

import functools
import random
from pathlib import Path

from starmill.engines.skirmish import versions
from starmill.engines.skirmish.replays import members
from starmill.engines.skirmish.replays.recorder import Recorder
from starmill.engines.skirmish.simulation import maps
from starmill.engines.skirmish.simulation.game import (
    RECALL,
    SET,
    CameraMove,
    ControlGroup,
    Game,
    Leave,
    PlayerSetup,
    Select,
    UnitCommand,
)

_MOVE, _ATTACK = 16, 23


@functools.cache
def short_game(
    seed: int,
    *,
    loops: int = 300,
    version: str = "4.9.2",
    mmrs: tuple[int | None, int | None] = (4100, 3900),
    busy: float = 0.12,
    peaceful: bool = False,
) -> bytes:
    """Returns the bytes of a replay.

    Args:
        busy: the probability that a player acts on a loop.
        peaceful: whether all units stay at home and nobody attacks, so that a game can be long.
    """
    rng = random.Random(seed)
    races = [rng.choice((1, 2, 3)) for _ in range(2)]
    game_map = maps.map_named(sorted(maps.MAPS)[seed % len(maps.MAPS)])
    game = Game(
        game_map,
        tuple(
            PlayerSetup(
                race_requested=4 if rng.random() < 0.2 else race, race=race, start=start
            )
            for start, race in enumerate(races)
        ),
        seed=seed,
    )
    recorder = Recorder(
        game,
        tuple(
            members.Participant(name=f"player {number}", mmr=mmr)
            for number, mmr in zip((1, 2), mmrs, strict=True)
        ),
        versions.by_number(version),
    )
    while game.loop < loops and game.result is None:
        inputs = [
            item
            for player in (1, 2)
            if rng.random() < busy
            for item in _random_inputs(game, player, rng, peaceful)
        ]
        game.step(recorder.admit(inputs))
        recorder.watch()
    if game.result is None:
        game.step(recorder.admit([Leave(1 + seed % 2)]))
    return recorder.replay()


def _random_point(game, player: int, rng: random.Random, peaceful: bool):
    x0, y0, x1, y1 = game.map.playable
    if peaceful:
        x, y = game.map.starts[player - 1]
        x0, y0, x1, y1 = max(x0, x - 9), max(y0, y - 9), min(x1, x + 9), min(y1, y + 9)
    return round(rng.uniform(x0, x1), 2), round(rng.uniform(y0, y1), 2)


def _random_inputs(game, player: int, rng: random.Random, peaceful: bool) -> list:
    units = game.world.units
    own = [
        int(row)
        for row in ((units["owner"] == player) & (units["alive"] == 1)).nonzero()[0]
    ]
    point = _random_point(game, player, rng, peaceful)
    if not own or rng.random() < 0.25:
        return [CameraMove(player, *point)]
    rows = rng.sample(own, min(len(own), rng.randint(1, 4)))
    tags = tuple(int(units["tag"][row]) for row in rows)
    select = Select(player, tags)
    kind = rng.random()
    if kind < 0.15:
        return [select, ControlGroup(player, rng.randrange(10), SET)]
    if kind < 0.25:
        return [ControlGroup(player, rng.randrange(10), RECALL)]
    if kind < 0.6:
        ability = rng.choice((_MOVE, _MOVE if peaceful else _ATTACK))
        command = UnitCommand(
            player, ability, tags, target_point=point, queued=rng.random() < 0.2
        )
        return [select, *([command] * rng.choice((1, 1, 2)))]
    abilities = game.available_abilities(rows[0])
    if not abilities:
        return [select]
    target = point if rng.random() < 0.5 else None
    return [
        Select(player, tags[:1]),
        UnitCommand(player, rng.choice(abilities), tags[:1], target_point=target),
    ]


def write_games(
    folder: Path, count: int, *, first_seed: int = 0, **options
) -> list[Path]:
    """Writes `count` replays, of three versions in turn, and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("4.9.2", "4.9.1", "4.8.2")
    paths = []
    for seed in range(first_seed, first_seed + count):
        replay = short_game(seed, version=names[seed % 3], **options)
        path = folder / f"game{seed:04d}.SC2Replay"
        path.write_bytes(replay)
        paths.append(path)
    return paths
