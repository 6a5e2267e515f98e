import numpy as np
import pytest

from starmill.converters.protos import query_pb2
from starmill.engines.skirmish.server import queries
from starmill.engines.skirmish.simulation import action_results, entry_points, rules
from starmill.engines.skirmish.simulation.game import Game, UnitCommand
from tests.factories import arena


def _slow_length(walkable, start, end):
    """Relaxes all cells until nothing changes; [row, column] cells of two units."""
    height, width = walkable.shape
    lengths = np.full(walkable.shape, np.inf)
    lengths[int(start[1] // 2), int(start[0] // 2)] = 0.0
    changed = True
    while changed:
        changed = False
        for row in range(height):
            for column in range(width):
                for dy in (-1, 0, 1):
                    for dx in (-1, 0, 1):
                        to = (row + dy, column + dx)
                        if not (0 <= to[0] < height and 0 <= to[1] < width):
                            continue
                        length = lengths[row, column] + 2 * float(np.hypot(dy, dx))
                        if walkable[to] and length < lengths[to] - 1e-9:
                            lengths[to] = length
                            changed = True
    length = lengths[int(end[1] // 2), int(end[0] // 2)]
    straight = float(np.hypot(end[0] - start[0], end[1] - start[1]))
    return max(float(length), straight) if np.isfinite(length) else 0.0


@pytest.mark.parametrize("seed", range(6))
def test_path_lengths_are_those_of_a_slow_search(seed):
    rng = np.random.default_rng(seed)
    walkable = rng.random((9, 11)) < 0.7
    for _ in range(5):
        start, end = rng.uniform(0, 18, 2), rng.uniform(0, 18, 2)
        walkable[int(start[1] // 2), int(start[0] // 2)] = True
        length = queries.path_length(walkable, tuple(start), tuple(end))
        assert length == pytest.approx(_slow_length(walkable, start, end))


def test_points_outside_the_map_have_no_path():
    walkable = np.ones((4, 4), bool)
    assert queries.path_length(walkable, (1.0, 1.0), (7.0, 7.0)) > 8.0
    assert queries.path_length(walkable, (1.0, 1.0), (9.0, 1.0)) == 0.0
    assert queries.path_length(walkable, (-1.0, 1.0), (1.0, 1.0)) == 0.0


def test_only_own_units_tell_what_they_can_do():
    game = arena.new_game()
    scv = arena.tag(game, arena.rows_of(game, "SCV", 1)[0])
    drone = arena.tag(game, arena.rows_of(game, "Drone", 2)[0])
    request = query_pb2.RequestQuery()
    for tag in (scv, drone, 12345, 1 << 63):
        request.abilities.add(unit_tag=tag)
    own, enemy, unknown, huge = queries.response(game, 1, request).abilities
    assert own.unit_type_id == rules.unit_id("SCV")
    assert rules.ability_id("Stop_Stop") in {a.ability_id for a in own.abilities}
    assert not enemy.abilities and not unknown.abilities and not huge.abilities


def _abilities(game, row):
    """Returns the names of what player 1's unit can do, whatever it costs."""
    request = query_pb2.RequestQuery(ignore_resource_requirements=True)
    request.abilities.add(unit_tag=arena.tag(game, row))
    (answer,) = queries.response(game, 1, request).abilities
    return {
        name
        for name in _NAMES
        if rules.ability_id(name) in {a.ability_id for a in answer.abilities}
    }


_NAMES = (
    *("Halt_TerranBuild", "Harvest_Return_SCV", "Harvest_Gather_SCV", "Cancel_Queue5"),
    *("Cancel_MorphOrbital", "Train_SCV", "Rally_CommandCenter", "Lift_CommandCenter"),
    *("Load_Bunker", "UnloadAll_Bunker", "UnloadUnit_Bunker"),
)


def test_workers_return_what_they_carry_and_halt_what_they_build():
    game = arena.new_game()
    arena.rich(game, 1)
    scv = arena.put(game, "SCV", 1, *arena.OPEN)
    assert _abilities(game, scv) == {"Harvest_Gather_SCV"}
    game.world.units["carry_minerals"][scv] = 5
    assert _abilities(game, scv) == {"Harvest_Gather_SCV", "Harvest_Return_SCV"}
    game.world.units["carry_minerals"][scv] = 0
    x, y = arena.OPEN
    arena.command(game, 1, "Build_SupplyDepot", [scv], point=(x + 9, y))
    assert "Halt_TerranBuild" not in _abilities(game, scv)
    game.advance(100)
    assert "Halt_TerranBuild" in _abilities(game, scv)


def test_buildings_cancel_what_they_make_or_become():
    game = arena.new_game()
    arena.rich(game, 1)
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    idle = {"Train_SCV", "Rally_CommandCenter", "Lift_CommandCenter"}
    assert _abilities(game, hall) == idle
    arena.command(game, 1, "Train_SCV", [hall])
    assert _abilities(game, hall) >= {"Train_SCV", "Cancel_Queue5"}
    game.advance(300)
    arena.put(game, "Barracks", 1, *arena.OPEN)
    game.advance(1)
    arena.command(game, 1, "Morph_OrbitalCommand", [hall])
    game.advance(1)
    assert _abilities(game, hall) == {"Cancel_MorphOrbital"}


def test_only_a_carrier_with_passengers_unloads():
    game = arena.new_game()
    x, y = arena.OPEN
    bunker = arena.put(game, "Bunker", 1, x + 0.5, y + 0.5)
    marine = arena.put(game, "Marine", 1, x + 2.5, y)
    assert _abilities(game, bunker) == {"Load_Bunker"}
    arena.command(game, 1, "Load_Bunker", [bunker], target=marine)
    game.advance(20)
    unload = {"UnloadAll_Bunker", "UnloadUnit_Bunker"}
    assert _abilities(game, bunker) == {"Load_Bunker"} | unload


def test_places_for_warping_in_are_those_that_the_command_accepts():
    game = arena.new_game(home=3)
    arena.rich(game, 1)
    x, y = arena.OPEN
    arena.put(game, "Pylon", 1, x, y)
    gate = arena.put(game, "WarpGate", 1, x + 4.5, y + 0.5)
    game.world.units["powered"][gate] = 1
    game.world.upgrades[1] = 1
    game.advance(40)
    arena.look(game)
    warp = rules.ability_id("TrainWarp_Zealot")
    request = query_pb2.RequestQuery()
    places = [(x - 4 + k, y - 4 + j) for k in range(12) for j in range(12)]
    for place in places:
        asked = request.placements.add(ability_id=warp)
        asked.target_pos.x, asked.target_pos.y = place
    codes = [a.result for a in queries.response(game, 1, request).placements]
    expected = [
        game.command_error(
            UnitCommand(1, warp, (arena.tag(game, gate),), target_point=place)
        )
        for place in places
    ]
    assert codes == expected
    assert len(set(codes)) == 2


def test_placements_say_whether_a_building_fits():
    game = arena.new_game()
    arena.rich(game, 1)
    request = query_pb2.RequestQuery()
    depot = rules.ability_id("Build_SupplyDepot")
    start = game.map.starts[0]
    near = (start[0] + 6.0, start[1] + 6.0)
    free = entry_points.find_place(
        game.world.state, 1, rules.unit_id("SupplyDepot"), *near, 0
    )
    far = (float(game.map.width) + 5.0, 3.0)
    for ability, (x, y) in (
        (depot, free),
        (depot, start),
        (depot, far),
        (0, arena.OPEN),
        (rules.ability_id("Stop_Stop"), arena.OPEN),
    ):
        place = request.placements.add(ability_id=ability)
        place.target_pos.x, place.target_pos.y = x, y
    results = [p.result for p in queries.response(game, 1, request).placements]
    assert results[0] == action_results.SUCCESS
    assert results[1] not in (0, action_results.SUCCESS)
    invalid = action_results.CANT_BUILD_LOCATION_INVALID
    assert results[2:] == [invalid, action_results.NOT_SUPPORTED, invalid]


def _hall_fits_at(game: Game, place: tuple[float, float]) -> bool:
    request = query_pb2.RequestQuery()
    question = request.placements.add(
        ability_id=rules.ability_id("Build_CommandCenter")
    )
    question.target_pos.x, question.target_pos.y = place
    (answer,) = queries.response(game, 1, request).placements
    return answer.result == action_results.SUCCESS


@pytest.mark.parametrize(
    ("kind", "player", "watcher", "fits"),
    [
        ("Zealot", 2, None, True),
        ("SupplyDepot", 2, None, True),
        ("Zealot", 2, "Overlord", False),
        ("SupplyDepot", 2, "Overlord", False),
        ("DarkTemplar", 2, "Overlord", True),
        ("DarkTemplar", 2, "Observer", False),
        ("RoachBurrowed", 2, "Overlord", True),
        ("RoachBurrowed", 2, "Observer", False),
        ("Overlord", 2, "Overlord", True),
        ("Zealot", 1, None, True),
        ("SiegeTankSieged", 1, None, False),
        ("SupplyDepot", 1, None, False),
    ],
)
def test_places_are_judged_by_what_the_player_sees(kind, player, watcher, fits):
    game = arena.new_game()
    assert _hall_fits_at(game, arena.OPEN)
    row = arena.put(game, kind, player, *arena.OPEN)
    if watcher:
        arena.put(game, watcher, 1, arena.OPEN[0] + 4.0, arena.OPEN[1])
    arena.look(game)
    before = game.state_digest()
    assert _hall_fits_at(game, arena.OPEN) == fits
    assert game.state_digest() == before  # questions change nothing
    beside = (arena.OPEN[0] + 3.0 + arena.unit(game, row, "radius"), arena.OPEN[1])
    assert _hall_fits_at(game, beside)


def test_flying_units_go_straight():
    game = arena.new_game(home=2)
    overlord = arena.rows_of(game, "Overlord", 1)[0]
    x, y = arena.unit(game, overlord, "x"), arena.unit(game, overlord, "y")
    request = query_pb2.RequestQuery()
    question = request.pathing.add(unit_tag=arena.tag(game, overlord))
    question.end_pos.x, question.end_pos.y = x + 3.0, y + 4.0
    (answer,) = queries.response(game, 1, request).pathing
    assert answer.distance == pytest.approx(5.0)
