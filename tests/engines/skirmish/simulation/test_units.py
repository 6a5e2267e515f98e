"""Units' rows, tags, buffs and logs, and the game's random numbers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from starmill.engines.skirmish.simulation import entry_points, records, rules, units
from tests.factories import arena

X, Y = arena.OPEN


def _slow_splitmix(state: int) -> tuple[int, int]:
    """Returns the next state and the next number, in unbounded integers."""
    mask = (1 << 64) - 1
    state = (state + 0x9E3779B97F4A7C15) & mask
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return state, z ^ (z >> 31)


def test_random_numbers_are_splitmix64() -> None:
    random_below: Any = units.random_below
    world = SimpleNamespace(clock=np.zeros(8, np.int64))
    world.clock[records.RNG] = 1234567
    state, expected, numbers = 1234567, [], []
    with np.errstate(over="ignore"):
        for _ in range(50):
            state, number = _slow_splitmix(state)
            expected.append((number >> 33) % 200)
            numbers.append(random_below.py_func(world, 200))
    assert numbers == expected
    assert int(world.clock[records.RNG]) % (1 << 64) == state


def test_a_row_is_used_again_and_a_tag_is_not() -> None:
    game = arena.new_game()
    first = arena.put(game, "Marine", 1, X, Y)
    tag = arena.tag(game, first)
    assert tag == (first + 1) << 18 | 1
    entry_points.kill(game.world.state, first, -1)
    assert len(game.rows_of([tag])) == 0
    second = arena.put(game, "Marauder", 1, X, Y)
    assert second == first
    assert arena.tag(game, second) == (first + 1) << 18 | 2
    assert arena.unit(game, second, "health") == 125


def test_there_is_room_for_2048_units() -> None:
    game = arena.new_game()
    marine = rules.unit_id("Marine")
    rows = [
        entry_points.spawn(game.world.state, marine, 1, X, Y, 1.0) for _ in range(2049)
    ]
    assert rows[-1] == -1
    assert (game.world.units["alive"][:2048] == 1).all()
    assert game.world.units["alive"][2048] == 0  # the blank row


def test_a_full_log_drops_events_and_goes_on_once_it_is_read() -> None:
    game = arena.new_game()
    game.take_events()
    marine = rules.unit_id("Marine")
    for _ in range(2100):
        row = entry_points.spawn(game.world.state, marine, 1, X, Y, 1.0)
        entry_points.kill(game.world.state, row, -1)
    events = game.take_events()
    assert len(events) == 4096
    kinds = [records.EVENT_BORN, records.EVENT_DIED] * 2048
    assert list(events["kind"]) == kinds
    arena.put(game, "Marine", 1, X, Y)
    assert len(game.take_events()) == 1


def test_a_death_is_scored_for_the_other_player() -> None:
    game = arena.new_game()
    marauder = arena.put(game, "Marauder", 1, X, Y)
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    phantom = arena.put(game, "Marauder", 1, X, Y)
    game.world.units["hallucination"][phantom] = 1
    for row in (marauder, hall, phantom):
        entry_points.kill(game.world.state, row, -1)
    loser, winner = game.world.players[1], game.world.players[2]
    assert (loser["lost_minerals"], loser["lost_vespene"]) == (500, 25)
    assert (winner["killed_minerals"], winner["killed_vespene"]) == (500, 25)
    assert (winner["killed_structures"], winner["killed_units"]) == (1, 1)


@pytest.mark.parametrize(
    ("unit", "upgrade", "creep", "per_second"),
    [
        ("Zergling", None, False, 4.13),
        ("Zergling", None, True, 4.13 * 1.3),
        ("Zergling", "MetabolicBoost", False, 6.58),
        ("Queen", None, True, 1.31 * 2.6),
        ("Drone", None, True, 3.94),  # workers are no faster on creep
    ],
)
def test_speed(unit: str, upgrade: str | None, creep: bool, per_second: float) -> None:
    game = arena.new_game(home=2)
    if upgrade:
        game.world.upgrades[1, rules.upgrade_id(upgrade)] = 1
    row = arena.put(game, unit, 1, X - 5, Y)
    arena.command(game, 1, "Move_Move", [row], point=(X + 15, Y))
    game.world.creep[:] = creep
    x = arena.unit(game, row, "x")
    game.advance(10)  # creep is redrawn at loop 32
    moved = arena.unit(game, row, "x") - x
    assert moved == pytest.approx(10 * per_second / 22.4, rel=0.02)
