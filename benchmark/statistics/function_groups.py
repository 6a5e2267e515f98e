"""What kind of command a function is: building, training, attacking and so on.

In: a function's number. Out: the name of its group. The groups follow from the functions' names,
which are those of the game's public interface.
"""

import functools

from starmill.schema import vocab

GROUPS = (
    "build",
    "train",
    "research",
    "morph",
    "attack",
    "ability",
    "harvest",
    "move",
    "rally",
    "transport",
    "cancel",
    "camera",
    "other",
)
# Commands that decide what a player owns. Their refusals cost the most.
DECISIONS = ("build", "train", "research", "morph")
# Groups by the first word of a function's name.
_GROUP_BY_WORD = {
    "Build": "build",
    "Train": "train",
    "TrainWarp": "train",
    "Research": "research",
    "Morph": "morph",
    "Attack": "attack",
    "Scan": "attack",  # Scan_Move is the game's other name for attacking a point
    "Effect": "ability",
    "Behavior": "ability",
    "Hallucination": "ability",
    "BurrowDown": "ability",
    "BurrowUp": "ability",
    "Harvest": "harvest",
    "Smart": "move",
    "Move": "move",
    "Patrol": "move",
    "HoldPosition": "move",
    "Stop": "move",
    "Land": "move",
    "Lift": "move",
    "Rally": "rally",
    "Load": "transport",
    "LoadAll": "transport",
    "UnloadAll": "transport",
    "UnloadAllAt": "transport",
    "UnloadUnit": "transport",
    "Cancel": "cancel",
    "Halt": "cancel",
    "raw": "camera",
}


@functools.cache
def group_of(function: int) -> str:
    """Returns the group of a function; "other" for numbers that no function has."""
    functions = vocab.functions()
    if not 0 <= function < len(functions):
        return "other"
    word = functions[function].name.partition("_")[0]
    return _GROUP_BY_WORD.get(word, "other")
