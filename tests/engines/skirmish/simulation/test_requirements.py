"""Why the game refuses an order, as codes of the protocol, and what a unit can do now."""

from collections.abc import Callable

import pytest

from starmill.engines.skirmish.simulation import rules
from starmill.engines.skirmish.simulation.game import Game, UnitCommand
from tests.factories import arena

X, Y = arena.OPEN
ATTACKS = ("Attack_Attack", "Attack_AttackBuilding", "Scan_Move")
# Codes of the protocol's ActionResult.
NOT_SUPPORTED, ERROR, CANT_QUEUE, COOLDOWN, QUEUE_IS_FULL = 2, 3, 4, 6, 7
NO_MINERALS, NO_VESPENE, NO_FOOD, NO_LIFE, NO_ENERGY = 9, 10, 13, 15, 17
CANT_TARGET, BUILD_TECH, FAR_FROM_CREEP, FAR_FROM_POWER = 36, 40, 49, 50
UNDER_CONSTRUCTION, NO_ROOM, CANT_WARP, CANT_LOAD, TECH = 64, 67, 69, 73, 79
MUST_TARGET, MUST_TARGET_RESOURCES = 81, 89


def _code(game: Game) -> int:
    """Returns the only refusal so far, or 0 if there was none."""
    refused = game.take_errors()
    assert len(refused) <= 1
    return refused[0].code if refused else 0


def _spend(game: Game, minerals: int, vespene: int) -> None:
    game.world.players["minerals"][1] = minerals
    game.world.players["vespene"][1] = vespene


def _without_money(game: Game) -> None:
    barracks = arena.put(game, "Barracks", 1, X + 0.5, Y + 0.5)
    _spend(game, 49, 0)
    arena.command(game, 1, "Train_Marine", [barracks])


def _without_gas(game: Game) -> None:
    barracks = arena.put(game, "Barracks", 1, X + 0.5, Y + 0.5)
    _spend(game, 50, 49)
    arena.command(game, 1, "Train_Reaper", [barracks])


def _with_just_enough(game: Game) -> None:
    barracks = arena.put(game, "Barracks", 1, X + 0.5, Y + 0.5)
    _spend(game, 50, 50)
    arena.command(game, 1, "Train_Reaper", [barracks])


def _without_depot(game: Game) -> None:
    arena.rich(game, 1)
    worker = arena.rows_of(game, "SCV", 1)[0]
    arena.command(game, 1, "Build_Barracks", [worker], point=(X, Y))


def _without_tech_lab(game: Game) -> None:
    arena.rich(game, 1)
    barracks = arena.put(game, "Barracks", 1, X + 0.5, Y + 0.5)
    arena.command(game, 1, "Train_Marauder", [barracks])


def _without_upgrade(game: Game) -> None:
    marine = arena.put(game, "Marine", 1, X, Y)
    arena.command(game, 1, "Effect_Stim_Marine", [marine])


def _without_life(game: Game) -> None:
    game.world.upgrades[1, 15] = 1
    marine = arena.put(game, "Marine", 1, X, Y)
    game.world.units["health"][marine] = 10.0
    arena.command(game, 1, "Effect_Stim_Marine", [marine])


def _without_energy(game: Game) -> None:
    orbital = arena.put(game, "OrbitalCommand", 1, X + 0.5, Y + 0.5)
    game.world.units["energy"][orbital] = 49.0
    arena.command(game, 1, "Effect_Scan", [orbital], point=(X, Y))


def _with_a_full_queue(game: Game) -> None:
    arena.rich(game, 1)
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    for _ in range(6):
        arena.command(game, 1, "Train_SCV", [hall])


def _with_a_reactor(game: Game) -> None:
    arena.rich(game, 1)
    barracks = arena.put(game, "Barracks", 1, X + 0.5, Y + 0.5)
    reactor = arena.put(game, "BarracksReactor", 1, X + 3, Y)
    game.world.units["addon"][barracks] = reactor
    for _ in range(8):
        arena.command(game, 1, "Train_Marine", [barracks])


def _in_an_unfinished_building(game: Game) -> None:
    arena.rich(game, 1)
    barracks = arena.put(game, "Barracks", 1, X + 0.5, Y + 0.5, done=0.5)
    arena.command(game, 1, "Train_Marine", [barracks])


def _with_another_units_ability(game: Game) -> None:
    marine = arena.put(game, "Marine", 1, X, Y)
    arena.command(game, 1, "Train_SCV", [marine])


def _gather_at_a_hall(game: Game) -> None:
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    worker = arena.rows_of(game, "SCV", 1)[0]
    arena.command(game, 1, "Harvest_Gather", [worker], target=hall)


