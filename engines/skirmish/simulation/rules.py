"""The rules as two constant tables: what unit types are, and what abilities do.

In: `units.json` and `abilities.json` beside this file, which use names, and the schema's
vocabularies, which know the ids. Out: UNIT_RULE rows by raw unit type and ABILITY_RULE rows by
ability id, in game loops and world units. Every id in them exists in the schema's vocabularies.
"""

import functools
import json
from importlib import resources
from typing import Any

import numpy as np

from starmill.engines.skirmish.simulation import ids, records
from starmill.schema import vocab
from starmill.schema.game_constants import LOOPS_PER_SECOND, ZERG

ABILITY_LIMIT = 4600
TYPE_SOURCES = 32  # unit types that can share an ability; 30 can cancel a queue

_DRONE_MINERALS = 50
_PRODUCING_KINDS = frozenset(("train", "warp", "research"))
TARGETS = {
    "none": records.TARGET_NONE,
    "point": records.TARGET_POINT,
    "unit": records.TARGET_UNIT,
}

_WEAPON = [
    ("damage", "f8"),
    ("bonus", "f8"),
    ("range", "f8"),
    ("cooldown", "f8"),
    ("splash", "f8"),
    ("per_level", "f8"),
    ("versus", "i8"),
    ("hits", "i8"),
]
_FLAGS = (
    "structure",
    "worker",
    "mule",
    "town_hall",
    "flying",
    "lifted",
    "gas_mine",
    "needs_creep",
    "needs_power",
    "cloaked",
    "burrowed",
    "summoned",
    "suicide",
    "mineral_field",
    "geyser",
    "rich",
    "tower",
    "rock",
    "critter",
    "egg",
    "tumor",
    "army",
)
# One unit type. 0 means "none" in every field that holds an id.
#   known: 1 if this game has the type.
#   ground_*, air_*: its weapons; damage 0 means that it has none. cooldown: in loops. bonus:
#     extra damage against the attributes in `versus`. splash: radius. per_level: what an
#     attack level adds.
#   loops: to make it. food_halves: food it takes, in halves. provides: supply it provides.
#   footprint: cells on a side, 0 for units. cargo: space it takes. capacity: space it has.
#   detects, power, creep: radius of each; 0 if it does not.
#   counts_as: the type whose requirement it also fulfils.
#   add_on: ids.ADD_ON_TECH_LAB or ids.ADD_ON_REACTOR.
#   attack_up, armor_up, shield_up: upgrade id of level 1; levels 2 and 3 follow it.
#   up0, up1: upgrades that add `up*_amount` to the statistic `up*_stat` (ids.STAT_*).
#   gather, return_: a worker's abilities.
#   value_minerals, value_vespene: what the score counts for it. category: records.CATEGORY_*.
#   produces: 1 if it trains or researches something.
UNIT_RULE = np.dtype(
    [
        (name, "f8")
        for name in (
            "health",
            "shield",
            "energy_start",
            "energy_max",
            "armor",
            "speed",
            "radius",
            "sight",
            "detects",
            "power",
            "creep",
            "loops",
            "up0_amount",
            "up1_amount",
        )
    ]
    + [(f"ground_{name}", kind) for name, kind in _WEAPON]
    + [(f"air_{name}", kind) for name, kind in _WEAPON]
    + [
        (name, "i8")
        for name in (
            "race",
            "attributes",
            "minerals",
            "vespene",
            "food_halves",
            "provides",
            "footprint",
            "cargo",
            "capacity",
            "counts_as",
            "add_on",
            "attack_up",
            "armor_up",
            "shield_up",
            "up0",
            "up0_stat",
            "up1",
            "up1_stat",
            "gather",
            "return_",
            "value_minerals",
            "value_vespene",
            "category",
        )
    ]
    + [(name, "i8") for name in (*_FLAGS, "known", "produces")],
    align=True,
)
# One ability. 0 means "none" in every field that holds an id.
#   kind, spell: ids.KIND_* and ids.SPELL_*. target: records.TARGET_*.
#   general: its general id. General ids have rows of kind KIND_NONE, with first_specific;
#     next_specific leads to the next ability with the same general id.
#   makes: unit type. cocoon: the type it has meanwhile. upgrade_made: upgrade id.
#   needs: unit type that must be finished. needs_upgrade: upgrade that must be finished.
#   loops: it takes, or its effect lasts. cooldown: in loops. health: that it costs.
#   autocast: the unit's autocast bit that it is. tech_lab: 1 if the building needs one.
#   pair: 1 if it makes two units. by_count: how many unit types have it, 0 if not listed.
ABILITY_RULE = np.dtype(
    [
        (name, "f8")
        for name in ("loops", "cooldown", "energy", "range", "radius", "amount")
    ]
    + [
        (name, "i8")
        for name in (
            "kind",
            "spell",
            "target",
            "general",
            "first_specific",
            "next_specific",
            "makes",
            "cocoon",
            "upgrade_made",
            "needs",
            "needs_upgrade",
            "minerals",
            "vespene",
            "health",
            "buff",
            "effect",
            "autocast",
            "tech_lab",
            "pair",
            "by_count",
        )
    ],
    align=True,
)


