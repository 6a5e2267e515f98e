"""Facts of StarCraft II that every package needs: its clock, its races, its built-in AI.

Enters: nothing. Leaves: names and numbers. The numbers are those of the game's API; what the
API calls things is up to `converters/protos`. Must not know: units and abilities, whose ids
are in `schema/vocab` and its tables.
"""

# The ladder's game speed, "faster".
LOOPS_PER_SECOND = 22.4
LOOPS_PER_MINUTE = 1344

# The API's race ids. A player may request RANDOM; every player plays one of the others.
TERRAN, ZERG, PROTOSS, RANDOM = 1, 2, 3, 4
RACE_IDS = {"terran": TERRAN, "zerg": ZERG, "protoss": PROTOSS, "random": RANDOM}
RACE_NAMES = {number: name for name, number in RACE_IDS.items()}
# Races that can be played, as episodes and results name them.
RACES = ("terran", "zerg", "protoss")
# The codes of a replay's metadata and attributes.
RACE_CODES = {TERRAN: "Terr", ZERG: "Zerg", PROTOSS: "Prot", RANDOM: "Rand"}
RACE_NAME_BY_CODE = {code: RACE_NAMES[number] for number, code in RACE_CODES.items()}
RACE_ID_BY_CODE = {code: number for number, code in RACE_CODES.items()}

# Levels of the game's own AI, from the API's Difficulty.
DIFFICULTIES = {
    "very_easy": 1,
    "easy": 2,
    "medium": 3,
    "medium_hard": 4,
    "hard": 5,
    "harder": 6,
    "very_hard": 7,
    "cheat_vision": 8,
    "cheat_money": 9,
    "cheat_insane": 10,
}
# Styles of the game's own AI, from the API's AIBuild.
BUILDS = {"random": 1, "rush": 2, "timing": 3, "power": 4, "macro": 5, "air": 6}
