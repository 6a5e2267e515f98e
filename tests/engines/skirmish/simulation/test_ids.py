"""The ids against the vocabularies that know their names."""

import pytest

from starmill.converters.protos import sc2api_pb2
from starmill.engines.skirmish.simulation import ids, rules
from starmill.schema import vocab

UNIT_NAMES = {
    "UNIT_EGG": "Cocoon",
    "UNIT_GEYSER": "VespeneGeyser",
    "UNIT_RICH_GEYSER": "RichVespeneGeyser",
    "UNIT_ROCK": "DestructibleRock6x6",
    "UNIT_CRITTER": "KarakFemale",
}
BUFF_NAMES = {
    "BUFF_AFTERBURNERS": "MedivacSpeedBoost",
    "BUFF_CARRY_MINERALS": "CarryMineralFieldMinerals",
    "BUFF_CARRY_RICH_MINERALS": "CarryHighYieldMineralFieldMinerals",
    "BUFF_CHARGE": "Charging",
    "BUFF_CHRONO_BOOST": "ChronoBoostEnergyCost",
    "BUFF_CLOAK": "BansheeCloak",
    "BUFF_INJECT": "QueenSpawnLarvaTimer",
    "BUFF_PRISMATIC_ALIGNMENT": "VoidRaySwarmDamageBoost",
    "BUFF_STIM": "Stimpack",
    "BUFF_STIM_MARAUDER": "StimpackMarauder",
    "BUFF_STORM": "PsiStorm",
}


def _constants(prefix: str) -> dict[str, int]:
    return {
        name: value
        for name, value in vars(ids).items()
        if name.startswith(prefix) and isinstance(value, int)
    }


def _spoken(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).replace("_", "").lower()


def test_unit_types() -> None:
    for name, value in _constants("UNIT_").items():
        unit = UNIT_NAMES.get(name)
        if unit is None:
            unit = next(
                known
                for known in ("XelNagaTower", *rules._unit_ids())
                if known.lower() == _spoken(name, "UNIT_")
            )
        assert rules.unit_id(unit) == value, name


@pytest.mark.parametrize(
    ("table", "prefix", "names"),
    [("buffs", "BUFF_", BUFF_NAMES), ("upgrades", "UPGRADE_", {})],
)
def test_buffs_and_upgrades(table: str, prefix: str, names: dict[str, str]) -> None:
    known = {value: name for name, value in rules._names(table).items()}
    for name, value in _constants(prefix).items():
        expected = names.get(name, _spoken(name, prefix)).lower()
        assert known[value].lower() in {expected, f"{expected}research"}, name


def test_effects() -> None:
    names = vocab.table("effects")["effects"]
    spoken = {"EFFECT_STORM": "psistorm", "EFFECT_SCAN": "scannersweep"}
    spoken["EFFECT_BILE"] = "corrosivebile"
    for name, value in _constants("EFFECT_").items():
        expected = spoken.get(name, _spoken(name, "EFFECT_"))
        assert names[str(value)].lower() == expected


def test_alerts_up_to_the_nukes_are_the_protocols() -> None:
    for name, value in _constants("ALERT_").items():
        known = sc2api_pb2.Alert.Name(value if value < 13 else value + 1).lower()
        assert known == _spoken(name, "ALERT_")


def test_kinds_spells_and_statistics_are_in_the_order_of_their_words() -> None:
    for prefix, words in (("KIND_", ids.KINDS), ("SPELL_", ids.SPELLS)):
        for number, word in enumerate(words):
            assert getattr(ids, f"{prefix}{word.upper()}") == number
