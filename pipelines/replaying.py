"""Plays replays of a dataset again and compares each stored episode, array by array.

In: a dataset, the files of its replays, and a game. Out: the problems, as in `verify`. Must not
know: the command line.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from starmill.engines.pool import Pool, PoolConfig
from starmill.pipelines import episode_maker, index, stages, verify
from starmill.pipelines.inputs import packs, sources
from starmill.pipelines.verify import Problem
from starmill.schema import errors, manifest, replay_index, shards, storage, table
from starmill.schema.loader.lazy_table import read_episodes
from starmill.schema.replay_row import ReplayRow


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """Which replays to play again, and with what.

    Attributes:
        sample: how many replays, chosen by hash, or their ids with commas.
        sources: replay files, folders, packs, URLs or an index.
        root: the game's folder, or "skirmish".
        password: where workers find that of encrypted packs.
    """

    sample: str
    sources: Sequence[str]
    root: str
    password: packs.Password = None


def compare(
    request: Request, folder: str, content: manifest.Manifest
) -> tuple[list[Problem], int]:
    """Returns what differs from the stored episodes, and how many replays were asked for."""
    word = request.password
    if isinstance(word, str):
        word = packs.password_source(word, is_local=True)
    request = dataclasses.replace(request, password=word)
    try:
        rows = read_episodes(folder, content)
    except errors.FormatError as error:
        return [Problem(table.EPISODES, f"nothing is played again: {error}")], 0
    if request.sample.isdigit():
        replay_ids = sample(rows, int(request.sample))
    else:
        replay_ids = request.sample.split(",")
    available = _find(request, set(replay_ids))
    pool = Pool(PoolConfig(root=request.root))
    try:
        maker = episode_maker.EpisodeMaker(
            pool, episode_maker.MakerConfig(settings=content.settings)
        )
        problems = list(
            replayed(
                folder, content, rows, available, replay_ids, maker, request.password
            )
        )
    finally:
        pool.close()
    return problems, len(replay_ids)


def _find(request: Request, replay_ids: set[str]) -> dict[str, ReplayRow]:
    """Returns the rows of these replays; reads files until it has all of them."""
    available: dict[str, ReplayRow] = {}
    if len(request.sources) == 1 and request.sources[0].endswith(".parquet"):
        rows = replay_index.read_rows(request.sources[0])
        return {row.replay_id: row for row in rows if row.replay_id in replay_ids}
    settings = index.IndexSettings(events=False, password=request.password)
    for unit in sources.find(request.sources).units:
        for row in index.rows_of(unit, settings):
            if row.replay_id in replay_ids:
                available[row.replay_id] = row
        if len(available) == len(replay_ids):
            break
    return available


def sample(content: pa.Table, count: int) -> list[str]:
    """Returns the ids of up to `count` replays of the episode table, chosen by hash."""
    ids = sorted(
        set(content.column("replay_id").to_pylist()),
        key=lambda name: hashlib.sha256(f"verify {name}".encode()).digest(),
    )
    return ids[:count]


def replayed(
    folder: str,
    content: manifest.Manifest,
    rows: pa.Table,
    available: Mapping[str, ReplayRow],
    replay_ids: Iterable[str],
    maker: episode_maker.EpisodeMaker,
    password: packs.Password = None,
) -> Iterator[Problem]:
    """Plays replays again and yields what differs from their stored episodes.

    Args:
        folder: path or URL of the dataset.
        content: its manifest.
        rows: its episode table.
        available: replay id -> row of the replays whose files were found.
        replay_ids: which replays to play.
        maker: plays them.
        password: where workers find that of encrypted packs.
    """
    reader = storage.RangeReader(folder)
    for replay_id in replay_ids:
        if replay_id not in available:
            yield Problem(replay_id, "its replay file was not found; pass --replays")
            continue
        row = available[replay_id]
        stored = [r for r in rows.to_pylist() if r["replay_id"] == replay_id]
        sides = tuple(sorted(r["player_id"] for r in stored))
        result = maker.run(stages.read_replay(row, password), row, sides)
        for failure in result.quarantine:
            name = f"{replay_id}-{failure.player_id}"
            yield Problem(name, f"cannot be played again: {failure.reason}")
        episodes = {episode.meta.episode_id: episode for episode in result.episodes}
        for old in stored:
            if old["episode_id"] in episodes:
                records = list(episodes[old["episode_id"]].records)
                yield from _compare(reader, old, records, content)


def _compare(
    reader: storage.RangeReader,
    old: Mapping[str, Any],
    new: list[bytes],
    content: manifest.Manifest,
) -> Iterator[Problem]:
    name = old["episode_id"]
    try:
        data = reader.read(old["shard"], old["offsets"][0], old["offsets"][-1])
        records = list(shards.records_of(data, old["shard"]))
        if records == new:
            return
        step = 0
        pairs = zip(
            verify.chunks(records, content, name),
            verify.chunks(new, content, name),
            strict=False,
        )
        for stored, again in pairs:
            names = [k for k in stored if not np.array_equal(stored[k], again[k])]
            if names:
                yield Problem(
                    name, f"played again, differs in {names} from step {step}"
                )
                return
            step += len(stored["game_loop"])
    except errors.FormatError as error:
        yield Problem(name, str(error))
        return
    yield Problem(
        name, "played again, has other records, although the arrays are the same"
    )
