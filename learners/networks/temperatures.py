"""How boldly each argument of an action is sampled.

In: one temperature, or one for each argument. Out: `Temperatures`. A temperature divides an argument's
logits: lower ones favour likely choices.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax


class Temperatures(NamedTuple):
    """A temperature for each argument.

    Attributes:
        function: of `function`.
        delay: of `delay`.
        queued: of `queued`.
        repeat: of `repeat`.
        unit_tags: of each choice among units.
        target_unit_tag: of `target_unit_tag`.
        world: of `world`.
    """

    function: Any
    delay: Any
    queued: Any
    repeat: Any
    unit_tags: Any
    target_unit_tag: Any
    world: Any


ARGUMENTS = Temperatures._fields


# What sampling takes: one number serves all arguments.
Temperature = jax.Array | float | Temperatures


def of(temperature: Temperature) -> Temperatures:
    """Returns temperatures by argument; one number is that of all arguments."""
    if isinstance(temperature, Temperatures):
        return temperature
    return Temperatures(*[temperature] * len(ARGUMENTS))


def with_changes(temperature: float, changes: Mapping[str, float]) -> Temperature:
    """Returns the temperature with some arguments' own; the number itself if there are none."""
    if not changes:
        return temperature
    return of(temperature)._replace(**changes)
