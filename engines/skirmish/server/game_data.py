"""The answer to `data`: what the game's ids mean.

In: which tables the client asks for. Out: a ResponseData from the rules and the schema's tables.
Must not know: the state of a game.
"""

import numpy as np

from starmill.converters.protos import data_pb2, sc2api_pb2
from starmill.engines.skirmish.simulation import ids, rules
from starmill.schema import vocab

_ATTRIBUTES = {
    "light": data_pb2.Light,
    "armored": data_pb2.Armored,
    "biological": data_pb2.Biological,
    "mechanical": data_pb2.Mechanical,
    "structure": data_pb2.Structure,
    "psionic": data_pb2.Psionic,
    "massive": data_pb2.Massive,
}
# ResponseData counts seconds at the game speed "normal".
_NORMAL_LOOPS_PER_SECOND = 16
_TARGETS = (
    data_pb2.AbilityData.Target.Value("None"),
    data_pb2.AbilityData.Point,
    data_pb2.AbilityData.Unit,
)


def response(request: sc2api_pb2.RequestData) -> sc2api_pb2.ResponseData:
    """Returns the requested tables. An entry's index is its id, as clients expect."""
    answer = sc2api_pb2.ResponseData()
    if request.ability_id:
        answer.abilities.extend(_abilities())
    if request.unit_type_id:
        answer.units.extend(_units())
    if request.upgrade_id:
        answer.upgrades.extend(_upgrades())
    if request.buff_id:
        names = _names("buffs")
        answer.buffs.extend(
            data_pb2.BuffData(buff_id=number, name=names.get(number, ""))
            for number in range(max(names) + 1)
        )
    if request.effect_id:
        effects = vocab.table("effects")["effects"]
        answer.effects.extend(
            data_pb2.EffectData(effect_id=int(number), name=name, friendly_name=name)
            for number, name in sorted(effects.items(), key=lambda e: int(e[0]))
        )
    return answer


def _names(table: str) -> dict[int, str]:
    pairs = vocab.table(table)["raw_names"].items()
    return {int(raw): name.rsplit(".", 1)[-1] for raw, name in pairs}


def _abilities() -> list[data_pb2.AbilityData]:
    table = rules.ability_rules()
    names = {
        f.ability_id: (f.name.rsplit("_", 1)[0], f.general_id)
        for f in vocab.functions()
        if f.ability_id
    }
    entries = []
    for number in range(len(table)):
        entry = data_pb2.AbilityData(ability_id=number, available=False)
        if number in names:
            name, general = names[number]
            rule = table[number]
            entry.available = bool(rule["kind"] or rule["first_specific"])
            entry.link_name = entry.button_name = entry.friendly_name = name
            if general:
                entry.remaps_to_ability_id = general
            entry.target = _TARGETS[int(rule["target"])]
            entry.cast_range = float(rule["range"])
            entry.is_building = int(rule["kind"]) == ids.KIND_BUILD
            footprint = rules.unit_rules()["footprint"][rule["makes"]]
            entry.footprint_radius = float(footprint) / 2
        entries.append(entry)
    return entries


def _makers(ability_rules: np.ndarray) -> dict[int, int]:
    """Returns, by unit type, the first ability that makes units of it."""
    kinds = {
        ids.KIND_TRAIN,
        ids.KIND_WARP,
        ids.KIND_BUILD,
        ids.KIND_ADD_ON,
        ids.KIND_MORPH,
        ids.KIND_HATCH,
    }
    makers: dict[int, int] = {}
    for number, rule in enumerate(ability_rules):
        if int(rule["kind"]) in kinds and rule["makes"]:
            makers.setdefault(int(rule["makes"]), number)
    return makers


def _units() -> list[data_pb2.UnitTypeData]:
    table = rules.unit_rules()
    makers = _makers(rules.ability_rules())
    names = _names("unit_types")
    entries = []
    for number in range(len(table)):
        rule = table[number]
        known = bool(rule["known"])
        entry = data_pb2.UnitTypeData(unit_id=number, available=known)
        if number in names:
            entry.name = names[number]
        if known:
            _fill_unit(entry, rule, makers)
        entries.append(entry)
    return entries


def _fill_unit(
    entry: data_pb2.UnitTypeData, rule: np.void, makers: dict[int, int]
) -> None:
    entry.race = int(rule["race"])  # type: ignore[assignment]  # the enum's numbers
    entry.mineral_cost, entry.vespene_cost = int(rule["minerals"]), int(rule["vespene"])
    entry.food_required = float(rule["food_halves"]) / 2
    entry.food_provided = float(rule["provides"])
    entry.build_time = float(rule["loops"])
    entry.movement_speed = float(rule["speed"]) * _NORMAL_LOOPS_PER_SECOND
    entry.armor = float(rule["armor"])
    entry.sight_range = float(rule["sight"])
    entry.cargo_size = int(rule["cargo"])
    entry.has_minerals = bool(rule["mineral_field"])
    entry.has_vespene = bool(rule["geyser"] or rule["gas_mine"])
    if entry.unit_id in makers:
        entry.ability_id = makers[entry.unit_id]
    if rule["counts_as"]:
        entry.tech_alias.append(int(rule["counts_as"]))
    bits = int(rule["attributes"])
    for name, bit in ids.ATTRIBUTES.items():
        if bits & bit:
            entry.attributes.append(_ATTRIBUTES[name])
    for prefix, kind in (
        ("ground", data_pb2.Weapon.Ground),
        ("air", data_pb2.Weapon.Air),
    ):
        if rule[f"{prefix}_damage"] > 0:
            entry.weapons.add(
                type=kind,
                damage=float(rule[f"{prefix}_damage"]),
                attacks=int(rule[f"{prefix}_hits"]),
                range=float(rule[f"{prefix}_range"]),
                speed=float(rule[f"{prefix}_cooldown"]) / _NORMAL_LOOPS_PER_SECOND,
            )


def _upgrades() -> list[data_pb2.UpgradeData]:
    names = _names("upgrades")
    table = rules.ability_rules()
    makers = {
        int(r["upgrade_made"]): i for i, r in enumerate(table) if r["upgrade_made"]
    }
    entries = []
    for number in range(max(names) + 1):
        entry = data_pb2.UpgradeData(upgrade_id=number, name=names.get(number, ""))
        if number in makers:
            rule = table[makers[number]]
            entry.ability_id = makers[number]
            entry.mineral_cost = int(rule["minerals"])
            entry.vespene_cost = int(rule["vespene"])
            entry.research_time = float(rule["loops"])
        entries.append(entry)
    return entries
