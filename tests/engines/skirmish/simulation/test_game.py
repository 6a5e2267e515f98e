import dataclasses
import math

import pytest

from starmill.engines.skirmish.players import bots, match
from starmill.engines.skirmish.simulation import action_results, entry_points, maps
from starmill.engines.skirmish.simulation.game import (
    RECALL,
    REVEAL_LOOPS,
    SET,
    SET_AND_STEAL,
    STALEMATE_LOOPS,
    CameraMove,
    ControlGroup,
    Game,
    Leave,
    PlayerSetup,
    Select,
    UnitCommand,
)
from starmill.schema import errors
from tests.factories import arena

X, Y = arena.OPEN


def test_playing_in_one_go_or_loop_by_loop_is_the_same() -> None:
    one, many = arena.new_game(), arena.new_game()
    one.advance(200)
    for _ in range(200):
        many.step()
    assert one.loop == many.loop == 200
    assert one.state_digest() == many.state_digest()


def test_the_seed_and_every_input_matter() -> None:
    digests = set()
    for seed, move in ((1, False), (2, False), (1, True)):
        game = arena.new_game(seed=seed)
        if move:
            worker = arena.rows_of(game, "SCV", 1)[0]
            arena.command(game, 1, "Move_Move", [worker], point=(40.0, 40.0))
        game.advance(300 - game.loop)
        digests.add(game.state_digest())
    assert len(digests) == 3


def test_a_surrender_ends_the_game_at_once() -> None:
    game = arena.new_game()
    game.advance(10)
    game.step([Leave(2)])
    assert game.result == {1: "win", 2: "loss"}
    assert game.loop == 10
    assert game.advance(5) == 0


def test_losing_the_last_building_loses_the_game() -> None:
    game = arena.new_game()
    hall = arena.rows_of(game, "Hatchery", 2)[0]
    game.world.units["health"][hall] = 1.0
    x, y = arena.unit(game, hall, "x"), arena.unit(game, hall, "y")
    banshee = arena.put(game, "Banshee", 1, x + 6, y)
    arena.look(game)
    arena.command(game, 1, "Attack_Attack", [banshee], target=hall)
    game.advance(100)
    assert game.result == {1: "win", 2: "loss"}


def test_when_nothing_can_change_it_is_a_draw() -> None:
    game = arena.new_game()
    units = game.world.units
    workers = arena.rows_of(game, "SCV", 1) + arena.rows_of(game, "Drone", 2)
    units["alive"][workers + arena.rows_of(game, "Larva", 2)] = 0
    game.world.players["minerals"] = 0
    # Larvae keep coming, but there is no money for them.
    while game.result is None and game.loop < 8000:
        game.advance(500)
    assert game.result == {1: "tie", 2: "tie"}
    assert STALEMATE_LOOPS < game.loop < 7000


def test_both_leaving_at_once_is_a_draw() -> None:
    game = arena.new_game()
    game.world.players["left"][2] = 1
    game.step([Leave(1)])
    assert game.result == {1: "tie", 2: "tie"}


def test_nobody_commands_anothers_units() -> None:
    game = arena.new_game()
    drone = arena.rows_of(game, "Drone", 2)[0]
    arena.command(game, 1, "Move_Move", [drone], point=(40.0, 40.0))
    assert [e.code for e in game.take_errors()] == [87]


def test_general_and_specific_ids_do_the_same() -> None:
    digests = set()
    for ability in (3674, 23):
        game = arena.new_game()
        marine = arena.put(game, "Marine", 1, X, Y)
        tags = (arena.tag(game, marine),)
        game.step([UnitCommand(1, ability, tags, 0, (X + 9, Y))])
        assert game.world.orders["ability"][marine, 0] == 23
        game.advance(20)
        digests.add(game.state_digest())
    assert len(digests) == 1


def test_queued_orders_wait_and_unqueued_ones_replace() -> None:
    game = arena.new_game()
    marine = arena.put(game, "Marine", 1, X, Y)
    arena.command(game, 1, "Move_Move", [marine], point=(X + 3, Y))
    arena.command(game, 1, "Move_Move", [marine], point=(X + 3, Y + 3), queued=True)
    assert arena.unit(game, marine, "order_count") == 2
    game.advance(60)
    assert arena.unit(game, marine, "x") == pytest.approx(X + 3, abs=1.6)
    assert arena.unit(game, marine, "y") == pytest.approx(Y + 3, abs=1.6)
    arena.command(game, 1, "Move_Move", [marine], point=(X, Y))
    assert arena.unit(game, marine, "order_count") == 1


