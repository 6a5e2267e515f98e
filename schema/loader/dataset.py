"""An open dataset: its episodes, some of them by filters, and batches for learners.

In: a reference (path, URL, or name@version, with or without #sha256:...) and filters.
Out: `Dataset`. Filters work on the episode table; nothing is decoded before it is asked for.
Must not know how the dataset was made.
"""

import collections
import dataclasses
import functools
import hashlib
import html
import operator
import os
import zlib
from collections.abc import Collection, Iterator
from typing import SupportsIndex, overload

import numpy as np
import pyarrow
import pyarrow.compute

from starmill.schema import errors, registry, specs, storage, table
from starmill.schema.episode import EpisodeMeta
from starmill.schema.loader import batch_options, filters
from starmill.schema.loader.batch_iterator import BatchIterator
from starmill.schema.loader.batch_options import BatchOptions
from starmill.schema.loader.batches import BatchMaker
from starmill.schema.loader.filters import Names, Numbers
from starmill.schema.loader.lazy_episode import Episode
from starmill.schema.loader.window_source import WindowSource
from starmill.schema.loader.windows import EpisodeIndex, WindowReader
from starmill.schema.manifest import Manifest
from starmill.schema.settings import ConverterSettings


def open_dataset(
    reference: str | os.PathLike[str],
    *,
    registry_file: str | None = None,
    split: Names = None,
    race: Names = None,
    opponent_race: Names = None,
    map_name: Names = None,
    game_version: Names = None,
    outcome: Numbers = None,
    mmr_above: int | None = None,
    mmr_rule: str = "own",
    min_steps: int | None = None,
    max_steps: int | None = None,
    where: pyarrow.compute.Expression | None = None,
) -> "Dataset":
    """Opens a dataset; raises ManifestMismatch if it is not what the reference says.

    Args:
        reference: the folder's path or URL, or name@version of a registry; either may be
            followed by #sha256:... .
        registry_file: the registry to look names up in; see `registry.DEFAULTS`.
        split: this and the other filters are those of `Dataset.filter`.
        race: see `Dataset.filter`.
        opponent_race: see `Dataset.filter`.
        map_name: see `Dataset.filter`.
        game_version: see `Dataset.filter`.
        outcome: see `Dataset.filter`.
        mmr_above: see `Dataset.filter`.
        mmr_rule: see `Dataset.filter`.
        min_steps: see `Dataset.filter`.
        max_steps: see `Dataset.filter`.
        where: see `Dataset.filter`.
    """
    url, manifest = registry.open_manifest(str(reference), registry_file)
    rows = read_episodes(url, manifest)
    return Dataset(url=url, manifest=manifest, table=rows).filter(
        split=split,
        race=race,
        opponent_race=opponent_race,
        map_name=map_name,
        game_version=game_version,
        outcome=outcome,
        mmr_above=mmr_above,
        mmr_rule=mmr_rule,
        min_steps=min_steps,
        max_steps=max_steps,
        where=where,
    )


def read_episodes(folder: str, manifest: Manifest) -> pyarrow.Table:
    """Returns the episode table; FormatError for rows that the shards cannot have."""
    data = checked_file(folder, manifest, table.EPISODES)
    where = storage.join(folder, table.EPISODES)
    rows = table.parse_table(data, table.EPISODE_SCHEMA, where, manifest.episodes)
    table.check_episodes(rows, manifest.shards)
    return rows


