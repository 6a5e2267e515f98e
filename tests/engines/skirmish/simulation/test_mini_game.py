"""Mini-games: what is there at the start, what earns points, and when they end."""

import numpy as np
import pytest

from starmill.engines.skirmish.simulation import entry_points, maps, rules
from starmill.engines.skirmish.simulation.game import Game, PlayerSetup, UnitCommand

# name -> units of the player and of the enemy, and neutral things, as the published descriptions say.
STARTS = {
    "MoveToBeacon": ({"Marine": 1}, {}, {"Beacon": 1}),
    "CollectMineralShards": ({"Marine": 2}, {}, {"MineralShard": 20}),
    "FindAndDefeatZerglings": ({"Marine": 3}, {"Zergling": 25}, {}),
    "DefeatRoaches": ({"Marine": 9}, {"Roach": 4}, {}),
    "DefeatZerglingsAndBanelings": (
        {"Marine": 9},
        {"Zergling": 6, "Baneling": 4},
        {},
    ),
    "CollectMineralsAndGas": (
        {"SCV": 12, "CommandCenter": 1},
        {},
        {
            "MineralField": 8,
            "MineralField750": 8,
            "VespeneGeyser": 4,
        },
    ),
    "BuildMarines": (
        {"SCV": 12, "CommandCenter": 1},
        {},
        {"MineralField": 4, "MineralField750": 4, "VespeneGeyser": 2},
    ),
}
LOOPS = {
    "MoveToBeacon": 1920,
    "CollectMineralShards": 1920,
    "FindAndDefeatZerglings": 2880,
    "DefeatRoaches": 1920,
    "DefeatZerglingsAndBanelings": 1920,
    "CollectMineralsAndGas": 6720,
    "BuildMarines": 14400,
}
NEUTRAL = 16


def _new_game(name: str, seed: int = 3) -> Game:
    fog = maps.MINI_GAMES[name].fog
    player = PlayerSetup(race_requested=1, race=1, start=0, all_visible=not fog)
    nobody = PlayerSetup(race_requested=1, race=1, start=1, absent=True)
    return Game(maps.map_named(name), (player, nobody), seed)


def _rows(game: Game, owner: int) -> np.ndarray:
    units = game.world.units
    return np.flatnonzero((units["alive"] == 1) & (units["owner"] == owner))


def _counts(game: Game, owner: int) -> dict[str, int]:
    types = game.world.units["unit_type"][_rows(game, owner)]
    names = {rules.unit_id(n): n for s in STARTS.values() for part in s for n in part}
    return {names[int(t)]: int((types == t).sum()) for t in np.unique(types)}


def _score(game: Game) -> int:
    assert game.mini_game is not None
    return game.mini_game.score


def _kill(game: Game, owner: int, count: int) -> None:
    for row in _rows(game, owner)[:count]:
        entry_points.kill(game.world.state, int(row), -1)


def test_all_mini_games_of_pysc2_are_there() -> None:
    assert set(maps.MINI_GAMES) == set(STARTS)


@pytest.mark.parametrize("name", STARTS)
def test_the_start(name: str) -> None:
    game = _new_game(name)
    assert tuple(_counts(game, owner) for owner in (1, 2, NEUTRAL)) == STARTS[name]
    units = game.world.units[_rows(game, 1)]
    left, bottom, right, top = game.map.playable
    assert (units["x"] > left).all() and (units["x"] < right).all()
    assert (units["y"] > bottom).all() and (units["y"] < top).all()


@pytest.mark.parametrize("name", STARTS)
def test_it_ends_when_its_time_is_up(name: str) -> None:
    game = _new_game(name)
    game.advance(LOOPS[name] - 1)
    assert game.result is None
    game.advance(5)
    assert (game.loop, game.result) == (LOOPS[name], {1: "win", 2: "loss"})


def test_the_same_seed_gives_the_same_game_and_another_one_does_not() -> None:
    one, same, other = (
        _new_game("CollectMineralShards", seed).state_digest() for seed in (3, 3, 4)
    )
    assert one == same != other


def test_a_marine_that_reaches_the_beacon_earns_a_point_and_the_beacon_moves() -> None:
    game = _new_game("MoveToBeacon")
    marine, beacon = int(_rows(game, 1)[0]), int(_rows(game, NEUTRAL)[0])
    units = game.world.units
    before = (float(units["x"][beacon]), float(units["y"][beacon]))
    move = rules.ability_id("Move_Move")
    game.step([UnitCommand(1, move, (int(units["tag"][marine]),), 0, before)])
    while _score(game) == 0 and game.loop < 300:
        game.advance(1)
    assert _score(game) == 1
    after = (float(units["x"][beacon]), float(units["y"][beacon]))
    assert after != before
    away = np.hypot(after[0] - units["x"][marine], after[1] - units["y"][marine])
    assert away >= 5


def test_a_new_set_of_shards_comes_once_all_are_collected() -> None:
    game = _new_game("CollectMineralShards")
    units = game.world.units
    marine = int(_rows(game, 1)[0])
    while _score(game) < 20:
        shard = _rows(game, NEUTRAL)[0]
        units["x"][marine], units["y"][marine] = units["x"][shard], units["y"][shard]
        game.advance(1)
        assert game.loop <= 20
    assert _score(game) == 20
    assert _counts(game, NEUTRAL) == {"MineralShard": 20}
    marines, shards = units[_rows(game, 1)], units[_rows(game, NEUTRAL)]
    for one in marines:
        assert np.hypot(shards["x"] - one["x"], shards["y"] - one["y"]).min() >= 2


@pytest.mark.parametrize(
    ("name", "per_enemy", "more"),
    [("DefeatRoaches", 10, 5), ("DefeatZerglingsAndBanelings", 5, 4)],
)
def test_a_beaten_group_is_followed_by_another_and_brings_marines(
    name: str, per_enemy: int, more: int
) -> None:
    game = _new_game(name)
    enemies = len(_rows(game, 2))
    _kill(game, 1, 2)
    _kill(game, 2, enemies)
    game.advance(1)
    assert _score(game) == enemies * per_enemy - 2
    assert len(_rows(game, 2)) == enemies
    assert len(_rows(game, 1)) == 7 + more
    units = game.world.units
    gap = units["x"][_rows(game, 1)].mean() - units["x"][_rows(game, 2)].mean()
    assert abs(gap) > 8


def test_the_loss_of_all_marines_ends_the_game() -> None:
    game = _new_game("FindAndDefeatZerglings")
    _kill(game, 1, 3)
    game.advance(10)
    assert (game.loop, game.result) == (1, {1: "loss", 2: "win"})
    assert _score(game) == -3


def test_zerglings_are_spread_as_described() -> None:
    game = _new_game("FindAndDefeatZerglings")
    enemies = game.world.units[_rows(game, 2)]
    away = np.hypot(enemies["x"] - 32, enemies["y"] - 32)
    assert ((away >= 7.5) & (away <= 9.5)).sum() == 2
    assert (away >= 10.5).sum() == 23
    for index, one in enumerate(enemies):
        others = np.delete(enemies, index)
        assert np.hypot(others["x"] - one["x"], others["y"] - one["y"]).min() >= 5


def test_finished_marines_and_collected_resources_earn_points() -> None:
    game = _new_game("BuildMarines")
    entry_points.spawn(game.world.state, rules.unit_id("Marine"), 1, 32.0, 32.0, 1.0)
    game.advance(3)
    assert _score(game) == 1
    mining = _new_game("CollectMineralsAndGas")
    mining.advance(1000)
    assert _score(mining) == mining.world.players["collected_minerals"][1] > 100
