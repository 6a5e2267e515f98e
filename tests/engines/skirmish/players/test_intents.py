from starmill.engines.skirmish.players import intents
from starmill.schema import vocab

# The names of the same ids in pysc2's table of functions.
NAMES = {
    "SMART": "Smart",
    "MOVE_EXACT": "Move_Move",
    "BURROW_DOWN": "BurrowDown",
    "BURROW_UP": "BurrowUp",
    "GATHER": "Harvest_Gather",
    "LOAD": "Load",
    "UNLOAD_ALL_AT": "UnloadAllAt",
    "RALLY_UNITS": "Rally_Units",
    "ATTACK": "Attack",
    "STIM": "Effect_Stim",
    "CLOAK_ON": "Behavior_CloakOn",
    "CLOAK_OFF": "Behavior_CloakOff",
    "REPAIR": "Effect_Repair",
    "BLINK": "Effect_Blink",
    "RALLY_WORKERS": "Rally_Workers",
    "CREEP_TUMOR": "Build_CreepTumor",
    "MOVE": "Move",
}


def test_ability_ids_are_those_of_the_table_of_functions() -> None:
    ids = {f.name.rsplit("_", 1)[0]: f.ability_id for f in vocab.functions()}
    constants = {
        name.removeprefix("ABILITY_"): value
        for name, value in vars(intents).items()
        if name.startswith("ABILITY_")
    }
    assert constants == {name: ids[full] for name, full in NAMES.items()}
