"""The first pass over an index: which replays a selection keeps, each once.

In: an open index and a selection. Out: some 60 bytes of each selected replay, and counts of the
others by reason. Must not know: what is done with them.
"""

import collections
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from starmill.pipelines.planning import judgements
from starmill.schema import errors, replay_index, selection
from starmill.schema.reasons import RejectReason

_KEYS = ("base_build", "data_version")
# What decides between rows of the same replay.
_NAMES = ("replay_id", "file_stem", "source")
_HEX_DIGITS = 64
# Ids that are written to a digest at a time.
_DIGEST_IDS = 1 << 16


@dataclasses.dataclass(kw_only=True)
class Selected:
    """The replays that the selection keeps, in the order of the index.

    Attributes:
        rows: their numbers in the index. Shape [N].
        ids: their ids, as bytes. Shape [N].
        versions: numbers of their versions, in the order of the versions. Shape [N].
        splits: places in `selection.SPLITS`. Shape [N].
        sides: code of the reason why each side is left out, or KEPT. Shape [2, N].
        loops: of their games. Shape [N].
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.bytes_]
    versions: NDArray[np.int64]
    splits: NDArray[np.int8]
    sides: NDArray[np.int8]
    loops: NDArray[np.int64]

    def take(self, places: NDArray[np.int64]) -> None:
        """Keeps only the replays at these places."""
        for name in ("rows", "ids", "versions", "splits", "loops"):
            setattr(self, name, getattr(self, name)[places])
        self.sides = self.sides[:, places]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judged:
    """What the first pass found.

    Attributes:
        read: rows of the index.
        rejected: reason -> replays.
        replay_set: digest of the ids of all replays.
        engine: of the selected replays.
        selected: those, each once.
    """

    read: int
    rejected: collections.Counter[str]
    replay_set: str
    engine: str
    selected: Selected


def judge(index: replay_index.Index, rules: selection.Selection) -> Judged:
    """Judges all rows of an index."""
    read = 0
    rejected = np.zeros(len(judgements.REASONS), np.int64)
    all_ids: list[NDArray[np.bytes_]] = []
    parts: list[Selected] = []
    versions: dict[tuple[int | None, str | None], int] = {}
    engines: set[str | None] = set()
    for batch in index.batches([*judgements.COLUMNS, *_KEYS]):
        judged = judgements.judge(batch, rules)
        is_kept = judged.replays == judgements.KEPT
        rejected += np.bincount(judged.replays[~is_kept], minlength=len(rejected))
        ids = id_bytes(batch.column("replay_id"))
        has_id = np.asarray(pc.binary_length(batch.column("replay_id").fill_null("")))
        all_ids.append(ids[has_id > 0])
        kept = batch.filter(pa.array(is_kept))
        engines.update(kept.column("engine").unique().to_pylist())
        splits = judgements.splits(kept, rules)
        parts.append(
            Selected(
                rows=read + np.flatnonzero(is_kept),
                ids=ids[is_kept],
                versions=_version_codes(kept, versions),
                splits=np.array([selection.SPLITS.index(s) for s in splits], np.int8),
                sides=judged.sides[:, is_kept],
                loops=np.asarray(kept.column("duration_loops").fill_null(0), np.int64),
            )
        )
        read += batch.num_rows
    selected = _joined(parts)
    replay_set = digest_of_ids(all_ids)
    if not len(selected.rows):
        raise errors.ConfigError(
            "the selection keeps none of the replays; `starmill select` shows why"
        )
    selected.versions = _ranks(versions)[selected.versions]
    duplicates = _remove_duplicates(index, selected)
    counts = collections.Counter(
        {
            reason.value: int(count)
            for reason, count in zip(judgements.REASONS, rejected, strict=True)
            if count
        }
    )
    if duplicates:
        counts[RejectReason.DUPLICATE.value] += duplicates
    return Judged(
        read=read,
        rejected=counts,
        replay_set=replay_set,
        engine=_engine(engines),
        selected=selected,
    )


def _joined(parts: list[Selected]) -> Selected:
    def joined(name: str) -> NDArray:
        arrays = [getattr(part, name) for part in parts]
        return np.concatenate(arrays, axis=-1) if arrays else np.zeros(0, np.int64)

    return Selected(
        **{field.name: joined(field.name) for field in dataclasses.fields(Selected)}
    )


def id_bytes(column: pa.Array) -> NDArray[np.bytes_]:
    """Returns ids, which the index has checked, as 32 bytes each; b"" where there is none."""
    column = column.fill_null("")
    lengths = np.asarray(pc.binary_length(column), np.int64)
    out = np.zeros(len(column), "S32")
    has_id = lengths > 0
    digits = column.filter(pa.array(has_id)).cast(pa.binary())
    text = digits.cast(pa.binary(_HEX_DIGITS)).buffers()[1]
    out[has_id] = np.frombuffer(bytes.fromhex(text.to_pybytes().decode()), "S32")
    return out


def digest_of_ids(chunks: list[NDArray[np.bytes_]]) -> str:
    """Returns the `manifest.replay_set_digest` of ids; empties the list to free memory."""
    ids = np.concatenate(chunks) if chunks else np.zeros(0, "S32")
    chunks.clear()
    ids.sort()
    is_first = np.ones(len(ids), bool)
    is_first[1:] = ids[1:] != ids[:-1]
    digest, separator = hashlib.sha256(), b""
    for begin in range(0, len(ids), _DIGEST_IDS):
        piece = ids[begin : begin + _DIGEST_IDS]
        piece = piece[is_first[begin : begin + _DIGEST_IDS]]
        if len(piece):
            digest.update(separator + piece.tobytes().hex("\n", -32).encode())
            separator = b"\n"
    return digest.hexdigest()


def _version_codes(
    batch: pa.RecordBatch, versions: dict[tuple[int | None, str | None], int]
) -> NDArray[np.int64]:
    """Returns a number for each row's version; new versions get the next ones."""
    builds = batch.column("base_build").dictionary_encode(null_encoding="encode")
    data = batch.column("data_version").dictionary_encode(null_encoding="encode")
    width = len(data.dictionary)
    pairs = np.asarray(builds.indices, np.int64) * width + np.asarray(
        data.indices, np.int64
    )
    different, places = np.unique(pairs, return_inverse=True)
    names = builds.dictionary.to_pylist(), data.dictionary.to_pylist()
    codes = [
        versions.setdefault(
            (names[0][pair // width], names[1][pair % width]), len(versions)
        )
        for pair in different.tolist()
    ]
    return np.array(codes, np.int64)[places]


def _ranks(versions: Mapping[tuple[int | None, str | None], int]) -> NDArray[np.int64]:
    """Returns the place of each version's number in the order of the versions; None comes last."""
    ordered = sorted(
        versions, key=lambda v: (v[0] is None, v[0] or 0, v[1] is None, v[1] or "")
    )
    ranks = np.zeros(len(versions), np.int64)
    for rank, version in enumerate(ordered):
        ranks[versions[version]] = rank
    return ranks


def _remove_duplicates(index: replay_index.Index, selected: Selected) -> int:
    """Keeps each replay once, under its first name; returns how many rows it removed."""
    order = np.argsort(selected.ids, kind="stable")
    is_same = selected.ids[order][1:] == selected.ids[order][:-1]
    if not is_same.any():
        return 0
    is_double = np.zeros(len(order), bool)
    is_double[1:] |= is_same
    is_double[:-1] |= is_same
    places = np.sort(order[is_double])
    names = pa.concat_tables(rows_at(index, selected.rows[places], _NAMES))
    doubles = names.append_column("place", pa.array(places))
    doubles = doubles.append_column("version", pa.array(selected.versions[places]))
    keys = ("replay_id", "version", "file_stem", "source")
    doubles = doubles.sort_by([(key, "ascending") for key in keys])
    ids = doubles.column("replay_id").combine_chunks()
    is_first = np.ones(len(ids), bool)
    is_first[1:] = np.asarray(pc.not_equal(ids[1:], ids[:-1]), bool)
    leaving = np.asarray(doubles.column("place"))[~is_first]
    selected.take(np.setdiff1d(np.arange(len(order)), leaving, assume_unique=True))
    return len(leaving)


def remove_known(selected: Selected, known: NDArray[np.bytes_]) -> int:
    """Removes the replays with ids of a sorted array; returns how many they were."""
    if not len(known):
        return 0
    places = np.minimum(np.searchsorted(known, selected.ids), len(known) - 1)
    is_known = known[places] == selected.ids
    selected.take(np.flatnonzero(~is_known))
    return int(is_known.sum())


def _engine(names: set[str | None]) -> str:
    engines = sorted(name for name in names if name)
    if len(engines) != 1:
        raise errors.ConfigError(
            f"expected replays of one engine, but the selected ones are of {engines}; "
            'add "engine" to the selection'
        )
    return engines[0]


def rows_at(
    index: replay_index.Index, rows: NDArray[np.int64], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yields a table for each batch of an index: its rows with these numbers, which ascend."""
    begin = 0
    for batch in index.batches(columns):
        low, high = np.searchsorted(rows, [begin, begin + batch.num_rows])
        table = pa.Table.from_batches([batch]).select(list(columns))
        yield table.take(pa.array(rows[low:high] - begin))
        begin += batch.num_rows
