"""How long things take to make, what they cost, and what becomes of who makes them."""

import pytest

from starmill.engines.skirmish.simulation.game import Game
from tests.factories import arena

X, Y = arena.OPEN


def _money(game: Game) -> tuple[int, int]:
    player = game.world.players[1]
    return int(player["minerals"]), int(player["vespene"])


@pytest.mark.parametrize(
    ("race", "building", "ability", "unit", "loops"),
    [
        # Seconds of the game times 22.4, rounded: 12, 18, 27, 50.
        (1, "CommandCenter", "Train_SCV", "SCV", 269),
        (1, "Barracks", "Train_Marine", "Marine", 403),
        (3, "Gateway", "Train_Zealot", "Zealot", 605),
        (2, "Hatchery", "Train_Queen", "Queen", 806),
    ],
)
def test_training_takes_as_long_as_in_the_game(
    race: int, building: str, ability: str, unit: str, loops: int
) -> None:
    game = arena.new_game(home=race)
    arena.rich(game, 1)
    if race == 2:
        arena.put(game, "SpawningPool", 1, X - 6.5, Y + 0.5)
    if race == 3:
        arena.put(game, "Pylon", 1, X - 3, Y)
    maker = arena.put(game, building, 1, X + 0.5, Y + 0.5)
    game.advance(8)
    before = len(arena.rows_of(game, unit, 1))
    arena.command(game, 1, ability, [maker])  # also plays the first loop
    game.advance(loops - 2)
    assert len(arena.rows_of(game, unit, 1)) == before
    game.advance(2)
    assert len(arena.rows_of(game, unit, 1)) == before + 1


