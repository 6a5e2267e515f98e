"""The ids and codes that kernels compare with, by name.

Unit types, abilities, buffs, upgrades, effects and alerts have the numbers that StarCraft II
gives them. Ability kinds, spells, statistics and attribute bits are codes of this game, which the
rule tables use for the words in `units.json` and `abilities.json`. Knows no rules and no state.
"""

# What an ability does. A name's place here is the value of ABILITY_RULE's `kind`.
KINDS = (
    "none",
    "smart",
    "move",
    "patrol",
    "hold",
    "stop",
    "attack",
    "gather",
    "return",
    "train",
    "warp",
    "build",
    "add_on",
    "research",
    "morph",
    "hatch",
    "spell",
    "load",
    "unload_all",
    "unload_at",
    "unload_one",
    "rally",
    "rally_workers",
    "cancel_building",
    "cancel_last",
    "cancel_morph",
    "repair",
    "land",
    "archon",
    "tumor",
    "halt",
)
(
    KIND_NONE,
    KIND_SMART,
    KIND_MOVE,
    KIND_PATROL,
    KIND_HOLD,
    KIND_STOP,
    KIND_ATTACK,
    KIND_GATHER,
    KIND_RETURN,
    KIND_TRAIN,
    KIND_WARP,
    KIND_BUILD,
    KIND_ADD_ON,
    KIND_RESEARCH,
    KIND_MORPH,
    KIND_HATCH,
    KIND_SPELL,
    KIND_LOAD,
    KIND_UNLOAD_ALL,
    KIND_UNLOAD_AT,
    KIND_UNLOAD_ONE,
    KIND_RALLY,
    KIND_RALLY_WORKERS,
    KIND_CANCEL_BUILDING,
    KIND_CANCEL_LAST,
    KIND_CANCEL_MORPH,
    KIND_REPAIR,
    KIND_LAND,
    KIND_ARCHON,
    KIND_TUMOR,
    KIND_HALT,
) = range(len(KINDS))

# What an ability of kind "spell" does. A name's place here is the value of `spell`.
SPELLS = (
    "none",
    "stim",
    "cloak_on",
    "cloak_off",
    "mule",
    "effect",
    "supply_drop",
    "heal",
    "buff",
    "summon",
    "damage",
    "aura",
    "hallucination",
    "feedback",
    "blink",
    "restore",
    "charge",
    "inject",
    "transfuse",
    "explode",
    "lift",
)
(
    SPELL_NONE,
    SPELL_STIM,
    SPELL_CLOAK_ON,
    SPELL_CLOAK_OFF,
    SPELL_MULE,
    SPELL_EFFECT,
    SPELL_SUPPLY_DROP,
    SPELL_HEAL,
    SPELL_BUFF,
    SPELL_SUMMON,
    SPELL_DAMAGE,
    SPELL_AURA,
    SPELL_HALLUCINATION,
    SPELL_FEEDBACK,
    SPELL_BLINK,
    SPELL_RESTORE,
    SPELL_CHARGE,
    SPELL_INJECT,
    SPELL_TRANSFUSE,
    SPELL_EXPLODE,
    SPELL_LIFT,
) = range(len(SPELLS))

# Bits of UNIT_RULE's `attributes` and of what a weapon has a bonus against.
ATTRIBUTE_LIGHT = 1
ATTRIBUTE_ARMORED = 2
ATTRIBUTE_BIOLOGICAL = 4
ATTRIBUTE_MECHANICAL = 8
ATTRIBUTE_STRUCTURE = 16
ATTRIBUTE_PSIONIC = 32
ATTRIBUTE_MASSIVE = 64
ATTRIBUTES = {
    "light": ATTRIBUTE_LIGHT,
    "armored": ATTRIBUTE_ARMORED,
    "biological": ATTRIBUTE_BIOLOGICAL,
    "mechanical": ATTRIBUTE_MECHANICAL,
    "structure": ATTRIBUTE_STRUCTURE,
    "psionic": ATTRIBUTE_PSIONIC,
    "massive": ATTRIBUTE_MASSIVE,
}

