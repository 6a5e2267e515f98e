"""A dataset to its report: which episodes are sampled and shown, and what each field costs.

In: an open `Dataset`. Out: one HTML file. The choice of episodes follows from their ids
alone, so the same dataset gives the same page.
"""

import collections
import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet

from starmill.pipelines.report import page as report_page
from starmill.pipelines.report import statistics, viewer
from starmill.schema import codec, table
from starmill.schema.loader import dataset as dataset_lib

# Enough for stable shares of functions and delays; a page of a huge dataset stays cheap.
SAMPLE = 64
# What the page may weigh: viewers hold whole episodes.
PAGE_BYTES = 9_500_000
_FIELD_EPISODES, _FIELD_STEPS = 2, 320


def write_report(dataset: dataset_lib.Dataset, out: Path, *, shown: int = 6) -> int:
    """Writes the page and returns its size in bytes.

    Args:
        dataset: what to report on.
        out: the HTML file, replaced if it is there.
        shown: most episodes in the viewer; fewer if the page would pass PAGE_BYTES.
    """
    order = _by_hash(dataset)
    numbers = statistics.gather(
        dataset.table.to_pylist(),
        (dataset.episode(number) for number in order[:SAMPLE]),
    )
    payloads = _payloads(dataset, order, shown)
    page = report_page.render(
        summary(dataset, order), numbers, payloads, dataset.settings
    )
    data = page.encode("utf-8")
    temporary = out.with_name(out.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(out)
    return len(data)


def summary(dataset: dataset_lib.Dataset, order: list[int]) -> report_page.Summary:
    """Returns what the page's head says."""
    manifest = dataset.manifest
    dense = sum(
        int(np.prod(spec.shape, dtype=np.int64)) * np.dtype(spec.dtype).itemsize
        for spec in dataset.specs.values()
    )
    return report_page.Summary(
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
        game_loops=sum(dataset.table.column("game_loops").to_pylist()),
        stored_bytes=manifest.size_bytes,
        dense_bytes=dense * dataset.steps,
        field_bytes=field_bytes(dataset, order[:_FIELD_EPISODES]),
        rejected=_sorted_counts(manifest.statistics.get("rejected", {})),
        quarantined=_quarantined(dataset),
    )


def field_bytes(
    dataset: dataset_lib.Dataset, numbers: list[int]
) -> list[tuple[str, int, int]]:
    """Returns (field, stored bytes, dense bytes), largest first.

    Fields share one compressed stream, so a field's cost is what encoding saves when the
    field is all zeros. Small arrays are taken together.
    """
    stored: collections.Counter[str] = collections.Counter()
    dense: collections.Counter[str] = collections.Counter()
    for number in numbers:
        steps = int(dataset.table.column("steps")[number].as_py())
        arrays = dataset.read(
            number, 0, min(steps, _FIELD_STEPS), keys=list(dataset.specs)
        )
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


def _by_hash(dataset: dataset_lib.Dataset) -> list[int]:
    """Returns episode numbers in an order that follows from their ids alone."""
    ids = dataset.table.column("episode_id").to_pylist()
    return sorted(
        range(len(ids)),
        key=lambda number: hashlib.sha256(ids[number].encode()).digest(),
    )


def _payloads(
    dataset: dataset_lib.Dataset, order: list[int], shown: int
) -> list[dict[str, Any]]:
    payloads: list[dict[str, Any]] = []
    left = PAGE_BYTES
    for number in order:
        if len(payloads) == shown:
            break
        payload = viewer.payload(dataset.episode(number), dataset.settings)
        # One episode is always shown, however long; others only while there is room.
        if payloads and len(payload["data"]) > left:
            continue
        payloads.append(payload)
        left -= len(payload["data"])
    return payloads


def _quarantined(dataset: dataset_lib.Dataset) -> list[tuple[str, int]]:
    data = dataset_lib.checked_file(dataset.url, dataset.manifest, table.QUARANTINE)
    rows = pyarrow.parquet.read_table(io.BytesIO(data))
    return _sorted_counts(collections.Counter(rows.column("reason").to_pylist()))


def _sorted_counts(counts: Any) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