def _loops(seconds: float) -> float:
    return float(np.floor(seconds * LOOPS_PER_SECOND + 0.5))


def _read(name: str) -> list[dict[str, Any]]:
    text = resources.files("starmill.engines.skirmish.simulation").joinpath(
        f"{name}.json"
    )
    entries: list[dict[str, Any]] = json.loads(text.read_text("utf-8"))[name]
    return entries


def _names(table: str) -> dict[str, int]:
    """Returns name -> raw id of a vocabulary; unit names without the race before them."""
    pairs = vocab.table(table)["raw_names"].items()
    return {name.rsplit(".", 1)[-1]: int(raw) for raw, name in pairs}


def unit_id(name: str) -> int:
    """Returns the raw unit type of a name such as "Marine"."""
    return _unit_ids()[name]


def upgrade_id(name: str) -> int:
    """Returns the raw id of an upgrade such as "Stimpack"."""
    return _upgrade_ids()[name]


def ability_id(name: str) -> int:
    """Returns the ability id of a function's name without its kind, e.g. "Train_Marine"."""
    return _ability_ids()[name][0]


@functools.cache
def ability_names() -> dict[str, int]:
    """Returns name -> ability id of all abilities that this game has."""
    return {entry["name"]: ability_id(entry["name"]) for entry in _read("abilities")}


@functools.cache
def _unit_ids() -> dict[str, int]:
    return {entry["name"]: entry["id"] for entry in _read("units")}


@functools.cache
def _upgrade_ids() -> dict[str, int]:
    return _names("upgrades")


@functools.cache
def _ability_ids() -> dict[str, tuple[int, int]]:
    return {
        f.name.rsplit("_", 1)[0]: (f.ability_id, f.general_id)
        for f in vocab.functions()
    }


def _fill_weapon(rule: np.void, prefix: str, weapon: dict[str, Any]) -> None:
    rule[f"{prefix}_damage"] = weapon["damage"]
    rule[f"{prefix}_range"] = weapon["range"]
    rule[f"{prefix}_cooldown"] = weapon["seconds"] * LOOPS_PER_SECOND
    rule[f"{prefix}_hits"] = weapon.get("hits", 1)
    rule[f"{prefix}_bonus"] = weapon.get("bonus", 0)
    rule[f"{prefix}_splash"] = weapon.get("splash", 0)
    rule[f"{prefix}_per_level"] = weapon.get("per_level", 1)
    rule[f"{prefix}_versus"] = ids.ATTRIBUTES.get(weapon.get("versus", ""), 0)


def _fill_unit(rule: np.void, entry: dict[str, Any]) -> None:
    for name in ("health", "shield", "armor", "speed", "radius", "sight", "detects"):
        rule[name] = entry.get(name, 0)
    # Speeds are written per second of game time, used per loop.
    rule["speed"] = entry.get("speed", 0) / LOOPS_PER_SECOND
    rule["energy_start"], rule["energy_max"] = entry.get("energy", (0, 0))
    rule["power"], rule["creep"] = entry.get("power", 0), entry.get("creep", 0)
    rule["loops"] = _loops(entry.get("seconds", 0))
    rule["minerals"], rule["vespene"] = entry.get("cost", (0, 0))
    rule["food_halves"] = int(2 * entry.get("supply", 0))
    for name in ("provides", "footprint", "cargo", "capacity", "add_on", "race"):
        rule[name] = entry.get(name, 0)
    rule["attributes"] = sum(ids.ATTRIBUTES[name] for name in entry["attributes"])
    if "counts_as" in entry:
        rule["counts_as"] = unit_id(entry["counts_as"])
    for name in ("ground", "air"):
        if name in entry:
            _fill_weapon(rule, name, entry[name])
    for key, field in (
        ("attack", "attack_up"),
        ("armour", "armor_up"),
        ("shields", "shield_up"),
    ):
        if key in entry:
            rule[field] = upgrade_id(entry[key])
    for slot, upgrade in enumerate(entry.get("upgrades", ())):
        rule[f"up{slot}"] = upgrade_id(upgrade["upgrade"])
        rule[f"up{slot}_stat"] = ids.STATS[upgrade["stat"]]
        scale = LOOPS_PER_SECOND if upgrade["stat"] == "speed" else 1.0
        rule[f"up{slot}_amount"] = upgrade["amount"] / scale
    for flag in _FLAGS:
        rule[flag] = bool(entry.get(flag, False))
    rule["structure"] = "structure" in entry["attributes"] and entry["race"] != 0
    fighter = rule["race"] and rule["food_halves"] and not rule["worker"]
    rule["army"] = bool(fighter) and not rule["structure"]
    of_drone = rule["structure"] and rule["race"] == ZERG and rule["minerals"]
    rule["value_minerals"] = rule["minerals"] + _DRONE_MINERALS * bool(of_drone)
    rule["value_vespene"] = rule["vespene"]
    rule["category"] = _category(rule)
    rule["known"] = 1