def _call_a_mule_on_a_hall(game: Game) -> None:
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    orbital = arena.put(game, "OrbitalCommand", 1, X + 0.5, Y + 0.5)
    arena.command(game, 1, "Effect_CalldownMULE", [orbital], target=hall)


def _repair_what_is_whole(game: Game) -> None:
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    worker = arena.rows_of(game, "SCV", 1)[0]
    arena.command(game, 1, "Effect_Repair_SCV", [worker], target=hall)


def _repair_what_is_damaged(game: Game) -> None:
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    game.world.units["health"][hall] = 1499.0
    worker = arena.rows_of(game, "SCV", 1)[0]
    arena.command(game, 1, "Effect_Repair_SCV", [worker], target=hall)


def _load_too_many(game: Game) -> None:
    medivac = arena.put(game, "Medivac", 1, X, Y)
    game.world.units["cargo_used"][medivac] = 8
    marine = arena.put(game, "Marine", 1, X + 2, Y)
    arena.command(game, 1, "Load_Medivac", [medivac], target=marine)


def _load_an_enemy(game: Game) -> None:
    medivac = arena.put(game, "Medivac", 1, X, Y)
    zergling = arena.put(game, "Zergling", 2, X + 2, Y)
    arena.look(game)
    arena.command(game, 1, "Load_Medivac", [medivac], target=zergling)


def _build_without_a_place(game: Game) -> None:
    arena.rich(game, 1)
    worker = arena.rows_of(game, "SCV", 1)[0]
    arena.command(game, 1, "Build_SupplyDepot", [worker])


CASES = [
    (_without_money, NO_MINERALS),
    (_without_gas, NO_VESPENE),
    (_with_just_enough, 0),
    (_without_depot, BUILD_TECH),
    (_without_tech_lab, TECH),
    (_without_upgrade, TECH),
    (_without_life, NO_LIFE),
    (_without_energy, NO_ENERGY),
    (_with_a_full_queue, QUEUE_IS_FULL),
    (_with_a_reactor, 0),
    (_in_an_unfinished_building, UNDER_CONSTRUCTION),
    (_with_another_units_ability, NOT_SUPPORTED),
    (_gather_at_a_hall, MUST_TARGET_RESOURCES),
    (_call_a_mule_on_a_hall, MUST_TARGET_RESOURCES),
    (_repair_what_is_whole, CANT_TARGET),
    (_repair_what_is_damaged, 0),
    (_load_too_many, NO_ROOM),
    (_load_an_enemy, CANT_LOAD),
    (_build_without_a_place, MUST_TARGET),
]


@pytest.mark.parametrize(
    ("case", "code"), CASES, ids=[case.__name__[1:] for case, _ in CASES]
)
def test_a_terran_order_is_refused_with_the_code(
    case: Callable[[Game], None], code: int
) -> None:
    game = arena.new_game()
    case(game)
    assert _code(game) == code


def test_protoss_production_needs_power() -> None:
    game = arena.new_game(home=3)
    arena.rich(game, 1)
    gateway = arena.put(game, "Gateway", 1, X + 4.5, Y + 0.5)
    arena.command(game, 1, "Train_Zealot", [gateway])
    assert _code(game) == ERROR
    arena.put(game, "Pylon", 1, X, Y)
    game.advance(8)
    arena.command(game, 1, "Train_Zealot", [gateway])
    assert _code(game) == 0


def test_units_are_warped_in_where_there_is_power() -> None:
    game = arena.new_game(home=3)
    arena.rich(game, 1)
    arena.put(game, "Pylon", 1, X, Y)
    gate = arena.put(game, "WarpGate", 1, X + 4.5, Y + 0.5)
    game.advance(8)
    for x, code in ((X - 9, CANT_WARP), (X - 3, 0), (X - 3, COOLDOWN)):
        arena.command(game, 1, "TrainWarp_Zealot", [gate], point=(x, Y))
        assert _code(game) == code


def test_eggs_need_food_before_they_are_laid() -> None:
    game = arena.new_game(home=2)
    arena.rich(game, 1)
    larvae = arena.rows_of(game, "Larva", 1)
    for larva in larvae[:2]:  # 12 drones and two more: all that one overlord feeds
        arena.command(game, 1, "Train_Drone", [larva])
    assert _code(game) == 0
    arena.command(game, 1, "Train_Drone", [larvae[2]])
    assert _code(game) == NO_FOOD
    arena.command(game, 1, "Train_Overlord", [larvae[2]])
    assert _code(game) == 0