def test_units_find_their_way_down_the_ramps() -> None:
    game = arena.new_game()
    start, target = game.map.starts
    marine = arena.put(game, "Marine", 1, start[0] + 4, start[1] + 4)
    arena.command(game, 1, "Move_Move", [marine], point=(target[0] - 4, target[1] - 4))
    # About 110 cells on foot at 3.15 a second; once there it turns on the drones.
    game.advance(760)
    assert arena.unit(game, marine, "x") == pytest.approx(target[0], abs=5)
    assert arena.unit(game, marine, "y") == pytest.approx(target[1], abs=5)


def test_selections_and_control_groups() -> None:
    game = arena.new_game()
    rows = arena.rows_of(game, "SCV", 1)[:3]
    tags = tuple(arena.tag(game, row) for row in rows)
    game.step([Select(1, tags), ControlGroup(1, 3, SET)])
    assert game.groups[1][3] == tags
    game.step([Select(1, tags[:1])])
    assert game.world.units["selected"].sum() == 1
    game.step([ControlGroup(1, 3, RECALL)])
    assert game.world.units["selected"].sum() == 3
    steal = ControlGroup(1, 4, SET_AND_STEAL)
    game.step([Select(1, tags[:2]), steal])
    assert game.groups[1][3] == tags[2:]


def test_the_camera_stays_on_the_map() -> None:
    game = arena.new_game()
    game.step([CameraMove(1, -50.0, 500.0)])
    record = game.world.players[1]
    assert (record["camera_x"], record["camera_y"]) == (8.0, 112.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e30, -1.0, 176.5])
def test_points_beyond_every_map_are_refused(bad) -> None:
    """Kernels index grids by points: each of these ended the process, or read other memory."""
    game = arena.new_game()
    worker = int(game.world.units["tag"][arena.rows_of(game, "SCV", 1)[0]])
    move, build = 16, 319  # Move, and Build SupplyDepot
    for ability in (move, build):
        for point in ((bad, Y), (X, bad)):
            game.step([UnitCommand(1, ability, (worker,), target_point=point)])
    refused = game.take_errors()
    assert [error.code for error in refused] == [action_results.ERROR] * 4
    assert {(error.player, error.tag) for error in refused} == {(1, worker)}
    assert [error.ability_id for error in refused] == [move, move, build, build]
    game.advance(50)
    assert not any(order["x"] == bad for order in game.world.orders[:, 0])


def test_the_camera_ignores_what_is_no_point() -> None:
    game = arena.new_game()
    game.step([CameraMove(1, 30.0, 31.0)])
    for point in ((math.nan, 5.0), (5.0, math.inf), (math.inf, -math.inf)):
        game.step([CameraMove(1, *point)])
    camera = game.world.players[1]
    assert (camera["camera_x"], camera["camera_y"]) == (30.0, 31.0)


def test_buildings_need_tech_power_and_creep() -> None:
    game = arena.new_game(home=3, away=2)
    for player in (1, 2):
        arena.rich(game, player)
    probe = arena.rows_of(game, "Probe", 1)[0]
    drone = arena.rows_of(game, "Drone", 2)[0]
    start = game.map.starts[0]
    spot = (start[0] + 8.5, start[1] + 0.5)
    arena.command(game, 1, "Build_Gateway", [probe], point=spot)
    arena.put(game, "Pylon", 1, start[0] + 4.5, start[1] - 6.5)
    game.advance(8)
    game.world.visibility[1:] = 2
    arena.command(game, 1, "Build_Gateway", [probe], point=(spot[0] - 8, spot[1] + 9))
    arena.command(game, 2, "Build_SpawningPool", [drone], point=(X, Y))
    assert [e.code for e in game.take_errors()] == [40, 50, 49]


