from importlib import resources

import numpy as np
import pytest

from starmill.converters import protos
from starmill.engines.skirmish.simulation import (
    action_results,
    rules,
)
from starmill.schema import vocab

UNITS = rules.unit_rules()
ABILITIES = rules.ability_rules()
PACKAGE = resources.files("starmill.engines.skirmish.simulation")


# Beacons and mineral shards are in the real game's mini-games, which no dataset comes from.
MINI_GAME_TYPES = {317, 1680}


def test_every_unit_type_is_one_that_the_converter_knows() -> None:
    known = {int(raw) for raw in vocab.table("unit_types")["raw_to_uint8"]}
    assert set(np.flatnonzero(UNITS["known"])) - known == MINI_GAME_TYPES
    assert int(UNITS["known"].sum()) > 120


def test_every_buff_upgrade_and_effect_is_one_that_the_converter_knows() -> None:
    for table, field in (("buffs", "buff"), ("upgrades", "upgrade_made")):
        known = {int(raw) for raw in vocab.table(table)["raw_to_uint8"]}
        assert {int(value) for value in np.unique(ABILITIES[field])} <= known
    for field in ("attack_up", "armor_up", "shield_up"):
        for first in np.unique(UNITS[field]):
            levels = vocab.raw_to_dense("upgrades")[first : first + 3]
            assert (levels >= 0).all()


def test_every_ability_has_an_order_id() -> None:
    orders = vocab.table("abilities")["orders"]
    for name, ability in rules.ability_names().items():
        assert str(ability) in orders, name


@pytest.mark.parametrize(
    ("name", "health", "minerals", "vespene", "loops"),
    [
        ("Marine", 45, 50, 0, 403),
        ("Zealot", 100, 100, 0, 605),
        ("Roach", 145, 75, 25, 426),
        ("CommandCenter", 1500, 400, 0, 1590),
    ],
)
def test_figures_of_well_known_units(
    name: str, health: int, minerals: int, vespene: int, loops: int
) -> None:
    rule = UNITS[rules.unit_id(name)]
    figures = (rule["health"], rule["minerals"], rule["vespene"], rule["loops"])
    assert tuple(int(v) for v in figures) == (health, minerals, vespene, loops)


def test_generals_lead_to_their_specifics() -> None:
    general = 3698  # infantry weapons
    first = int(ABILITIES["first_specific"][general])
    chain = [first]
    while ABILITIES["next_specific"][chain[-1]]:
        chain.append(int(ABILITIES["next_specific"][chain[-1]]))
    assert chain == [652, 653, 654]


def test_a_pair_of_zerglings_costs_what_two_cost() -> None:
    assert ABILITIES["minerals"][rules.ability_id("Train_Zergling")] == 50


def test_error_codes_are_the_protocols() -> None:
    names = {value.number for value in protos.error_pb2.ActionResult.DESCRIPTOR.values}
    ours = {v for k, v in vars(action_results).items() if k.isupper()}
    assert ours <= names
    assert protos.error_pb2.ActionResult.Value("NotEnoughMinerals") == 9


def _text(name: str) -> str:
    return PACKAGE.joinpath(name).read_text("utf-8")
