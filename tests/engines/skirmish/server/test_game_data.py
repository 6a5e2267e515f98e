import pytest

from starmill.converters.protos import data_pb2, sc2api_pb2
from starmill.engines.skirmish.server import game_data
from starmill.engines.skirmish.simulation import rules

EVERYTHING = sc2api_pb2.RequestData(
    ability_id=True, unit_type_id=True, upgrade_id=True, buff_id=True, effect_id=True
)


@pytest.fixture(scope="module")
def data():
    return game_data.response(EVERYTHING)


def test_only_requested_tables_are_sent():
    data = game_data.response(sc2api_pb2.RequestData(upgrade_id=True))
    assert len(data.upgrades) and not len(data.units) and not len(data.abilities)


def test_an_entry_s_index_is_its_id(data):
    assert all(unit.unit_id == i for i, unit in enumerate(data.units))
    assert all(ability.ability_id == i for i, ability in enumerate(data.abilities))
    assert all(upgrade.upgrade_id == i for i, upgrade in enumerate(data.upgrades))
    assert all(buff.buff_id == i for i, buff in enumerate(data.buffs))


def test_a_marine_is_what_the_real_game_says(data):
    marine = data.units[48]
    assert (marine.name, marine.race) == ("Marine", 1)
    assert (marine.mineral_cost, marine.vespene_cost) == (50, 0)
    assert (marine.food_required, marine.cargo_size) == (1.0, 1)
    assert set(marine.attributes) == {data_pb2.Light, data_pb2.Biological}
    ground, air = marine.weapons
    assert (ground.type, air.type) == (data_pb2.Weapon.Ground, data_pb2.Weapon.Air)
    assert (ground.damage, ground.attacks, ground.range) == (6, 1, 5)
    # 0.61 seconds at "faster" are 0.85 at "normal".
    assert ground.speed == pytest.approx(0.61 * 1.4, abs=0.01)
    assert marine.movement_speed == pytest.approx(2.25, abs=0.01)
    assert data.abilities[marine.ability_id].friendly_name == "Train_Marine"


def test_buildings_and_general_abilities_are_marked(data):
    depot = data.abilities[rules.ability_id("Build_SupplyDepot")]
    assert depot.is_building and depot.footprint_radius == 1.0
    storm = data.abilities[rules.ability_id("Effect_PsiStorm")]
    assert storm.target == data_pb2.AbilityData.Point
    assert not storm.is_building
    stim = rules.ability_id("Effect_Stim_Marine")
    assert data.abilities[stim].remaps_to_ability_id == 3675


def test_upgrades_name_their_research(data):
    stim = data.upgrades[15]
    assert stim.name == "Stimpack"
    assert stim.ability_id == rules.ability_id("Research_Stimpack")
    assert (stim.mineral_cost, stim.vespene_cost) == (100, 100)
