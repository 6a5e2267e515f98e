"""Counts what a selection keeps of an index: by reason, version, map, race and MMR.

In: batches of an index's rows, and a selection. Out: a `Census`, as JSON or as text with bars. A
batch is counted by columns and forgotten, so the length of the index does not affect memory.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from starmill.pipelines.planning import judgements
from starmill.schema import game_constants, selection
from starmill.schema.selection import Selection

# The columns of an index that are counted.
COLUMNS = judgements.COLUMNS
MMR_BAND = 250
# Length of the longest bar, in characters.
_BAR_LENGTH = 40


@dataclasses.dataclass(kw_only=True)
class Census:
    """What a selection keeps of an index.

    Attributes:
        replays: rows of the index.
        kept_replays: replays of which at least one side is kept.
        kept_episodes: sides that are kept.
        reasons: reject reason -> replays of which no side is kept.
        versions: game version -> [replays, replays kept].
        maps: map's name -> [replays, replays kept].
        races: race -> kept episodes whose own player plays it.
        outcomes: result -> kept episodes whose own player has it.
        mmr: lower end of a band of MMR_BAND -> kept episodes; None: MMR not known.
        splits: split -> kept replays.
    """

    replays: int = 0
    kept_replays: int = 0
    kept_episodes: int = 0
    reasons: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    versions: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    maps: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    races: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    outcomes: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    mmr: collections.Counter[int | None] = dataclasses.field(
        default_factory=collections.Counter
    )
    splits: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )

    def add(self, batch: pa.RecordBatch, rules: Selection) -> None:
        """Counts the rows of a batch, which has COLUMNS."""
        judged = judgements.judge(batch, rules)
        is_kept = judged.replays == judgements.KEPT
        kept = batch.filter(pa.array(is_kept))
        self.replays += batch.num_rows
        self.kept_replays += kept.num_rows
        for pairs, name, label in (
            (self.versions, "game_version", _short_version),
            (self.maps, "map_name", lambda name: name or "unknown"),
        ):
            for place, rows in enumerate((batch, kept)):
                for value, count in _value_counts(rows.column(name)):
                    pairs.setdefault(label(value), [0, 0])[place] += count
        codes, counts = np.unique(judged.replays[~is_kept], return_counts=True)
        for code, count in zip(codes, counts, strict=True):
            self.reasons[judgements.REASONS[code].value] += int(count)
        self.splits.update(judgements.splits(kept, rules))
        for player in (1, 2):
            is_side = judged.sides[player - 1] == judgements.KEPT
            self._add_sides(batch.filter(pa.array(is_side)), f"p{player}_")

    def _add_sides(self, sides: pa.RecordBatch, player: str) -> None:
        self.kept_episodes += sides.num_rows
        for race, count in _value_counts(sides.column(f"{player}race")):
            name = game_constants.RACE_NAME_BY_CODE.get(race or "")
            self.races[name or "unknown"] += count
        for result, count in _value_counts(sides.column(f"{player}result")):
            self.outcomes[result or "unknown"] += count
        rating = sides.column(f"{player}mmr")
        for mmr, count in _value_counts(rating):
            self.mmr[None if mmr is None else mmr // MMR_BAND * MMR_BAND] += count

    def to_json(self) -> dict[str, Any]:
        """Returns the counts in a fixed order."""
        return {
            "replays": self.replays,
            "kept_replays": self.kept_replays,
            "kept_episodes": self.kept_episodes,
            "reasons": dict(_by_count(self.reasons)),
            "versions": _pairs(self.versions),
            "maps": _pairs(self.maps),
            "races": dict(sorted(self.races.items())),
            "outcomes": dict(sorted(self.outcomes.items())),
            "mmr": [
                {"from": band, "below": band + MMR_BAND, "episodes": self.mmr[band]}
                for band in _bands(self.mmr)
            ],
            "mmr_unknown": self.mmr[None],
            "splits": {name: self.splits[name] for name in selection.SPLITS},
        }


def take(batches: Iterable[pa.RecordBatch], rules: Selection) -> Census:
    """Returns the census of all rows."""
    census = Census()
    for batch in batches:
        census.add(batch, rules)
    return census


def _value_counts(column: pa.Array) -> list[tuple[Any, int]]:
    counts = column.value_counts()
    return list(
        zip(counts.field(0).to_pylist(), counts.field(1).to_pylist(), strict=True)
    )


def _short_version(version: str | None) -> str:
    return ".".join(version.split(".")[:3]) if version else "unknown"


def _by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _pairs(counts: Mapping[str, list[int]]) -> dict[str, dict[str, int]]:
    return {
        key: {"replays": counts[key][0], "kept": counts[key][1]}
        for key in sorted(counts, key=_natural)
    }


def _natural(text: str) -> tuple[Any, ...]:
    """Returns a sort key that puts 4.10.0 after 4.9.2, and words after numbers."""
    parts = text.split(".")
    if all(part.isdigit() for part in parts):
        return (0, [int(part) for part in parts], text)
    return (1, [], text)


def _bands(mmr: Mapping[int | None, int]) -> list[int]:
    """Returns the lower end of every band from the lowest to the highest, without gaps."""
    known = [band for band in mmr if band is not None]
    return list(range(min(known), max(known) + MMR_BAND, MMR_BAND)) if known else []


def text(census: Census) -> str:
    """Returns the counts as text for a terminal."""
    lines = [
        f"{census.kept_replays:,} of {census.replays:,} replays kept, "
        f"{census.kept_episodes:,} episodes"
    ]
    lines += _block(
        "left out, by the first rule that failed", _by_count(census.reasons)
    )
    for title, pairs in (("versions", census.versions), ("maps", census.maps)):
        keys = sorted(pairs, key=_natural)
        lines += _block(
            f"{title}: replays kept",
            [(key, pairs[key][1]) for key in keys],
            [f"of {pairs[key][0]:,}" for key in keys],
        )
    lines += _block("races: episodes", sorted(census.races.items()))
    lines += _block("outcomes: episodes", sorted(census.outcomes.items()))
    bands = [(f"{b}-{b + MMR_BAND - 1}", census.mmr[b]) for b in _bands(census.mmr)]
    if census.mmr[None]:
        bands.append(("unknown", census.mmr[None]))
    lines += _block("MMR: episodes", bands)
    splits = [(name, census.splits[name]) for name in selection.SPLITS]
    lines += _block("splits: replays", splits)
    return "\n".join(lines)


def _block(
    title: str, counts: Sequence[tuple[str, int]], remarks: Sequence[str] = ()
) -> list[str]:
    """Returns a heading, then one line with a bar for each count."""
    if not counts:
        return []
    largest = max(count for _, count in counts) or 1
    name_width = max(len(name) for name, _ in counts)
    count_width = len(f"{largest:,}")
    remark_width = max((len(remark) for remark in remarks), default=0)
    lines = ["", title]
    for i, (name, count) in enumerate(counts):
        remark = f" {remarks[i]:<{remark_width}}" if remarks else ""
        bar = "#" * -(-_BAR_LENGTH * count // largest)
        line = f"  {name:<{name_width}}  {count:>{count_width},}{remark}  {bar}"
        lines.append(line.rstrip())
    return lines