# Which statistic of a unit an upgrade changes.
STAT_SPEED, STAT_RANGE, STAT_HEALTH, STAT_RATE, STAT_BONUS, STAT_ARMOR = range(1, 7)
STATS = {
    "speed": STAT_SPEED,
    "range": STAT_RANGE,
    "health": STAT_HEALTH,
    "rate": STAT_RATE,
    "bonus": STAT_BONUS,
    "armor": STAT_ARMOR,
}

# Values of UNIT_RULE's `add_on`; also how many units the building then trains at a time.
ADD_ON_TECH_LAB, ADD_ON_REACTOR = 1, 2

UNIT_BUNKER = 24
UNIT_SENSOR_TOWER = 25
UNIT_SCV = 45
UNIT_MARAUDER = 51
UNIT_MEDIVAC = 54
UNIT_GATEWAY = 62
UNIT_ZEALOT = 73
UNIT_CREEP_TUMOR = 87  # planted by another tumor
UNIT_EGG = 103
UNIT_ZERGLING = 105
UNIT_OVERLORD = 106
UNIT_QUEEN = 126
UNIT_WARP_GATE = 133
UNIT_CREEP_TUMOR_BURROWED = 137  # finished, can spread once
UNIT_CREEP_TUMOR_QUEEN = 138  # planted by a queen
UNIT_RICH_MINERAL_FIELD = 146
UNIT_XELNAGA_TOWER = 149
UNIT_LARVA = 151
UNIT_MULE = 268
UNIT_CRITTER = 324
UNIT_MINERAL_FIELD = 341
UNIT_GEYSER = 342
UNIT_RICH_GEYSER = 344
UNIT_ROCK = 371
UNIT_MINERAL_FIELD_750 = 483
UNIT_SHIELD_BATTERY = 1910

ABILITY_SMART = 1
ABILITY_STOP = 4
ABILITY_MOVE = 16
ABILITY_SCAN_MOVE = 19  # what an attack is for unarmed units
ABILITY_ATTACK = 23
ABILITY_REPAIR_SCV = 316
ABILITY_MORPH_WARP_GATE = 1518
ABILITY_ATTACK_BUILDING = 2048  # what an attack is for armed buildings
ABILITY_STOP_BUILDING = 2057
ABILITY_RALLY_UNITS = 3673  # general ids
ABILITY_ANY_ATTACK = 3674
ABILITY_RALLY_WORKERS = 3690

BUFF_GRAVITON_BEAM = 5
BUFF_CLOAK = 7
BUFF_INJECT = 11
BUFF_GUARDIAN_SHIELD = 18
BUFF_STIM_MARAUDER = 24
BUFF_SUPPLY_DROP = 25
BUFF_STIM = 27
BUFF_STORM = 28
BUFF_CHARGE = 30
BUFF_SLOW = 33
BUFF_AFTERBURNERS = 89
BUFF_PRISMATIC_ALIGNMENT = 122
BUFF_CARRY_MINERALS = 271
BUFF_CARRY_RICH_MINERALS = 272
BUFF_CARRY_GAS = (0, 273, 275, 274)  # by race
BUFF_CHRONO_BOOST = 281

UPGRADE_CONCUSSIVE_SHELLS = 17
UPGRADE_WARP_GATE = 84
UPGRADE_CHARGE = 86

EFFECT_STORM = 1
EFFECT_GUARDIAN_SHIELD = 2
EFFECT_SCAN = 6
EFFECT_BILE = 11

# sc2api's Alert; from 13 on, one lower than there (NukeComplete is 13), which clients see.
ALERT_ADD_ON_COMPLETE = 4
ALERT_BUILDING_COMPLETE = 5
ALERT_BUILDING_UNDER_ATTACK = 6
ALERT_LARVA_HATCHED = 7
ALERT_MINERALS_EXHAUSTED = 9
ALERT_MORPH_COMPLETE = 10
ALERT_MULE_EXPIRED = 12
ALERT_RESEARCH_COMPLETE = 13
ALERT_TRAIN_UNIT_COMPLETE = 15
ALERT_TRAIN_WORKER_COMPLETE = 16
ALERT_TRANSFORMATION_COMPLETE = 17
ALERT_UNIT_UNDER_ATTACK = 18
ALERT_UPGRADE_COMPLETE = 19
ALERT_VESPENE_EXHAUSTED = 20
ALERT_WARP_IN_COMPLETE = 21
