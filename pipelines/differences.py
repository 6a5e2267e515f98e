"""Compares two datasets: facts, settings, episodes, and the arrays of episodes.

In: two opened datasets. Out: `Differences`, sorted by name. Episodes are compared by the
digest of their records. Only those that differ are decoded, to name the arrays and steps.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from starmill.schema import specs
from starmill.schema.loader import dataset
from starmill.schema.loader.lazy_episode import Episode

_FACTS = (
    "name",
    "version",
    "engine",
    "schema",
    "replay_set",
    "starmill",
    "codec",
    "replays",
    "episodes",
    "quarantined",
    "steps",
    "size_bytes",
)


class Change(NamedTuple):
    """A named value that differs between the datasets.

    Attributes:
        name: of the value, with dots for nested ones.
        first: its value in the first dataset; None if it has none.
        second: its value in the second dataset; None if it has none.
    """

    name: str
    first: Any
    second: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Differences:
    """What differs between two datasets.

    Attributes:
        facts: of the manifests, including settings, selection and libraries.
        arrays: specs that differ, or that only one dataset has.
        only_first: ids of episodes that only the first dataset has.
        only_second: ids of episodes that only the second dataset has.
        changed: episode id -> what differs: columns of the table, and arrays with the number
            of steps that differ.
        same_episodes: how many episodes have the same content.
    """

    facts: tuple[Change, ...]
    arrays: tuple[Change, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    changed: Mapping[str, tuple[str, ...]]
    same_episodes: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not (
            self.facts
            or self.arrays
            or self.only_first
            or self.only_second
            or self.changed
        )


def compare(
    first: dataset.Dataset,
    second: dataset.Dataset,
    done: Callable[[], None] = lambda: None,
) -> Differences:
    """Returns what differs between two datasets.

    Args:
        first: a dataset.
        second: another one.
        done: called after each episode that both datasets have.
    """
    rows = [_rows(opened) for opened in (first, second)]
    shared = sorted(rows[0].keys() & rows[1].keys())
    keys = sorted(first.specs.keys() & second.specs.keys())
    changed = {}
    for name in shared:
        (one, one_row), (two, two_row) = rows[0][name], rows[1][name]
        changes = _columns(one_row, two_row)
        if one_row["sha256"] != two_row["sha256"]:
            changes += _arrays(first[one], second[two], keys)
        if changes:
            changed[name] = tuple(changes)
        done()
    return Differences(
        facts=tuple(_facts(first, second)),
        arrays=tuple(_specs(first, second)),
        only_first=tuple(sorted(rows[0].keys() - rows[1].keys())),
        only_second=tuple(sorted(rows[1].keys() - rows[0].keys())),
        changed=changed,
        same_episodes=len(shared) - len(changed),
    )


def _rows(opened: dataset.Dataset) -> dict[str, tuple[int, dict[str, Any]]]:
    columns = [name for name in opened.content.names if name != "offsets"]
    rows = opened.content.columns(columns, opened.rows).to_pylist()
    return {row["episode_id"]: (number, row) for number, row in enumerate(rows)}


def _columns(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    # The shard says where an episode is stored, not what is in it.
    return [
        f"{name}: {one[name]!r} -> {two[name]!r}"
        for name in one
        if name not in ("shard", "sha256") and one[name] != two[name]
    ]


def _arrays(first: Episode, second: Episode, keys: list[str]) -> list[str]:
    changes = []
    for key in keys:
        a, b = first[key], second[key]
        if a.shape != b.shape or a.dtype != b.dtype:
            changes.append(f"{key}: {a.dtype} {a.shape} -> {b.dtype} {b.shape}")
            continue
        differs = (a != b).reshape(len(a), -1).any(axis=1)
        if differs.any():
            steps = np.flatnonzero(differs)
            changes.append(f"{key}: {len(steps)} of {len(a)} steps, first {steps[0]}")
    return changes or ["the same arrays, stored differently (codec or library)"]


def _facts(first: dataset.Dataset, second: dataset.Dataset) -> list[Change]:
    a, b = first.manifest, second.manifest
    pairs = [(name, getattr(a, name), getattr(b, name)) for name in _FACTS]
    for prefix, one, two in (
        ("settings", a.settings.to_json(), b.settings.to_json()),
        ("selection", a.selection, b.selection),
        ("libraries", a.libraries, b.libraries),
    ):
        left, right = _flat(prefix, one), _flat(prefix, two)
        pairs += [
            (name, left.get(name), right.get(name))
            for name in sorted(left.keys() | right.keys())
        ]
    return [Change(*pair) for pair in pairs if pair[1] != pair[2]]


def _flat(prefix: str, content: Any) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        return {prefix: content}
    out: dict[str, Any] = {}
    for name, value in content.items():
        out.update(_flat(f"{prefix}.{name}", value))
    return out


def _specs(first: dataset.Dataset, second: dataset.Dataset) -> list[Change]:
    def shown(spec: specs.ArraySpec | None) -> str | None:
        return None if spec is None else f"{spec.dtype} {spec.shape}"

    names = sorted(first.specs.keys() | second.specs.keys())
    pairs = [
        Change(name, shown(first.specs.get(name)), shown(second.specs.get(name)))
        for name in names
    ]
    return [pair for pair in pairs if pair.first != pair.second]
