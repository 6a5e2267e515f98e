"""A dataset opened: which episodes, any steps of them, and batches for learners.

In: a reference (path, URL, or name@version, with or without #sha256:...) and filters.
Out: `Dataset`. Filters work on the table; nothing is decoded before it is asked for.
"""

import dataclasses
import functools
import hashlib
import os
import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from starmill.schema import episode as episode_lib
from starmill.schema import errors, manifest, registry, specs, storage, table
from starmill.schema.loader import batch_iterator, samplers
from starmill.schema.loader.batches import Batch, BatchMaker, Options
from starmill.schema.loader.windows import EpisodeIndex, WindowReader
from starmill.schema.settings import ConverterSettings

Choice = str | int | Collection[str] | Collection[int] | None
MMR_RULES = ("own", "both")


def open_dataset(
    reference: str | os.PathLike[str],
    *,
    registry_file: str | None = None,
    **filters: Any,
) -> "Dataset":
    """Opens a dataset; refuses one that is not what the reference says.

    Args:
        reference: the folder's path or URL, or name@version of a registry; either may be
            followed by #sha256:... .
        registry_file: where names are looked up; see `registry.DEFAULTS`.
        filters: as of `Dataset.filter`.
    """
    place = registry.resolve(str(reference), registry_file)
    found = manifest.read(place.url)
    if place.digest is not None and found.digest() != place.digest:
        raise errors.ManifestMismatch(
            f"{place.url}: asked for {place.digest}, found {found.digest()}: "
            f"another dataset, or another build of it"
        )
    if place.name is not None and f"{found.name}@{found.version}" != place.name:
        raise errors.ManifestMismatch(
            f"{place.url}: asked for {place.name}, found {found.name}@{found.version}"
        )
    rows = table.parse_table(
        checked_file(place.url, found, table.EPISODES),
        table.EPISODE_SCHEMA,
        storage.join(place.url, table.EPISODES),
    )
    if rows.num_rows != found.episodes:
        raise errors.ManifestMismatch(
            f"{place.url}: the manifest counts {found.episodes} episodes, "
            f"the table has {rows.num_rows}"
        )
    opened = Dataset(url=place.url, manifest=found, table=rows)
    return opened.filter(**filters) if filters else opened


