"""Static lookups of the published network: what a unit type or function id means to it.

Out: arrays made from `tables.json`, which holds facts of the published architecture.
"""

import functools
import json
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.learners.networks.published import sizes

TYPE_SLOTS = 256  # one-hot slots of unit types: 243 types, then effects


@functools.cache
def _content() -> dict[str, Any]:
    source = resources.files("starmill.learners.networks.published") / "tables.json"
    content: dict[str, Any] = json.loads(source.read_text("utf-8"))
    return content


def unit_attributes() -> NDArray[np.float32]:
    """Returns which of the 12 attributes (light, armored ...) a type has, [types, 12]."""
    content = _content()
    table = np.zeros((TYPE_SLOTS, len(content["attribute_names"])), np.float32)
    for name, attributes in content["unit_attributes"].items():
        table[int(name), attributes] = 1
    return table


def addon_classes() -> NDArray[np.int32]:
    """Returns the class of an add-on by the id in the add-on column, [types]."""
    return _by_type(_content()["addon_class"])


def initial_resources() -> NDArray[np.int32]:
    """Returns what a resource of a type holds at the start, [types]."""
    return _by_type(_content()["initial_resource"])


def _by_type(entries: dict[str, int]) -> NDArray[np.int32]:
    table = np.zeros(TYPE_SLOTS, np.int32)
    for name, value in entries.items():
        table[int(name)] = value
    return table


def order_classes() -> NDArray[np.int32]:
    """Returns the class of a unit's first order by function, [functions]."""
    return np.asarray(_content()["order_class"], np.int32)


def queue_classes() -> NDArray[np.int32]:
    """Returns the class of a unit's later orders by function, [functions]."""
    return np.asarray(_content()["build_queue_order_class"], np.int32)


def order_class_counts() -> tuple[int, int]:
    """Returns how many classes first and later orders have."""
    content = _content()
    return content["order_num_classes"], content["build_queue_order_num_classes"]


def clock_frequencies() -> NDArray[np.float32]:
    """Returns the frequencies of the clock in radians per game loop, [256]."""
    return np.asarray(_content()["clock_frequencies"], np.float32)


@functools.cache
def argument_used(name: str) -> NDArray[np.bool_]:
    """Returns which functions use an argument, [functions]."""
    return _functions(_content()["argument_used"][name])


@functools.cache
def camera_only_unit_functions() -> NDArray[np.bool_]:
    """Returns which functions may only target units on the screen, [functions]."""
    return _functions(_content()["camera_only_unit_functions"])


@functools.cache
def camera_only_point_functions() -> NDArray[np.bool_]:
    """Returns which functions may only target points within the camera, [functions]."""
    return _functions(_content()["camera_only_point_functions"])


def _functions(entries: list[int] | str) -> NDArray[np.bool_]:
    table = np.full(sizes.FUNCTIONS, entries == "all")
    if not isinstance(entries, str):
        table[entries] = True
    return table