def _category(rule: np.void) -> int:
    """Returns the category in which the score counts a unit type."""
    armed = rule["ground_damage"] > 0 or rule["air_damage"] > 0 or rule["capacity"]
    if rule["worker"] or rule["town_hall"] or rule["gas_mine"] or rule["provides"]:
        return records.CATEGORY_ECONOMY
    if rule["army"] or (armed and rule["race"]):
        return records.CATEGORY_ARMY
    if rule["structure"] and not rule["tumor"]:
        return records.CATEGORY_TECHNOLOGY
    return records.CATEGORY_NONE


def _fill_ability(rule: np.void, entry: dict[str, Any], units: np.ndarray) -> None:
    rule["kind"] = ids.KINDS.index(entry["kind"])
    rule["spell"] = ids.SPELLS.index(entry.get("spell", "none"))
    rule["target"] = TARGETS[entry.get("target", "none")]
    rule["by_count"] = len(entry.get("by", ()))
    for key in ("makes", "needs", "cocoon"):
        rule[key] = unit_id(entry[key]) if key in entry else 0
    if "upgrade" in entry:
        rule["needs_upgrade"] = upgrade_id(entry["upgrade"])
    if "upgrade_made" in entry:
        rule["upgrade_made"] = upgrade_id(entry["upgrade_made"])
    if "buff" in entry:
        rule["buff"] = _names("buffs")[entry["buff"]]
    if "effect" in entry:
        effects = vocab.table("effects")["effects"]
        rule["effect"] = int(
            next(k for k, v in effects.items() if v == entry["effect"])
        )
    product = units[rule["makes"]]
    pair = 2 if entry.get("pair") else 1
    paid = entry["kind"] in {"train", "warp", "build", "add_on", "hatch"}
    cost = (product["minerals"] * pair, product["vespene"] * pair) if paid else (0, 0)
    rule["minerals"], rule["vespene"] = entry.get("cost", cost)
    rule["loops"] = _loops(entry["seconds"]) if "seconds" in entry else product["loops"]
    rule["cooldown"] = _loops(entry.get("cooldown_seconds", 0))
    for name in ("energy", "range", "radius", "amount", "health"):
        rule[name] = entry.get(name, 0)
    rule["tech_lab"] = bool(entry.get("tech_lab", False))
    rule["pair"] = bool(entry.get("pair", False))


@functools.cache
def unit_rules() -> np.ndarray:
    """Returns the table of unit types, UNIT_RULE [2048]. Callers must not write to it."""
    rules = np.zeros(records.TYPE_LIMIT, UNIT_RULE)
    for entry in _read("units"):
        _fill_unit(rules[entry["id"]], entry)
    return rules


@functools.cache
def sources() -> np.ndarray:
    """Returns the unit types that have each ability, int64 [4600, 32], zero padded.

    No types are listed for moving, attacking and the like: every unit that can do it has them.
    """
    table = np.zeros((ABILITY_LIMIT, TYPE_SOURCES), np.int64)
    for entry in _read("abilities"):
        types = [unit_id(name) for name in entry.get("by", ())]
        table[ability_id(entry["name"]), : len(types)] = types
    return table


@functools.cache
def ability_rules() -> np.ndarray:
    """Returns the table of abilities, ABILITY_RULE [4600]. Callers must not write to it."""
    units = unit_rules()
    rules = np.zeros(ABILITY_LIMIT, ABILITY_RULE)
    last: dict[int, int] = {}
    autocasts = 0
    for entry in _read("abilities"):
        ability, general = _ability_ids()[entry["name"]]
        rule = rules[ability]
        _fill_ability(rule, entry, units)
        if entry.get("autocast"):
            autocasts += 1
            rule["autocast"] = autocasts
        rule["general"] = general
        if entry["kind"] in _PRODUCING_KINDS:
            for name in entry["by"]:
                units[unit_id(name)]["produces"] = units[unit_id(name)]["structure"]
        if not general:
            continue
        if general in last:
            rules[last[general]]["next_specific"] = ability
        else:
            rules[general]["first_specific"] = ability
        last[general] = ability
        kind = entry["kind"]
        if kind in {"gather", "return"}:
            units[unit_id(entry["by"][0])][
                "gather" if kind == "gather" else "return_"
            ] = ability
    return rules
