"""The type tables in which s2protocol describes how a build encodes its replays.

A table is a list of types, and types refer to each other by their place in it. Each type is
a pair (kind, arguments). Bounds are (lowest value, bits), and a length is a number too:

    ("_int", [bounds])                          a number
    ("_bool", []), ("_null", [])                true or false; nothing at all
    ("_fourcc", []), ("_real32", []), ("_real64", [])     four letters; floats
    ("_blob", [bounds of the length])           bytes
    ("_bitarray", [bounds of the length])       bits
    ("_array", [bounds of the length, type])    values of one type
    ("_optional", [type])                       a value, or None
    ("_choice", [bounds of the tag, {tag: (name, type)}])  one of several values
    ("_struct", [[(name, type, tag), ...]])     named values, in order

The field `__parent` of a struct holds the fields of the struct that it extends.
"""

from collections.abc import Mapping, Sequence
from typing import Any

TypeTable = Sequence[tuple[str, Any]]
Bounds = tuple[int, int]
PARENT = "__parent"


def tagged_choice(
    value: Mapping[str, Any], choices: Mapping[int, tuple[str, int]]
) -> tuple[int, int, Any]:
    """Returns (tag, type, content) of a choice that is given as {name: content}."""
    ((name, content),) = value.items()
    for tag, (choice, number) in choices.items():
        if choice == name:
            return tag, number, content
    raise ValueError(
        f"expected one of {[choice for choice, _ in choices.values()]}, found {name!r}"
    )