def test_chrono_boost_saves_a_third_of_the_time() -> None:
    game = arena.new_game(home=3)
    nexus = arena.rows_of(game, "Nexus", 1)[0]
    game.world.units["energy"][nexus] = 50.0
    arena.command(game, 1, "Effect_ChronoBoostEnergyCost", [nexus], target=nexus)
    arena.command(game, 1, "Train_Probe", [nexus])
    game.advance(269 * 2 // 3 - 2)
    assert len(arena.rows_of(game, "Probe", 1)) == 12
    game.advance(4)
    assert len(arena.rows_of(game, "Probe", 1)) == 13


@pytest.mark.parametrize(("add_on", "trained"), [(None, 1), ("BarracksReactor", 2)])
def test_a_reactor_doubles_what_a_building_trains(
    add_on: str | None, trained: int
) -> None:
    game = arena.new_game()
    arena.rich(game, 1)
    barracks = arena.put(game, "Barracks", 1, X + 0.5, Y + 0.5)
    if add_on:
        game.world.units["addon"][barracks] = arena.put(game, add_on, 1, X + 3, Y)
    for _ in range(3):
        arena.command(game, 1, "Train_Marine", [barracks])
    game.advance(420)
    assert len(arena.rows_of(game, "Marine", 1)) == trained


@pytest.mark.parametrize(
    ("target", "ability"),
    [
        (None, 16),  # to a point: move there
        ("field", 295),  # to a mineral field: gather there
    ],
)
def test_new_workers_go_to_the_rally_point(target: str | None, ability: int) -> None:
    game = arena.new_game()
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    units = game.world.units
    resource = game.map.bases[0].resources[0]
    at_field = (units["x"] == resource.x) & (units["y"] == resource.y)
    field = int(at_field.nonzero()[0][0])
    if target is None:
        arena.command(game, 1, "Rally_CommandCenter", [hall], point=(X, Y))
    else:
        arena.command(game, 1, "Rally_CommandCenter", [hall], target=field)
    before = set(arena.rows_of(game, "SCV", 1))
    arena.command(game, 1, "Train_SCV", [hall])
    game.advance(271)
    (worker,) = set(arena.rows_of(game, "SCV", 1)) - before
    assert game.world.orders["ability"][worker, 0] == ability


def test_a_terran_building_waits_while_nobody_builds_it() -> None:
    game = arena.new_game()
    arena.rich(game, 1)
    worker = arena.rows_of(game, "SCV", 1)[0]
    x, y = game.map.starts[0]
    arena.command(game, 1, "Build_SupplyDepot", [worker], point=(x + 7, y))
    game.advance(200)
    (depot,) = arena.rows_of(game, "SupplyDepot", 1)
    assert 0 < arena.unit(game, depot, "build_progress") < 1
    arena.command(game, 1, "Stop_Stop", [worker])
    game.advance(2)
    progress = arena.unit(game, depot, "build_progress")
    game.advance(50)
    assert arena.unit(game, depot, "build_progress") == progress
    arena.command(game, 1, "Build_SupplyDepot", [worker], target=depot)
    game.advance(470)
    assert arena.unit(game, depot, "build_progress") == 1.0
    assert _money(game)[0] >= 4900  # paid once
    assert arena.unit(game, worker, "alive") == 1


def test_a_drone_becomes_the_building_and_a_probe_leaves() -> None:
    for race, worker, ability, building in (
        (2, "Drone", "Build_EvolutionChamber", "EvolutionChamber"),
        (3, "Probe", "Build_Pylon", "Pylon"),
    ):
        game = arena.new_game(home=race)
        arena.rich(game, 1)
        builder = arena.rows_of(game, worker, 1)[0]
        tag = arena.tag(game, builder)
        x, y = game.map.starts[0]
        arena.command(game, 1, ability, [builder], point=(x + 6.5, y + 0.5))
        game.advance(150)
        assert len(arena.rows_of(game, building, 1)) == 1
        assert len(game.rows_of([tag])) == (0 if race == 2 else 1)


@pytest.mark.parametrize(
    ("building", "back"),
    [("SupplyDepot", (75, 0)), ("Factory", (112, 75)), ("CommandCenter", (300, 0))],
)
def test_a_cancelled_building_gives_three_quarters_back(
    building: str, back: tuple[int, int]
) -> None:
    game = arena.new_game()
    site = arena.put(game, building, 1, X + 0.5, Y + 0.5, done=0.5)
    game.world.players["minerals"][1] = 0
    arena.command(game, 1, "Cancel_BuildInProgress", [site])
    assert _money(game) == back
    assert arena.rows_of(game, building, 1) == (
        arena.rows_of(game, "CommandCenter", 1) if building == "CommandCenter" else []
    )


def test_a_cancelled_morph_gives_all_back_and_the_old_type() -> None:
    game = arena.new_game(home=2)
    arena.put(game, "Lair", 1, X + 0.5, Y + 0.5)
    game.advance(1)
    arena.rich(game, 1)
    overlord = arena.rows_of(game, "Overlord", 1)[0]
    arena.command(game, 1, "Morph_Overseer", [overlord])
    assert _money(game) == (4950, 4950)
    assert arena.unit(game, overlord, "unit_type") == 128  # a cocoon
    arena.command(game, 1, "Cancel_MorphOverseer", [overlord])
    assert _money(game) == (5000, 5000)
    assert arena.unit(game, overlord, "unit_type") == 106


def test_research_gives_every_unit_its_level() -> None:
    game = arena.new_game()
    arena.rich(game, 1)
    marine = arena.put(game, "Marine", 1, X, Y)
    enemy = arena.put(game, "Marine", 2, X + 20, Y)
    bay = arena.put(game, "EngineeringBay", 1, X + 0.5, Y + 8.5)
    ability = "Research_TerranInfantryWeaponsLevel1"
    arena.command(game, 1, ability, [bay])
    loops = 0
    while not game.world.upgrades[1, 7]:
        assert arena.unit(game, marine, "attack_level") == 0
        game.advance(10)
        loops += 10
    assert loops == pytest.approx(114 * 22.4, abs=12)
    assert arena.unit(game, marine, "attack_level") == 1
    assert arena.unit(game, enemy, "attack_level") == 0
    late = arena.put(game, "Marine", 1, X + 3, Y)
    assert arena.unit(game, late, "attack_level") == 0  # `put` sets no levels
    assert game.world.researching[1].sum() == 0


def test_two_zerglings_hatch_from_one_egg() -> None:
    game = arena.new_game(home=2)
    arena.rich(game, 1)
    arena.put(game, "SpawningPool", 1, X + 0.5, Y + 0.5)
    game.advance(1)
    larva = arena.rows_of(game, "Larva", 1)[0]
    arena.command(game, 1, "Train_Zergling", [larva])
    assert arena.rows_of(game, "Cocoon", 1) == [larva]
    game.advance(400)  # 17 seconds and a little
    assert len(arena.rows_of(game, "Zergling", 1)) == 2
    assert arena.rows_of(game, "Cocoon", 1) == []


def test_two_templars_merge_into_an_archon() -> None:
    game = arena.new_game(home=3)
    first = arena.put(game, "HighTemplar", 1, X, Y)
    second = arena.put(game, "HighTemplar", 1, X + 3, Y)
    third = arena.put(game, "HighTemplar", 1, X + 6, Y)
    arena.command(game, 1, "Morph_Archon", [first, second, third])
    game.advance(400)
    assert arena.rows_of(game, "Archon", 1) == [first]
    assert arena.rows_of(game, "HighTemplar", 1) == [third]
    assert arena.unit(game, first, "shield") == arena.unit(game, first, "shield_max")


def test_a_building_lifts_off_and_lands_elsewhere() -> None:
    game = arena.new_game()
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    for worker in arena.rows_of(game, "SCV", 1):
        game.world.units["alive"][worker] = 0
    arena.command(game, 1, "Lift_CommandCenter", [hall])
    game.advance(60)
    assert arena.rows_of(game, "CommandCenterFlying", 1) == [hall]
    x, y = arena.unit(game, hall, "x") + 9, arena.unit(game, hall, "y")
    assert game.world.occupied[int(y), int(x)] & 1 == 0
    arena.command(game, 1, "Land_CommandCenter", [hall], point=(x, y))
    game.advance(300)
    assert arena.rows_of(game, "CommandCenter", 1) == [hall]
    assert (arena.unit(game, hall, "x"), arena.unit(game, hall, "y")) == (x, y)
    assert game.world.occupied[int(y), int(x)] & 1 == 1
