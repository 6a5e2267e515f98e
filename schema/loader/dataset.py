"""An open dataset: its episodes, some of them by filters, and batches for learners.

In: a reference (path, URL, or name@version, with or without #sha256:...) and filters.
Out: `Dataset`. Filters read the columns of the episode table that they need; everything else is
read when it is asked for.
Must not know how the dataset was made.
"""

import collections
import dataclasses
import functools
import html
import operator
import os
import zlib
from collections.abc import Collection, Iterator
from typing import Any, SupportsIndex, overload

import numpy as np
import pyarrow
import pyarrow.compute
from numpy.typing import NDArray

from starmill.schema import errors, registry, specs, table
from starmill.schema.episode import EpisodeMeta
from starmill.schema.loader import batch_options, filters
from starmill.schema.loader.batch_iterator import BatchIterator
from starmill.schema.loader.batch_options import BatchOptions
from starmill.schema.loader.batches import BatchMaker
from starmill.schema.loader.episode_index import EpisodeIndex
from starmill.schema.loader.filters import Names, Numbers
from starmill.schema.loader.lazy_episode import Episode
from starmill.schema.loader.lazy_table import LazyTable
from starmill.schema.loader.window_source import WindowSource
from starmill.schema.loader.windows import WindowReader
from starmill.schema.manifest import Manifest
from starmill.schema.settings import ConverterSettings

# The arguments of `Dataset.filter`, or a slice.
Choice = dict[str, Any] | slice
# Metadata of single episodes is read in blocks of so many.
_BLOCK_ROWS = 1 << 16
_META = [field.name for field in dataclasses.fields(EpisodeMeta)]


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
    content = LazyTable(url, manifest)
    rows = np.arange(content.num_rows)
    return Dataset(url=url, manifest=manifest, content=content, rows=rows).filter(
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


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Dataset:
    """The episodes of a dataset, all or some of them, as a sequence of `Episode`.

    `len(dataset)` is the number of episodes, `dataset[i]` one of them, and `dataset[a:b]` a
    dataset of some of them. An episode's number is its row in `table`.

    Attributes:
        url: path or URL of the dataset's folder.
        manifest: what the whole dataset is, whatever the filters.
        content: the whole dataset's episode table.
        rows: which rows of it, shape [E].
        choices: the filters and slices that led to these rows, in order.
    """

    url: str
    manifest: Manifest
    content: LazyTable
    rows: NDArray[np.int64]
    choices: tuple[Choice, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, item: SupportsIndex) -> Episode: ...

    @overload
    def __getitem__(self, item: slice) -> "Dataset": ...

    def __getitem__(self, item: SupportsIndex | slice) -> "Episode | Dataset":
        """Returns an episode, or a dataset of the episodes of a slice."""
        if isinstance(item, slice):
            return dataclasses.replace(
                self, rows=self.rows[item], choices=(*self.choices, item)
            )
        number = operator.index(item)
        if not -len(self) <= number < len(self):
            raise IndexError(f"episode {number}: there are {len(self)}")
        number %= len(self)
        return Episode(number, self._meta, self._reader, self.specs)

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
            counts = collections.Counter(self.column(column).to_pylist())
            text = ", ".join(
                f"{html.escape(str(value))} {count:,}"
                for value, count in sorted(
                    counts.items(), key=lambda pair: (-pair[1], str(pair[0]))
                )
            )
            rows.append(f"<tr><th>{title}</th><td>{text}</td></tr>")
        rows.append(f"<tr><th>folder</th><td>{html.escape(self.url)}</td></tr>")
        return f"<b>{html.escape(repr(self))}</b><table>{''.join(rows)}</table>"

    @functools.cached_property
    def table(self) -> pyarrow.Table:
        """Returns one row per episode, by `table.EPISODE_SCHEMA`.

        All columns of a large dataset take gigabytes; `column` reads one.
        """
        return self.content.columns(self.content.names, self.rows)

    def column(self, name: str) -> pyarrow.ChunkedArray:
        """Returns a column of the episode table, one value per episode."""
        if name not in self.content.names:
            problem = errors.choice_problem("column", name, self.content.names)
            raise errors.ConfigError(str(problem))
        return self.content.columns([name], self.rows).column(name)

    @functools.cached_property
    def steps(self) -> int:
        """Returns the number of steps of all its episodes."""
        return int(pyarrow.compute.sum(self.column("steps")).as_py() or 0)

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
        return table.metas(self.content.columns(_META, self.rows))

    def _meta(self, number: int) -> EpisodeMeta:
        block = number // _BLOCK_ROWS
        rows = self._blocks.get(block)
        if rows is None:
            self._blocks.clear()
            numbers = self.rows[block * _BLOCK_ROWS : (block + 1) * _BLOCK_ROWS]
            rows = self._blocks[block] = self.content.columns(_META, numbers)
        return table.metas(rows.slice(number % _BLOCK_ROWS, 1))[0]

    @functools.cached_property
    def _blocks(self) -> dict[int, pyarrow.Table]:
        """Returns the metadata that `_meta` read last, by number of the block."""
        return {}

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
            rows = filters.apply(self.content, self.rows, conditions, where)
        except errors.ConfigError as error:
            raise errors.ConfigError(f"{self.url}: {error}") from error
        choice = {
            **names,
            "mmr_above": mmr_above,
            "mmr_rule": mmr_rule,
            "min_steps": min_steps,
            "max_steps": max_steps,
            "where": where,
        }
        return dataclasses.replace(self, rows=rows, choices=(*self.choices, choice))

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
        remake = functools.partial(
            _index_of, f"{self.url}#{self.manifest.digest()}", self.choices
        )
        return EpisodeIndex.build(self.content, self.rows, remake)

    @functools.cached_property
    def _reader(self) -> WindowReader:
        return WindowReader(self.url, self.settings, self._index)

    @functools.cached_property
    def _fingerprint(self) -> int:
        seed = zlib.crc32(self.manifest.digest().encode())
        ids = np.ascontiguousarray(self._index.ids)
        return zlib.crc32(ids.view(np.uint8).data, seed)


def _index_of(reference: str, choices: tuple[Choice, ...]) -> EpisodeIndex:
    """Returns the index of a dataset after filters and slices: for pickles on other machines."""
    opened = open_dataset(reference)
    for choice in choices:
        if isinstance(choice, slice):
            opened = opened[choice]
        else:
            opened = opened.filter(**choice)
    return opened._index
