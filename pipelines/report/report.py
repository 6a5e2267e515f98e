"""Writes the report of a dataset: one HTML file with statistics and an episode viewer.

In: an open `Dataset`. Out: the file. This module chooses which episodes are sampled and
which are shown, and measures what each field costs. It chooses by hash of the episode id,
so the same dataset always gives the same page.
"""

import collections
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from starmill.pipelines.report import page, statistics
from starmill.pipelines.viewing import episodes
from starmill.pipelines.viewing.viewer import Game
from starmill.schema import assembly, codec, storage, table
from starmill.schema.episode import InMemoryEpisode
from starmill.schema.loader.dataset import Dataset
from starmill.schema.loader.lazy_episode import Episode

# Enough for stable shares of functions and delays, and cheap for a dataset of any size.
SAMPLE = 64
# The viewer holds whole episodes, so their number alone does not bound the page's size.
PAGE_BYTES = 9_500_000
# Episodes, and steps of each, that are encoded to measure what a field costs.
_FIELD_EPISODES, _FIELD_STEPS = 2, 96


def write_report(dataset: Dataset, out: Path, *, shown: int = 6) -> int:
    """Writes the page and returns its size in bytes.

    Args:
        dataset: the dataset to describe.
        out: the HTML file; an existing one is replaced.
        shown: how many episodes the viewer gets; fewer if the page would exceed PAGE_BYTES.
    """
    order = _by_hash(dataset)
    games = _games(dataset, order, shown)
    text = page.render(
        summary(dataset, order), numbers(dataset), games, dataset.settings
    )
    return storage.write(str(out), text.encode("utf-8")).size_bytes


def numbers(dataset: Dataset) -> statistics.Statistics:
    """Returns the statistics of a dataset, some of them of SAMPLE episodes."""
    return statistics.gather(
        dataset.table.to_pylist(),
        (_sample(dataset[number]) for number in _by_hash(dataset)[:SAMPLE]),
    )


def summary(dataset: Dataset, order: list[int]) -> page.Summary:
    """Returns the facts that the page states about the dataset.

    Args:
        dataset: the dataset.
        order: episode numbers by hash; the first few are encoded to measure field costs.
    """
    manifest = dataset.manifest
    dense = sum(
        int(np.prod(spec.shape, dtype=np.int64)) * np.dtype(spec.dtype).itemsize
        for spec in dataset.specs.values()
    )
    left_out = assembly.read_left_out(dataset.url, manifest)
    return page.Summary(
        name=manifest.name,
        version=manifest.version,
        reference=manifest.reference(),
        digest=manifest.digest(),
        engine=manifest.engine,
        schema=manifest.schema,
        selection=str(manifest.selection.get("name", "custom")),
        replays=manifest.replays,
        episodes=len(dataset),
        steps=dataset.steps,
        game_loops=sum(dataset.column("game_loops").to_pylist()),
        stored_bytes=manifest.size_bytes,
        dense_bytes=dense * dataset.steps,
        field_bytes=field_bytes(dataset, order[:_FIELD_EPISODES]),
        unselected=_by_reason(left_out.unselected),
        quarantined=_by_reason(left_out.quarantine),
    )


def field_bytes(dataset: Dataset, numbers: list[int]) -> list[tuple[str, int, int]]:
    """Returns (field, stored bytes, dense bytes) of some episodes, largest first.

    All fields share one compressed stream. A field's stored size is therefore the difference
    that setting the field to zero makes. Small arrays are counted as one field.
    """
    stored: collections.Counter[str] = collections.Counter()
    dense: collections.Counter[str] = collections.Counter()
    for number in numbers:
        episode = dataset[number]
        arrays = episode.read(0, min(len(episode), _FIELD_STEPS), keys=dataset.specs)
        whole = sum(len(r) for r in codec.encode(arrays, dataset.settings))
        for group, keys in _field_groups(arrays).items():
            without = {
                key: np.zeros_like(array) if key in keys else array
                for key, array in arrays.items()
            }
            rest = sum(len(r) for r in codec.encode(without, dataset.settings))
            stored[group] += max(whole - rest, 0)
            dense[group] += sum(arrays[key].nbytes for key in keys)
    return [(name, size, dense[name]) for name, size in stored.most_common()]


def _field_groups(arrays: dict[str, Any]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key in sorted(arrays):
        if key.startswith("action/"):
            name = "actions"
        elif key.startswith(("minimap_", "raw_units")) or key == "camera":
            name = key
        else:
            name = "small arrays"
        groups.setdefault(name, []).append(key)
    return groups


def _by_hash(dataset: Dataset) -> list[int]:
    """Returns the episode numbers, sorted by the hash of the episode id."""
    ids = dataset.column("episode_id").to_pylist()
    return sorted(
        range(len(ids)),
        key=lambda number: hashlib.sha256(ids[number].encode()).digest(),
    )


def _sample(stored: Episode) -> InMemoryEpisode:
    """Returns an episode with the arrays that statistics need: the others take a gigabyte."""
    return InMemoryEpisode(meta=stored.meta, arrays=stored.read(keys=statistics.KEYS))


def _games(dataset: Dataset, order: list[int], shown: int) -> list[Game]:
    """Returns the episodes for the viewer; fewer than asked if the page would be too large."""
    games: list[Game] = []
    left = PAGE_BYTES
    for number in order[: shown * 2]:
        if len(games) == shown:
            break
        payload = episodes.payload(dataset, number)
        # The first episode is always shown, however long it is.
        if games and len(payload["data"]) > left:
            continue
        games.append(Game(game_id=payload["id"], title="", sides=(payload,)))
        left -= len(payload["data"])
    return games


def _by_reason(
    rows: Sequence[table.QuarantineRow | table.UnselectedRow],
) -> list[tuple[str, int]]:
    """Returns (reason, rows), most frequent first."""
    counts = collections.Counter(row.reason for row in rows)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
