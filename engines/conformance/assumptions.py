"""What our code assumes of the game: one record for each assumption, read from JSON.

In: `assumptions.json` and `differences.json` beside this module. Out: records, in the files'
order. Knows nothing of how anything is checked.
"""

import dataclasses
import functools
import json
from importlib import resources
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Assumption:
    """Something that must be true of the game.

    Attributes:
        id: topic and name, like "step.exact".
        topic: the heading under which it is shown.
        what: the assumption, in a sentence.
        where: modules and documents that rely on it.
        check: how it is checked.
        otherwise: what happens where it does not hold.
    """

    id: str
    topic: str
    what: str
    where: tuple[str, ...]
    check: str
    otherwise: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """Something in which Skirmish is known to differ from StarCraft II.

    Attributes:
        text: what Skirmish does, in Markdown.
        assumptions: ids that Skirmish can say less about for this reason; often none.
    """

    text: str
    assumptions: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """A number that a run measures.

    Attributes:
        id: its key in the results.
        what: what is measured.
        unit: of the number; "" for a share.
        assumed: what docs/scale.md assumes of StarCraft II; None if nothing.
    """

    id: str
    what: str
    unit: str
    assumed: float | None


def _content(name: str) -> dict[str, list[dict[str, Any]]]:
    file = resources.files("starmill.engines.conformance").joinpath(name)
    content: dict[str, list[dict[str, Any]]] = json.loads(file.read_text("utf-8"))
    return content


@functools.cache
def assumptions() -> dict[str, Assumption]:
    """Returns all assumptions by id."""
    return {
        entry["id"]: Assumption(**{**entry, "where": tuple(entry["where"])})
        for entry in _content("assumptions.json")["assumptions"]
    }


@functools.cache
def measurements() -> dict[str, Measurement]:
    """Returns all measurements by id."""
    return {
        entry["id"]: Measurement(**entry)
        for entry in _content("assumptions.json")["measurements"]
    }


@functools.cache
def differences() -> tuple[Difference, ...]:
    """Returns the known differences between Skirmish and StarCraft II."""
    return tuple(
        Difference(text=entry["text"], assumptions=tuple(entry["assumptions"]))
        for entry in _content("differences.json")["differences"]
    )
