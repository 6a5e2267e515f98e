"""Extending a dataset: in place by an increment, or into a new one that reuses its episodes.

In: a reference to the dataset, and what the build asks for. Out: the dataset before, which of its
replays need not be played, and its episodes. Nothing here writes, and memory holds the ids of all
replays at most.
"""

import dataclasses
import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from starmill.pipelines.planning import candidates, reuse
from starmill.schema import assembly, codec, errors, manifest, registry, storage, table
from starmill.schema.loader import episode_file
from starmill.schema.loader.lazy_table import LazyTable
from starmill.schema.settings import ConverterSettings
from starmill.version import __version__

_BATCH_ROWS = 1 << 16


class Growth(NamedTuple):
    """A dataset that gets an increment.

    Attributes:
        base: its manifest before the increment.
        present: its manifest now: `base`, unless the increment is finished.
    """

    base: manifest.Manifest
    present: manifest.Manifest

    @property
    def number(self) -> int:
        """Returns the number of the increment."""
        return len(self.base.increments) + 1

    @property
    def is_finished(self) -> bool:
        """Returns whether the dataset has an increment of the version that is asked for."""
        return self.present is not self.base


def is_in_place(reference: str | None, output: str) -> bool:
    """Returns whether a build extends the dataset in the folder that it writes to."""
    if reference is None:
        return False
    return _plain(registry.resolve(reference).url) == _plain(output)


def _plain(url: str) -> str:
    if storage.is_local(url):
        return os.path.realpath(storage.local_path(url))
    return url.rstrip("/")


def find(reference: str | None, output: str, version: str) -> Growth | None:
    """Returns the dataset that a build extends in place; None if the build does not.

    Args:
        reference: of the dataset that is extended.
        output: path or URL of the folder that the build writes to.
        version: that the dataset shall have.

    Raises ConfigError if the version is not a new one.
    """
    if reference is None or not is_in_place(reference, output):
        return None
    place = registry.resolve(reference)
    present = manifest.read(output)
    base = present
    if version == present.version and present.increments:
        base = manifest.read(output, manifest.former_name(len(present.increments) - 1))
        if base.digest() != present.increments[-1].base:
            raise errors.ManifestMismatch(
                f"{output}: expected {present.increments[-1].base} before the last "
                f"increment, found {base.digest()}"
            )
    elif _numbers(version) <= _numbers(present.version):
        raise errors.ConfigError(
            f"{output}: already holds {present.reference()}; pass a later --version for "
            "the dataset with the new replays"
        )
    if place.digest is not None and place.digest != base.digest():
        raise errors.ManifestMismatch(
            f"{output}: expected {place.digest}, found {base.digest()}"
        )
    return Growth(base, present)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.partition("-")[0].split(".")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """What a build and the dataset that it extends in place must share.

    Attributes:
        name: of the dataset.
        selection: the selection, as JSON.
        settings: the converter's settings.
    """

    name: str
    selection: dict[str, object]
    settings: ConverterSettings


def check_same(growth: Growth, asked: Facts) -> None:
    """Raises ConfigError if an increment would differ in kind from the dataset."""
    base = growth.base
    pairs = {
        "the name": (base.name, asked.name),
        "the selection": (base.selection, asked.selection),
    }
    differences = [name for name, (old, new) in pairs.items() if old != new]
    if differences:
        raise errors.ConfigError(
            f"{base.reference()}: differs in {', '.join(differences)}; an increment has "
            "those of its dataset. Choose another --output for another dataset"
        )
    check_release(base.reference(), base, asked.settings)


def check_release(
    reference: str, old: manifest.Manifest, settings: ConverterSettings
) -> None:
    """Raises ConfigError if a build would make other bytes of the dataset's episodes."""
    asked = (__version__, codec.VERSION, assembly.libraries(), settings)
    if (old.starmill, old.codec, dict(old.libraries), old.settings) != asked:
        raise errors.ConfigError(
            f"{reference}: was built with other settings or another release "
            f"(starmill {old.starmill}, codec {old.codec}, {dict(old.libraries)}). Its "
            "episodes would differ from this build's; build without --extend"
        )


def known_ids(folder: str, base: manifest.Manifest) -> NDArray[np.bytes_]:
    """Returns the ids of all replays that have rows in a dataset's tables, sorted, as bytes."""
    parts = [np.zeros(0, "S32")]
    try:
        parts += [np.unique(candidates.id_bytes(ids)) for ids in _ids(folder, base)]
    except (ValueError, *table.UNREADABLE) as error:
        raise errors.FormatError(
            f"{folder}: its tables are damaged: {error}"
        ) from error
    return np.unique(np.concatenate(parts))


def _ids(folder: str, base: manifest.Manifest) -> Iterator[pa.Array]:
    episodes = LazyTable(folder, base)
    episodes.verify()
    for piece in episodes.pieces(["replay_id"]):
        yield from piece.content.column("replay_id").chunks
    for name, schema in (
        (table.QUARANTINE, table.QUARANTINE_SCHEMA),
        (table.UNSELECTED, table.UNSELECTED_SCHEMA),
    ):
        for entry in base.tables(name) if base.lists(name) else ():
            data = episode_file.checked_file(folder, entry)
            with table.open_parquet(
                pa.BufferReader(data),
                schema,
                entry.name,
                len(data),
                unique=["replay_id"],
            ) as file:
                batches = file.iter_batches(
                    _BATCH_ROWS, columns=["replay_id"], use_threads=False
                )
                for batch in batches:
                    yield batch.column(0)


def reusable(reference: str, settings: ConverterSettings) -> reuse.Reusable:
    """Returns the episodes of a dataset, for a build with these settings of another dataset.

    Raises ConfigError if the build would make other bytes of them.
    """
    folder, old = registry.open_manifest(reference)
    check_release(reference, old, settings)
    episodes = LazyTable(folder, old)
    episodes.verify()
    pieces = (piece.content for piece in episodes.pieces(reuse.COLUMNS))
    return reuse.Reusable(folder=folder, pieces=pieces)