def test_only_hatcheries_without_an_inject_take_one() -> None:
    game = arena.new_game(home=2)
    hall = arena.rows_of(game, "Hatchery", 1)[0]
    drone = arena.rows_of(game, "Drone", 1)[0]
    x, y = arena.unit(game, hall, "x") + 3.5, arena.unit(game, hall, "y")
    queen = arena.put(game, "Queen", 1, x, y)
    game.world.units["energy"][queen] = 100.0
    codes = []
    for target in (drone, hall, hall):
        arena.command(game, 1, "Effect_InjectLarva", [queen], target=target)
        game.advance(3)
        codes.append(_code(game))
    assert codes == [CANT_TARGET, 0, CANT_TARGET]


def test_levels_of_an_upgrade_follow_one_another() -> None:
    game = arena.new_game()
    arena.rich(game, 1)
    bay = arena.put(game, "EngineeringBay", 1, X + 0.5, Y + 0.5)
    general = rules.ability_id("Research_TerranInfantryWeapons")
    tags = (arena.tag(game, bay),)
    game.step([UnitCommand(1, general, tags)])
    assert game.world.orders["ability"][bay, 0] == 652
    game.world.units["order_count"][bay] = 0
    game.world.upgrades[1, 7] = 1
    game.step([UnitCommand(1, general, tags)])
    assert _code(game) == TECH  # level 2 needs an armory
    arena.put(game, "Armory", 1, X + 6.5, Y + 0.5)
    game.advance(1)
    game.step([UnitCommand(1, general, tags)])
    assert game.world.orders["ability"][bay, 0] == 653


def _names(game: Game, row: int) -> set[str]:
    names = {number: name for name, number in rules.ability_names().items()}
    return {names[ability] for ability in game.available_abilities(row)}


def test_what_a_marine_can_do() -> None:
    game = arena.new_game()
    marine = arena.put(game, "Marine", 1, X, Y)
    always = {
        *("Smart", "Move_Move", "Patrol_Patrol", "HoldPosition_Hold"),
        *("Stop_Stop", "Attack_Attack"),
    }
    assert _names(game, marine) == always
    game.world.upgrades[1, 15] = 1
    assert _names(game, marine) == {*always, "Effect_Stim_Marine"}


@pytest.mark.parametrize(
    ("unit", "attack"),
    [
        ("Zealot", "Attack_Attack"),
        ("Observer", "Scan_Move"),
        ("PhotonCannon", "Attack_AttackBuilding"),
        ("Probe", "Attack_Attack"),
        ("Pylon", None),
    ],
)
def test_each_unit_attacks_in_one_way(unit: str, attack: str | None) -> None:
    game = arena.new_game(home=3)
    row = arena.put(game, unit, 1, X, Y)
    attacks = {name for name in _names(game, row) if name in ATTACKS}
    assert attacks == ({attack} if attack else set())
    if attack and unit != "PhotonCannon":  # it has no power
        tags = (arena.tag(game, row),)
        game.step([UnitCommand(1, 3674, tags, target_point=(X + 4, Y))])
        assert game.world.orders["ability"][row, 0] == rules.ability_id(attack)
        assert game.command_ability(UnitCommand(1, 3674, tags)) == (
            rules.ability_id(attack)
        )


def test_a_command_is_checked_before_it_is_carried_out() -> None:
    game = arena.new_game()
    marine = arena.put(game, "Marine", 1, X, Y)
    hall = arena.tag(game, arena.rows_of(game, "CommandCenter", 1)[0])
    tags = (arena.tag(game, marine),)
    train = UnitCommand(1, rules.ability_id("Train_SCV"), (hall,))
    before = game.state_digest()
    assert game.command_error(UnitCommand(1, 16, tags, target_point=(X, Y))) == 1
    assert game.command_error(train) == 1
    assert game.state_digest() == before
    stim = UnitCommand(1, rules.ability_id("Effect_Stim_Marine"), tags)
    assert game.command_error(stim) == TECH
    burrow = UnitCommand(1, rules.ability_id("BurrowDown_Roach"), tags)
    assert game.command_error(burrow) == NOT_SUPPORTED
    far = UnitCommand(1, 16, tags, target_point=(1e9, 0.0))
    assert game.command_error(far) == ERROR
    game.world.players[1]["minerals"] = 10
    assert game.command_error(train) == NO_MINERALS


def test_what_an_unfinished_building_can_do() -> None:
    game = arena.new_game()
    depot = arena.put(game, "SupplyDepot", 1, X, Y, done=0.5)
    assert _names(game, depot) == {"Cancel_BuildInProgress"}


def test_a_larva_that_became_an_egg_can_do_nothing_more() -> None:
    game = arena.new_game(home=2)
    larva = arena.rows_of(game, "Larva", 1)[0]
    assert {"Train_Drone"} == {
        name for name in _names(game, larva) if name.startswith("Train")
    }
    arena.command(game, 1, "Train_Drone", [larva])
    assert _names(game, larva) == set()
