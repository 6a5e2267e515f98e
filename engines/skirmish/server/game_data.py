"""The answer to `data`: what the game's ids mean.

In: which tables the client asks for. Out: a ResponseData from the rules and the schema's tables.
Must not know: the state of a game.
"""

import numpy as np

from starmill.converters.protos import data_pb2, sc2api_pb2
from starmill.engines.skirmish.simulation import ids, rules
from starmill.schema import vocab
from starmill.schema.game_constants import ZERG

_ATTRIBUTES = {
    "light": data_pb2.Light,
    "armored": data_pb2.Armored,
    "biological": data_pb2.Biological,
    "mechanical": data_pb2.Mechanical,
    "structure": data_pb2.Structure,
    "psionic": data_pb2.Psionic,
    "massive": data_pb2.Massive,
}
_DRONE = rules.unit_id("Drone")
# ResponseData counts seconds at the game speed "normal".
_NORMAL_LOOPS_PER_SECOND = 16
# What an ability can be aimed at, by the kinds of its functions (no target, point, unit).
_TARGETS = {
    frozenset(("cmd",)): data_pb2.AbilityData.Target.Value("None"),
    frozenset(("cmd_pt",)): data_pb2.AbilityData.Point,
    frozenset(("cmd_unit",)): data_pb2.AbilityData.Unit,
    frozenset(("cmd_pt", "cmd_unit")): data_pb2.AbilityData.PointOrUnit,
    frozenset(("cmd", "cmd_pt")): data_pb2.AbilityData.PointOrNone,
}
# Abilities of these kinds can also be aimed at a point of the minimap.
_MINIMAP_KINDS = frozenset(
    (
        ids.KIND_SMART,
        ids.KIND_MOVE,
        ids.KIND_PATROL,
        ids.KIND_ATTACK,
        ids.KIND_RALLY,
        ids.KIND_RALLY_WORKERS,
        ids.KIND_UNLOAD_AT,
    )
)
# Abilities that have a function on the screen and none in the raw form: name and general id. All
# are aimed at a point.
_SCREEN_ABILITIES = {1974: ("Effect_MassRecall_MothershipCore", 3686)}
_MINIMAP_ABILITIES = ("Effect_Scan", "Effect_Blink_Stalker")
# Abilities whose product takes up cells where it is built or lands.
_PLACING_KINDS = frozenset(
    (ids.KIND_BUILD, ids.KIND_ADD_ON, ids.KIND_LAND, ids.KIND_TUMOR)
)
_BUILDING_KINDS = frozenset((ids.KIND_BUILD, ids.KIND_ADD_ON, ids.KIND_TUMOR))
# Abilities that make units of a type, the usual way before all others.
_MAKING_KINDS = (
    ids.KIND_TRAIN,
    ids.KIND_BUILD,
    ids.KIND_ADD_ON,
    ids.KIND_HATCH,
    ids.KIND_TUMOR,
    ids.KIND_MORPH,
    ids.KIND_ARCHON,
    ids.KIND_WARP,
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


def _function_kinds() -> dict[int, set[str]]:
    """Returns the kinds of functions by ability id, such as {"cmd_pt", "cmd_unit"}."""
    kinds: dict[int, set[str]] = {}
    for function in vocab.functions():
        kinds.setdefault(function.ability_id, set()).add(function.kind)
    return kinds


def _abilities() -> list[data_pb2.AbilityData]:
    table = rules.ability_rules()
    names = {
        f.ability_id: (f.name.rsplit("_", 1)[0], f.general_id)
        for f in vocab.functions()
        if f.ability_id
    } | _SCREEN_ABILITIES
    kinds = _function_kinds()
    entries = []
    for number in range(len(table)):
        entry = data_pb2.AbilityData(ability_id=number, available=False)
        if number in names:
            name, general = names[number]
            entry.available = bool(
                table[number]["kind"] or table[number]["first_specific"]
            )
            entry.link_name = entry.button_name = entry.friendly_name = name
            if general:
                entry.remaps_to_ability_id = general
            known = kinds.get(number, {"cmd_pt"})
            entry.allow_autocast = "autocast" in known
            entry.target = _TARGETS[frozenset(known - {"autocast"})]
            _fill_ability(entry)
        entries.append(entry)
    return entries


def _fill_ability(entry: data_pb2.AbilityData) -> None:
    """Fills in what follows from the rules. A general ability is like its first specific one."""
    table = rules.ability_rules()
    rule = table[int(table[entry.ability_id]["first_specific"]) or entry.ability_id]
    kind = int(rule["kind"])
    entry.cast_range = float(rule["range"])
    entry.is_building = kind in _BUILDING_KINDS
    entry.is_instant_placement = kind == ids.KIND_ADD_ON
    entry.allow_minimap = kind in _MINIMAP_KINDS or (
        entry.link_name in _MINIMAP_ABILITIES
    )
    if kind in _PLACING_KINDS:
        footprint = rules.unit_rules()["footprint"][rule["makes"]]
        entry.footprint_radius = float(footprint) / 2


def _makers(ability_rules: np.ndarray) -> dict[int, int]:
    """Returns, by unit type, the ability by which units of it are usually made."""
    makers: dict[int, int] = {}
    for kind in _MAKING_KINDS:
        for number in np.flatnonzero(ability_rules["kind"] == kind):
            if ability_rules[number]["makes"]:
                makers.setdefault(int(ability_rules[number]["makes"]), int(number))
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
    if entry.mineral_cost and rule["race"] == ZERG and rule["structure"]:
        # As in the real game, a building's cost includes the drone that it is made of.
        entry.mineral_cost += int(rules.unit_rules()["minerals"][_DRONE])
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
        _fill_origin(entry, makers[entry.unit_id])
    alias = int(rule["counts_as"])
    while alias:  # a hive counts as a lair, which counts as a hatchery
        entry.tech_alias.append(alias)
        alias = int(rules.unit_rules()["counts_as"][alias])
    bits = int(rule["attributes"])
    for name, bit in ids.ATTRIBUTES.items():
        if bits & bit:
            entry.attributes.append(_ATTRIBUTES[name])
    for prefix, kind in (
        ("ground", data_pb2.Weapon.Ground),
        ("air", data_pb2.Weapon.Air),
    ):
        if rule[f"{prefix}_damage"] > 0:
            weapon = entry.weapons.add(
                type=kind,
                damage=float(rule[f"{prefix}_damage"]),
                attacks=int(rule[f"{prefix}_hits"]),
                range=float(rule[f"{prefix}_range"]),
                speed=float(rule[f"{prefix}_cooldown"]) / _NORMAL_LOOPS_PER_SECOND,
            )
            _fill_bonus(weapon, rule, prefix)


def _fill_bonus(weapon: data_pb2.Weapon, rule: np.void, prefix: str) -> None:
    """Fills in what a weapon does more to units of certain attributes."""
    versus = int(rule[f"{prefix}_versus"])
    for name, bit in ids.ATTRIBUTES.items():
        if versus & bit and rule[f"{prefix}_bonus"] > 0:
            weapon.damage_bonus.add(
                attribute=_ATTRIBUTES[name], bonus=float(rule[f"{prefix}_bonus"])
            )


def _fill_origin(entry: data_pb2.UnitTypeData, ability: int) -> None:
    """Fills in how units of a type are made: from what, after what, and in what time."""
    rule = rules.ability_rules()[ability]
    counts_as = int(rules.unit_rules()["counts_as"][entry.unit_id])
    entry.ability_id = ability
    entry.tech_requirement = int(rule["needs"])
    entry.require_attached = bool(rule["tech_lab"])
    if int(rule["kind"]) != ids.KIND_MORPH:
        return
    if rule["minerals"] + rule["vespene"]:
        entry.build_time = float(rule["loops"])
    elif counts_as and entry.unit_id != ids.UNIT_WARP_GATE:
        entry.unit_alias = counts_as  # another mode of the same unit


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
