"""Exports a dataset to other layouts: the predecessor's records, RLDS, and npz files.

In: which episodes of a dataset, and an address. Out: files that other tools read unchanged. The
work is divided by shards of the dataset, so that processes or a cluster can share it. Episodes
are read in windows, so memory does not grow with their length.
"""

import collections
import dataclasses
import functools
import json
import os
from typing import Any

import pyarrow.compute

from starmill.pipelines.exports import alphastar, npz, rlds
from starmill.pipelines.jobs import processes
from starmill.schema import errors, storage
from starmill.schema.loader import dataset

FORMATS = ("alphastar", "rlds", "npz")
MARKER = "export.json"
# Where the files of alphastar and rlds are, for the marker.
_ALPHASTAR = "{split}/{group}/{version}/{rating}/{replay_id}_{player_id}.tfrecord"
_RLDS = "{name}/{version}/{name}-{split}.tfrecord-{number}-of-{count}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """Which episodes are exported. Workers open the dataset by it.

    Attributes:
        reference: of the dataset.
        registry_file: that knows the reference's name; None for the usual ones.
        split: only these; None for all.
        mmr_above: only above this rating; None for all.
        outcome: only these; None for all.
    """

    reference: str
    registry_file: str | None = None
    split: tuple[str, ...] | None = None
    mmr_above: int | None = None
    outcome: tuple[int, ...] | None = None

    def open(self) -> dataset.Dataset:
        """Returns the episodes."""
        return dataset.open_dataset(
            self.reference,
            registry_file=self.registry_file,
            split=self.split,
            mmr_above=self.mmr_above,
            outcome=self.outcome,
        )

    def pinned(self, opened: dataset.Dataset) -> "Source":
        """Returns the same episodes by an address with a digest, which any machine can open."""
        url = opened.url
        if storage.is_local(url):
            url = os.path.abspath(storage.local_path(url))  # noqa: PTH100  # a plain string
        reference = f"{url}#{opened.manifest.digest()}"
        return dataclasses.replace(self, reference=reference, registry_file=None)

    def facts(self) -> dict[str, Any]:
        """Returns the filters, for the marker."""
        return {
            "split": list(self.split) if self.split else None,
            "mmr_above": self.mmr_above,
            "outcome": list(self.outcome) if self.outcome else None,
        }


def export(
    source: Source, layout: str, out: str, run: processes.Run = processes.run
) -> list[str]:
    """Writes a dataset in another layout; returns one sentence for each episode left out.

    After an interruption, the same call continues. Raises ConfigError if the folder holds
    anything but this export, or if there is no episode.

    Args:
        source: which episodes.
        layout: one of FORMATS.
        out: path or URL of a folder.
        run: applies the work on one shard to all of them.
    """
    if layout not in FORMATS:
        raise errors.ConfigError(f"format: expected one of {FORMATS}, found {layout!r}")
    if layout == "rlds":
        rlds.tensorflow_datasets()
    opened = source.open()
    if not len(opened):
        raise errors.ConfigError(
            f"{source.reference}: expected episodes to export, found none"
        )
    if storage.is_local(out):
        out = os.path.abspath(storage.local_path(out))  # noqa: PTH100  # a plain string for workers
    _claim(source, opened, layout, out)
    work = ExportShard(source=source.pinned(opened), layout=layout, out=out)
    results = run(work, len(opened.manifest.shards))
    if layout == "alphastar":
        places = {
            alphastar.Place(*item) for result in results for item in result["places"]
        }
        base = "" if storage.is_local(out) else out
        text = alphastar.paths_module(places, base)
        storage.write(storage.join(out, "paths.py"), text.encode())
    if layout == "rlds":
        _finish_rlds(opened, out, results)
    return [problem for result in results for problem in result["problems"]]


def _claim(source: Source, opened: dataset.Dataset, layout: str, out: str) -> None:
    """Marks the folder as this export's; ConfigError if it holds something else."""
    paths = {
        "alphastar": _ALPHASTAR,
        "rlds": _RLDS,
        "npz": npz.path_format(len(opened)),
    }
    facts = {
        "dataset": opened.reference,
        "format": layout,
        "episodes": len(opened),
        "filters": source.facts(),
        "path": paths[layout],
    }
    marker = storage.join(out, MARKER)
    if storage.exists(marker):
        if json.loads(storage.read(marker)) != facts:
            raise errors.ConfigError(
                f"{out}: holds another export ({marker}); choose another folder"
            )
        return
    if storage.names(out):
        raise errors.ConfigError(f"{out}: is not empty; choose another folder")
    text = json.dumps(facts, sort_keys=True, indent=1) + "\n"
    storage.write(marker, text.encode())


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportShard:
    """Exports the episodes of one shard, in whatever process it is called.

    Attributes:
        source: which episodes, by an address that every worker can open.
        layout: one of FORMATS.
        out: absolute path or URL of the export.
    """

    source: Source
    layout: str
    out: str

    def __call__(self, number: int) -> dict[str, Any]:
        """Writes files, except those that exist; returns what the export must know of them."""
        name = self._opened.manifest.shards[number].name
        own = self._opened.filter(where=pyarrow.compute.field("shard") == name)
        result: dict[str, Any] = {"problems": [], "places": []}
        if len(own):
            write = {
                "alphastar": self._alphastar,
                "rlds": self._rlds,
                "npz": self._npz,
            }[self.layout]
            write(own, result)
        return result

    @functools.cached_property
    def _opened(self) -> dataset.Dataset:
        return self.source.open()

    def _alphastar(self, own: dataset.Dataset, result: dict[str, Any]) -> None:
        splits = own.column("split").to_pylist()
        places = set()
        for number, (meta, split) in enumerate(zip(own.metas, splits, strict=True)):
            url = storage.join(self.out, alphastar.name(meta, split))
            if not storage.exists(url):
                content = alphastar.file_bytes(own, number)
                if isinstance(content, str):
                    result["problems"].append(content)
                    continue
                storage.write(url, content)
            places.add(alphastar.place(meta, split))
        result["places"] = sorted(places)

    def _npz(self, own: dataset.Dataset, result: dict[str, Any]) -> None:
        path = npz.path_format(len(self._opened))
        for number, meta in enumerate(own.metas):
            url = storage.join(self.out, path.format(episode_id=meta.episode_id))
            if not storage.exists(url):
                storage.write(url, npz.pieces(own, number))

    def _rlds(self, own: dataset.Dataset, result: dict[str, Any]) -> None:
        split, shard = (own.column(key)[0].as_py() for key in ("split", "shard"))
        names = _shards_of_split(self._opened, split)
        name = rlds.file_name(self._opened, split, names.index(shard), len(names))
        url = storage.join(self.out, name)
        if not storage.exists(url):
            storage.write(url, rlds.records(own))
        result["file"] = [split, name, len(own), storage.size_bytes(url)]


def _shards_of_split(opened: dataset.Dataset, split: str) -> list[str]:
    own = pyarrow.compute.equal(opened.column("split"), split)
    return sorted(opened.column("shard").filter(own).unique().to_pylist())


def _finish_rlds(
    opened: dataset.Dataset, out: str, results: list[dict[str, Any]]
) -> None:
    lengths = collections.defaultdict(list)
    sizes: collections.Counter[str] = collections.Counter()
    files = sorted(tuple(result["file"]) for result in results if "file" in result)
    for split, _, episodes, size in files:
        lengths[split].append(episodes)
        sizes[split] += size
    rlds.write_metadata(opened, out, lengths, sizes)