def checked_file(folder: str, manifest: Manifest, name: str) -> bytes:
    """Returns a file beside the shards; ManifestMismatch unless it is the manifest's."""
    entry = manifest.file(name)
    url = storage.join(folder, name)
    size = storage.size_bytes(url)
    # A file of another size is not read: it may be larger than the memory.
    data = storage.read(url) if size == entry.size_bytes else b""
    digest = hashlib.sha256(data).hexdigest()
    if digest != entry.sha256:
        raise errors.ManifestMismatch(
            f"{url}: expected {entry.size_bytes} bytes with sha256 {entry.sha256}, "
            f"found {size}{f' with {digest}' if data else ''}: damaged, or of another "
            "dataset"
        )
    return data


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Dataset:
    """The episodes of a dataset, all or some of them, as a sequence of `Episode`.

    `len(dataset)` is the number of episodes, `dataset[i]` one of them, and `dataset[a:b]` a
    dataset of some of them. An episode's number is its row in `table`.

    Attributes:
        url: path or URL of the dataset's folder.
        manifest: what the whole dataset is, whatever the filters.
        table: one row per episode, by `table.EPISODE_SCHEMA`.
    """

    url: str
    manifest: Manifest
    table: pyarrow.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, item: SupportsIndex) -> Episode: ...

    @overload
    def __getitem__(self, item: slice) -> "Dataset": ...

    def __getitem__(self, item: SupportsIndex | slice) -> "Episode | Dataset":
        """Returns an episode, or a dataset of the episodes of a slice."""
        if isinstance(item, slice):
            numbers = range(len(self))[item]
            return dataclasses.replace(
                self, table=self.table.take(np.asarray(numbers, np.int64))
            )
        number = operator.index(item)
        if not -len(self) <= number < len(self):
            raise IndexError(f"episode {number}: there are {len(self)}")
        number %= len(self)
        row = self.table.slice(number, 1)
        return Episode(number, row, self._reader, self.specs)

    def __iter__(self) -> Iterator[Episode]:
        return (self[number] for number in range(len(self)))

    def __repr__(self) -> str:
        return (
            f"{self.manifest.name}@{self.manifest.version}: {len(self):,} episodes, "
            f"{self.steps:,} steps"
        )

    def _repr_html_(self) -> str:
        """Returns what a notebook shows: the counts of splits, races, maps and outcomes."""
        rows = []
        for title, column in (
            ("splits", "split"),
            ("races", "race"),
            ("maps", "map_name"),
            ("outcomes", "outcome"),
            ("game versions", "game_version"),
        ):
            counts = collections.Counter(self.table.column(column).to_pylist())
            text = ", ".join(
                f"{html.escape(str(value))} {count:,}"
                for value, count in sorted(
                    counts.items(), key=lambda pair: (-pair[1], str(pair[0]))
                )
            )
            rows.append(f"<tr><th>{title}</th><td>{text}</td></tr>")
        rows.append(f"<tr><th>folder</th><td>{html.escape(self.url)}</td></tr>")
        return f"<b>{html.escape(repr(self))}</b><table>{''.join(rows)}</table>"

    @property
    def steps(self) -> int:
        """Returns the number of steps of all its episodes."""
        return int(self._index.steps.sum())

    @property
    def reference(self) -> str:
        """Returns name@version#sha256:... of the whole dataset, whatever the filters."""
        return self.manifest.reference()

    @property
    def settings(self) -> ConverterSettings:
        """Returns the settings that its arrays were made with."""
        return self.manifest.settings

    @functools.cached_property
    def specs(self) -> dict[str, specs.ArraySpec]:
        """Returns the specs of the stored arrays, without the time axis."""
        return specs.episode_specs(self.settings)

    @functools.cached_property
    def metas(self) -> list[EpisodeMeta]:
        """Returns the metadata of every episode."""
        return table.metas(self.table)

    def filter(
        self,
        *,
        split: Names = None,
        race: Names = None,
        opponent_race: Names = None,
        map_name: Names = None,
        game_version: Names = None,
        outcome: Numbers = None,
        mmr_above: int | None = None,
        mmr_rule: str = "own",
        min_steps: int | None = None,
        max_steps: int | None = None,
        where: pyarrow.compute.Expression | None = None,
    ) -> "Dataset":
        """Returns the episodes that satisfy all conditions; ConfigError if none does.

        Args:
            split: "train", "valid" or "test"; one or several, as for the next five.
            race: of the episode's player, as played: "terran", "zerg" or "protoss".
            opponent_race: of the opponent.
            map_name: the English name, e.g. "Acropolis".
            game_version: e.g. "4.9.2".
            outcome: +1 for a win, 0 for a draw, -1 for a loss.
            mmr_above: the rating must be higher than this; an unknown one is not.
            mmr_rule: "own" for the rating of the episode's player, "both" for the opponent's
                as well.
            min_steps: the shortest episode to keep.
            max_steps: the longest episode to keep.
            where: any other condition on the columns of the table.
        """
        names: dict[str, Names | Numbers] = {
            "split": split,
            "race": race,
            "opponent_race": opponent_race,
            "map_name": map_name,
            "game_version": game_version,
            "outcome": outcome,
        }
        conditions = [
            *filters.one_of(names, filters.known_values(self.manifest.statistics)),
            *filters.in_ranges(
                mmr_above=mmr_above,
                mmr_rule=mmr_rule,
                min_steps=min_steps,
                max_steps=max_steps,
            ),
        ]
        try:
            rows = filters.apply(self.table, conditions, where)
        except errors.ConfigError as error:
            raise errors.ConfigError(f"{self.url}: {error}") from error
        return dataclasses.replace(self, table=rows)

    def find(self, episode_id: str) -> Episode:
        """Returns the episode with an id."""
        numbers = np.flatnonzero(self._index.ids == episode_id.encode())
        if len(numbers) == 0:
            raise errors.ConfigError(
                f"{self.url}: no episode {episode_id!r} among {len(self)}"
            )
        return self[int(numbers[0])]

    def batches(
        self,
        options: BatchOptions,
        *,
        workers: int = 0,
        host: int = 0,
        hosts: int = 1,
        state: dict[str, int] | None = None,
    ) -> BatchIterator:
        """Returns an iterator over batches: dicts of arrays [B, K, *shape].

        Batches have the stored arrays of `options.keys` and, for each step [B, K]: `reward`
        float32, `prev_delay`, `step_type`, `outcome` (the episode's) int32; `valid` bool, False
        where a rollout is padded; `episode` and `step` int32: which step of which episode it
        is. A rollout shorter than K is padded at its end: all arrays are zero there, except
        that `step_type` is LAST. docs/using-the-data.md has more.

        Args:
            options: what batches contain, and in which order.
            workers: processes that build batches ahead; the batches do not depend on it.
            host: which host this is, from 0. It reads its `batch_size` lanes of batches with
                `batch_size * hosts`; all hosts pass the same options.
            hosts: how many hosts there are.
            state: of an earlier iteration, to continue it; from `BatchIterator.get_state`.
        """
        plan = batch_options.plan_for_host(options, self.specs, host=host, hosts=hosts)
        iterator = BatchIterator(self._maker(plan), self._fingerprint, workers=workers)
        if state is not None:
            iterator.set_state(state)
        return iterator

    def windows(
        self,
        *,
        rollout: int,
        stride: int | None = None,
        keys: Collection[str] | None = None,
    ) -> WindowSource:
        """Returns all rollouts as a sequence: for Grain, PyTorch, or a loop.

        Args:
            rollout: K, the number of steps in each.
            stride: steps from one rollout of an episode to the next; K by default.
            keys: the stored arrays to read; all by default.
        """
        options = BatchOptions(
            batch_size=1,
            rollout=rollout,
            sampler="sequential",
            stride=stride,
            keys=keys,
        )
        return WindowSource(
            self._maker(batch_options.plan_for_host(options, self.specs))
        )

    def _maker(self, plan: batch_options.BatchPlan) -> BatchMaker:
        if len(self) == 0:
            raise errors.ConfigError(f"{self.url}: there are no episodes to read")
        return BatchMaker(plan, self.settings, self._index, self.url)

    @functools.cached_property
    def _index(self) -> EpisodeIndex:
        return EpisodeIndex.from_table(self.table)

    @functools.cached_property
    def _reader(self) -> WindowReader:
        return WindowReader(self.url, self.settings, self._index)

    @functools.cached_property
    def _fingerprint(self) -> int:
        seed = zlib.crc32(self.manifest.digest().encode())
        return zlib.crc32(self._index.ids.tobytes(), seed)
