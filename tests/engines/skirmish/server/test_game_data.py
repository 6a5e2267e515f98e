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


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("Smart", "PointOrUnit"),
        ("Move_Move", "PointOrUnit"),
        ("Attack_Attack", "PointOrUnit"),
        ("Harvest_Gather_SCV", "Unit"),
        ("Harvest_Return_SCV", "None"),
        ("Build_SupplyDepot", "Point"),
        ("Build_Refinery", "Unit"),
        ("Build_TechLab_Barracks", "PointOrNone"),
        ("TrainWarp_Zealot", "Point"),
        ("Train_Marine", "None"),
        ("Land_Barracks", "Point"),
        ("Load_Medivac", "Unit"),
        ("Rally_Building", "PointOrUnit"),
        ("Effect_Heal", "Unit"),
        ("Morph_Lair", "None"),
    ],
)
def test_an_ability_says_what_it_can_be_aimed_at(data, name, target):
    ability = data.abilities[rules.ability_id(name)]
    assert data_pb2.AbilityData.Target.Name(ability.target) == target


def test_a_general_ability_is_aimed_as_its_specific_ones(data):
    general, specific = data.abilities[3674], data.abilities[23]
    assert specific.remaps_to_ability_id == general.ability_id
    assert general.available and general.target == specific.target
    blink = data.abilities[3687]
    assert blink.cast_range == data.abilities[1442].cast_range == 8.0


def test_only_abilities_that_place_something_have_a_footprint(data):
    radius = {
        name: data.abilities[rules.ability_id(name)].footprint_radius
        for name in ("Build_Refinery", "Land_CommandCenter", "Morph_OrbitalCommand")
    }
    assert radius == {
        "Build_Refinery": 1.5,
        "Land_CommandCenter": 2.5,
        "Morph_OrbitalCommand": 0.0,
    }
    assert data.abilities[421].is_instant_placement  # Build_TechLab_Barracks


def test_a_unit_names_the_usual_way_to_make_it(data):
    makers = {"SiegeTank": "Train_SiegeTank", "Queen": "Train_Queen"}
    makers |= {"VikingFighter": "Train_VikingFighter", "Zealot": "Train_Zealot"}
    for unit, ability in makers.items():
        entry = data.units[rules.unit_id(unit)]
        assert entry.ability_id == rules.ability_id(ability)


def test_costs_are_sums_of_everything_that_a_unit_was_made_of(data):
    """As clients expect, who subtract the drone and the types in `tech_alias`."""
    costs = {"SpawningPool": (250, 0), "Extractor": (75, 0), "Hatchery": (350, 0)}
    costs |= {"Lair": (500, 100), "Hive": (700, 250), "OrbitalCommand": (550, 0)}
    for name, cost in costs.items():
        entry = data.units[rules.unit_id(name)]
        assert (entry.mineral_cost, entry.vespene_cost) == cost, name
    hive = data.units[rules.unit_id("Hive")]
    assert list(hive.tech_alias) == [rules.unit_id("Lair"), rules.unit_id("Hatchery")]
    assert not hive.unit_alias
    lowered = data.units[rules.unit_id("SupplyDepotLowered")]
    assert lowered.unit_alias == rules.unit_id("SupplyDepot")


def test_weapons_tell_their_bonus():
    answer = game_data.response(sc2api_pb2.RequestData(unit_type_id=True))
    (marauder,) = answer.units[51].weapons
    (bonus,) = marauder.damage_bonus
    assert (marauder.damage, bonus.bonus) == (10.0, 10.0)
    assert bonus.attribute == data_pb2.Armored
    assert not answer.units[48].weapons[0].damage_bonus  # a marine's