def test_an_add_on_lets_barracks_train_marauders() -> None:
    game = arena.new_game()
    arena.rich(game, 1)
    barracks = arena.put(game, "Barracks", 1, X + 0.5, Y + 0.5)
    arena.command(game, 1, "Train_Marauder", [barracks])
    assert [e.code for e in game.take_errors()] == [79]
    arena.command(game, 1, "Build_TechLab", [barracks])
    game.advance(420)
    lab = int(arena.unit(game, barracks, "addon"))
    assert arena.unit(game, lab, "unit_type") == 37
    arena.command(game, 1, "Train_Marauder", [barracks])
    game.advance(480)
    assert len(arena.rows_of(game, "Marauder", 1)) == 1


def test_morphs_take_their_time_and_change_the_type() -> None:
    game = arena.new_game()
    tank = arena.put(game, "SiegeTank", 1, X, Y)
    arena.command(game, 1, "Morph_SiegeMode", [tank])
    assert arena.unit(game, tank, "unit_type") == 33
    game.advance(61)
    assert arena.unit(game, tank, "unit_type") == 32


def test_gateways_become_warp_gates_and_warp_in() -> None:
    game = arena.new_game(home=3)
    arena.rich(game, 1)
    arena.put(game, "Pylon", 1, X, Y)
    gate = arena.put(game, "Gateway", 1, X + 4.5, Y + 0.5)
    game.world.upgrades[1, 84] = 1
    game.advance(200)
    assert arena.unit(game, gate, "unit_type") == 133
    arena.command(game, 1, "TrainWarp_Zealot", [gate], point=(X - 3, Y))
    zealot = arena.rows_of(game, "Zealot", 1)[0]
    assert arena.unit(game, zealot, "build_progress") < 0.1
    arena.command(game, 1, "TrainWarp_Zealot", [gate], point=(X - 3, Y))
    assert [e.code for e in game.take_errors()] == [6]
    game.advance(120)
    assert arena.unit(game, zealot, "build_progress") == 1.0


def test_transports_carry_and_put_down() -> None:
    game = arena.new_game()
    medivac = arena.put(game, "Medivac", 1, X, Y)
    marine = arena.put(game, "Marine", 1, X + 3, Y)
    arena.command(game, 1, "Load_Medivac", [medivac], target=marine)
    game.advance(40)
    assert arena.unit(game, marine, "carrier") == medivac
    arena.command(game, 1, "UnloadAllAt_Medivac", [medivac], point=(X + 10, Y))
    game.advance(120)
    assert arena.unit(game, marine, "carrier") == -1
    assert arena.unit(game, marine, "x") == pytest.approx(X + 10, abs=2)


def test_available_abilities_follow_tech_and_money() -> None:
    game = arena.new_game()
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    assert 524 in game.available_abilities(hall)
    assert 1516 not in game.available_abilities(hall)  # needs a barracks
    arena.put(game, "Barracks", 1, X + 0.5, Y + 0.5)
    game.advance(1)
    assert 1516 not in game.available_abilities(hall)  # needs 150 minerals
    assert 1516 in game.available_abilities(hall, ignore_cost=True)


def test_events_tell_what_happened() -> None:
    game = arena.new_game()
    game.take_events()
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    arena.command(game, 1, "Train_SCV", [hall])
    game.advance(275)
    events = game.take_events()
    born = events[(events["kind"] == 1) & (events["player"] == 1)]
    assert [int(e["unit_type"]) for e in born] == [45]
    assert 268 <= int(born["loop"][0]) <= 272


def test_bad_setups_are_refused() -> None:
    with pytest.raises(errors.ConfigError, match="race 1 to 3"):
        PlayerSetup(race_requested=4, race=4, start=0)
    setup = PlayerSetup(race_requested=1, race=1, start=0)
    with pytest.raises(errors.ConfigError, match="different starts"):
        Game(maps.MAPS["Amber Basin"], (setup, setup), 1)


def _damage_in_a_fight(command: str, period: int, *, prompt: bool) -> float:
    """Returns what a bunker loses to marines beside it that are ordered every `period` loops."""
    game = arena.new_game(away=1, prompt=prompt)
    bunker = arena.put(game, "Bunker", 2, X + 12, Y)
    marines = [arena.put(game, "Marine", 1, X + 5 + k, Y - 4) for k in range(6)]
    arena.look(game)
    point = (X + 30, Y - 4) if command == "Attack_Attack" else None
    for _ in range(0, 80, period):
        arena.command(game, 1, command, marines, point=point)
        game.advance(period - 1)
    return arena.unit(game, bunker, "health_max") - arena.unit(game, bunker, "health")