def checked_file(folder: str, content: manifest.Manifest, name: str) -> bytes:
    """Returns a file beside the shards; ManifestMismatch unless it is the manifest's."""
    entry = content.file(name)
    url = storage.join(folder, name)
    data = storage.read(url)
    found = hashlib.sha256(data).hexdigest()
    if found != entry.sha256:
        raise errors.ManifestMismatch(
            f"{url}: expected {entry.size_bytes} bytes with sha256 {entry.sha256}, "
            f"found {len(data)} with {found}: damaged, or of another dataset"
        )
    return data


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Episodes of a dataset, all or some.

    url: its folder.  table: one row per episode, by `table.EPISODE_SCHEMA`; an episode's
    number everywhere below is its row here.
    """

    url: str
    manifest: manifest.Manifest
    table: pyarrow.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

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

    @property
    def specs(self) -> dict[str, specs.ArraySpec]:
        """Returns the specs of the stored arrays, without the time axis."""
        return specs.episode_specs(self.settings)

    @functools.cached_property
    def metas(self) -> list[episode_lib.EpisodeMeta]:
        """Returns the metadata of every episode."""
        return table.metas(self.table)

    def filter(
        self,
        *,
        split: Choice = None,
        race: Choice = None,
        opponent_race: Choice = None,
        map_name: Choice = None,
        game_version: Choice = None,
        outcome: Choice = None,
        mmr_above: int | None = None,
        mmr_rule: str = "own",
        min_steps: int | None = None,
        max_steps: int | None = None,
        where: pyarrow.compute.Expression | None = None,
    ) -> "Dataset":
        """Returns the episodes that satisfy all that is given; ConfigError if none does.

        Args:
            split: a value, or some of them; the same for the next five.
            race: as played: "terran", "zerg", "protoss".
            opponent_race: the opponent's.
            map_name: canonical, e.g. "Acropolis".
            game_version: e.g. "4.9.2".
            outcome: +1 win, 0 draw, -1 loss.
            mmr_above: strictly above, as in the paper; an unknown MMR is not.
            mmr_rule: "own": the episode's player; "both": the opponent too.
            min_steps: inclusive.
            max_steps: inclusive.
            where: any other condition on the table's columns.
        """
        if mmr_rule not in MMR_RULES:
            raise errors.ConfigError(
                f"mmr_rule: expected one of {MMR_RULES}, found {mmr_rule!r}"
            )
        field = pyarrow.compute.field
        conditions = [
            field(name).isin([value] if isinstance(value, str | int) else list(value))
            for name, value in (
                ("split", split),
                ("race", race),
                ("opponent_race", opponent_race),
                ("map_name", map_name),
                ("game_version", game_version),
                ("outcome", outcome),
            )
            if value is not None
        ]
        if mmr_above is not None:
            conditions.append(field("mmr") > mmr_above)
            if mmr_rule == "both":
                conditions.append(field("opponent_mmr") > mmr_above)
        if min_steps is not None:
            conditions.append(field("steps") >= min_steps)
        if max_steps is not None:
            conditions.append(field("steps") <= max_steps)
        if where is not None:
            conditions.append(where)
        rows = self.table
        for condition in conditions:
            rows = rows.filter(condition)
        if rows.num_rows == 0:
            raise errors.ConfigError(
                f"{self.url}: no episode of {len(self)} satisfies the filters"
            )
        return dataclasses.replace(self, table=rows)

    def find(self, episode_id: str) -> int:
        """Returns the number of an episode."""
        found = np.flatnonzero(self._index.ids == episode_id.encode())
        if len(found) == 0:
            raise errors.ConfigError(
                f"{self.url}: no episode {episode_id!r} among {len(self)}"
            )
        return int(found[0])

    def read(
        self,
        number: int,
        start: int = 0,
        stop: int | None = None,
        keys: Iterable[str] | None = None,
    ) -> episode_lib.Arrays:
        """Returns steps start:stop of an episode, each array [stop - start, *shape].

        All stored arrays and the derived ones (`episode.DERIVED`), or the keys named.
        """
        if not 0 <= number < len(self):
            raise errors.ConfigError(f"episode {number}: there are {len(self)}")
        steps = int(self._index.steps[number])
        stop = steps if stop is None else stop
        if not 0 <= start < stop <= steps:
            raise errors.ConfigError(
                f"steps {start}:{stop} of episode {number}, which has {steps}"
            )
        found = self.specs
        wanted = list(found) + list(episode_lib.DERIVED) if keys is None else list(keys)
        self._check_keys([key for key in wanted if key not in episode_lib.DERIVED])
        out: episode_lib.Arrays = {
            key: np.empty((stop - start, *found[key].shape), found[key].dtype)
            for key in wanted
            if key not in episode_lib.DERIVED
        }
        delay = np.zeros(stop - start, np.int32)
        reading = dict(out)
        if "action/delay" in found:
            delay = reading.setdefault("action/delay", delay)
        before = self._reader.read(number, start, stop, reading)
        derived = episode_lib.derived(
            delay,
            start=start,
            steps=steps,
            outcome=int(self._index.outcome[number]),
            before=before,
        )
        out.update({key: derived[key] for key in wanted if key in derived})
        return out

    def episode(self, number: int) -> episode_lib.Episode:
        """Returns a whole episode, stored arrays only."""
        meta = table.metas(self.table.slice(number, 1))[0]
        return episode_lib.Episode(meta=meta, arrays=self.read(number, keys=self.specs))

    def episodes(self) -> Iterator[episode_lib.Episode]:
        """Yields all episodes, one in memory at a time."""
        for number in range(len(self)):
            yield self.episode(number)

    def record(self, number: int, record: int) -> bytes:
        """Returns one stored record of an episode, checked; 0 is its header."""
        return self._reader.record(number, record)

    def batches(
        self,
        *,
        batch_size: int,
        rollout: int,
        seed: int | None = None,
        sampler: str = "episode",
        form: str = "dense",
        keys: Iterable[str] | None = None,
        stride: int | None = None,
        cross_episodes: bool = False,
        shuffle_unit_tags: bool = False,
        workers: int = 0,
        host: int = 0,
        hosts: int = 1,
        state: dict[str, int] | None = None,
    ) -> batch_iterator.BatchIterator:
        """Returns an iterator over batches: dicts of arrays [B, K, *shape].

        Keys: those of `specs` that are wanted, and per step [B, K]: `reward` float32,
        `prev_delay`, `step_type`, `outcome` (of the episode) int32; `valid` bool, False where a
        rollout is padded; `episode` and `step` int32, which step of which episode it is.
        A rollout that is shorter than K is padded at its end: there all arrays are
        zero, `step_type` is LAST and `valid` is False. docs/using-the-data.md has more.

        Args:
            batch_size: B, rollouts per batch and host.
            rollout: K, steps of each.
            seed: required but for "sequential".
            sampler: "episode", "step", "consecutive" or "sequential": see `samplers.Plan`.
            stride: steps between rollouts of an episode; K by default.
            cross_episodes: whether a rollout may go on with another episode.
            form: "dense", or "compact" (see `compact`).
            keys: stored arrays that are wanted; all by default.
            shuffle_unit_tags: put the units of each action in a random order, seeded.
            workers: processes that prefetch; the batches are the same with any number.
            host: which of the hosts this is; it reads its batch_size lanes of a batch of
                batch_size * hosts. All hosts give the same other arguments.
            hosts: how many there are.
            state: of an earlier iteration, to continue it.
        """
        if seed is None and (sampler != "sequential" or shuffle_unit_tags):
            raise errors.ConfigError(
                f"seed: sampler {sampler!r} is random and needs one, so that it can be "
                f"repeated; pass seed=0 if any will do"
            )
        if not 0 <= host < hosts:
            raise errors.ConfigError(f"host {host}: expected 0 to {hosts - 1}")
        wanted = sorted(self.specs if keys is None else set(keys))
        self._check_keys(wanted)
        options = Options(
            plan=samplers.Plan(
                sampler=sampler,
                lanes=batch_size * hosts,
                rollout=rollout,
                stride=rollout if stride is None else stride,
                cross_episodes=cross_episodes,
                seed=seed or 0,
            ),
            form=form,
            keys=tuple(wanted),
            first_lane=host * batch_size,
            lanes=batch_size,
            shuffle_unit_tags=shuffle_unit_tags,
        )
        maker = BatchMaker(options, self.settings, self._index, self.url)
        iterator = _iterator(maker, self._fingerprint, workers)
        if state is not None:
            iterator.restore(state)
        return iterator

    def windows(
        self,
        *,
        rollout: int,
        stride: int | None = None,
        keys: Iterable[str] | None = None,
    ) -> "WindowSource":
        """Returns all rollouts as a sequence: for Grain, PyTorch, or a loop."""
        return WindowSource(self, rollout, stride or rollout, keys)

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

    def _check_keys(self, keys: Iterable[str]) -> None:
        unknown = sorted(set(keys) - set(self.specs))
        if unknown:
            raise errors.ConfigError(
                f"unknown arrays {unknown}; there are {sorted(self.specs)}"
            )


def _iterator(
    maker: BatchMaker, fingerprint: int, count: int
) -> batch_iterator.BatchIterator:
    return batch_iterator.BatchIterator(maker, fingerprint, workers=count)


class WindowSource:
    """All rollouts of a dataset by number: `len(source)`, `source[i]`.

    Every element is a dict of arrays [K, *shape] as a lane of a dense batch is, padding and
    `valid` included. Can be pickled: what Grain and PyTorch ask of a data source.
    """

    def __init__(
        self, dataset: Dataset, rollout: int, stride: int, keys: Iterable[str] | None
    ) -> None:
        wanted = None if keys is None else sorted(keys)
        plan = samplers.Plan(
            sampler="sequential",
            lanes=1,
            rollout=rollout,
            stride=stride,
            cross_episodes=False,
            seed=0,
        )
        options = Options(
            plan=plan,
            form="dense",
            keys=tuple(sorted(dataset.specs) if wanted is None else wanted),
            first_lane=0,
            lanes=1,
            shuffle_unit_tags=False,
        )
        dataset._check_keys(options.keys)
        self._maker = BatchMaker(options, dataset.settings, dataset._index, dataset.url)

    def __len__(self) -> int:
        return self._maker.batches or 0

    def __getitem__(self, number: int) -> Batch:
        """Returns one rollout."""
        if not 0 <= number < len(self):
            raise IndexError(f"window {number} of {len(self)}")
        out = {
            field.key: np.empty(field.shape, field.dtype)
            for field in self._maker.layout
        }
        self._maker.make(number, out)
        return {key: array[0] for key, array in out.items()}