@pytest.mark.parametrize("command", ["Attack_Attack", "Stop_Stop", "HoldPosition_Hold"])
def test_units_of_prompt_players_fight_however_often_they_are_ordered(command) -> None:
    once = _damage_in_a_fight(command, 80, prompt=True)
    assert once > 100
    for period in (1, 2, 5):
        often = _damage_in_a_fight(command, period, prompt=True)
        assert often == pytest.approx(once, abs=0.1 * once)
    assert _damage_in_a_fight(command, 1, prompt=False) < 0.85 * once


def test_workers_and_units_that_only_move_do_not_look_at_once() -> None:
    game = arena.new_game(prompt=True)
    worker = arena.put(game, "SCV", 1, X, Y)
    marine = arena.put(game, "Marine", 1, X + 2, Y)
    arena.command(game, 1, "Move_Move", [marine], point=(X + 5, Y))
    arena.command(game, 1, "Stop_Stop", [worker])
    assert arena.unit(game, worker, "engaged") == 0
    assert arena.unit(game, marine, "engaged") == 0


def _remembered(game: Game, player: int) -> set[int]:
    """Returns the rows of the enemy's units that the player remembers."""
    snapshots = game.world.snapshots[player]
    kept = (snapshots["alive"] == 1) & (snapshots["owner"] == 3 - player)
    return {int(row) for row in game.rows_of(snapshots["tag"][kept])}


def test_prompt_players_are_shown_the_buildings_of_an_enemy_without_a_town_hall() -> (
    None
):
    game = arena.new_game(away=1, prompt=True)
    barracks = arena.put(game, "Barracks", 2, X + 40.5, Y + 0.5)
    arena.put(game, "BarracksFlying", 2, X + 40, Y + 9)
    depot = arena.put(game, "SupplyDepot", 2, X + 46, Y)
    beside = arena.put(game, "SupplyDepot", 2, X, Y)
    arena.put(game, "Marine", 1, X + 3, Y)
    hall = arena.rows_of(game, "CommandCenter", 2)[0]
    game.advance(2 * REVEAL_LOOPS)
    assert _remembered(game, 1) == set()
    entry_points.kill(game.world.state, hall, -1)
    game.advance(REVEAL_LOOPS)
    assert _remembered(game, 1) == {barracks, depot}
    assert arena.unit(game, beside, "seen") & 2
    for row in arena.rows_of(game, "CommandCenter", 1):
        entry_points.kill(game.world.state, row, -1)
    game.advance(REVEAL_LOOPS)
    assert _remembered(game, 2) == set()  # this player is not prompt


def test_buildings_are_shown_however_the_game_is_played() -> None:
    one, many = (arena.new_game(away=1, prompt=True) for _ in range(2))
    for game in (one, many):
        arena.put(game, "Barracks", 2, X + 40.5, Y + 0.5)
        hall = arena.rows_of(game, "CommandCenter", 2)[0]
        entry_points.kill(game.world.state, hall, -1)
    one.advance(2 * REVEAL_LOOPS + 9)
    for _ in range(2 * REVEAL_LOOPS + 9):
        many.step()
    assert _remembered(one, 1)
    assert one.state_digest() == many.state_digest()


def test_a_record_of_inputs_plays_the_same_game_again() -> None:
    setups = (
        PlayerSetup(race_requested=2, race=2, start=1),
        PlayerSetup(race_requested=4, race=3, start=0),
    )
    game_map = maps.MAPS["Twin Ridges"]
    players = [bots.human(6000, 2, 3), bots.human(3000, 3, 4)]
    played = match.play_match(game_map, setups, players, 11, max_loops=4000)
    again = match.replay_match(played)
    assert again.loop == played.loops
    other = match.replay_match(dataclasses.replace(played, inputs=played.inputs[:-40]))
    assert again.state_digest() != other.state_digest()
    assert again.state_digest() == match.replay_match(played).state_digest()
