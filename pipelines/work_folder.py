"""From made episodes to files: a part per replay, shards joined from parts, and the end.

A **work folder** holds what a build has done so far:

    job.json            what the build is; another build's work is never mixed in
    index.parquet       the replays that were read
    plan.parquet        the replays to make
    parts/ab/ab12...part                 episodes of one replay (`schema.shards`)
    parts/ab/ab12...quarantine.json      the sides that failed; written before the part
    shards/train-00000-of-00004.tfrecord.json   a finished shard's entries for the tables

Everything has a deterministic name and deterministic bytes and appears whole or not at all,
so work that is there need not be done again, by whom and in whatever order it was done.
"""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from starmill.pipelines import episode_maker, plan
from starmill.schema import episode, errors, shards, storage, table
from starmill.schema.reasons import RejectReason

# Failures that another run may not meet: the game was missing, or the machine too slow.
_WORTH_ANOTHER_RUN = frozenset(
    {
        RejectReason.ENGINE_MISSING,
        RejectReason.ENGINE_CRASHED,
        RejectReason.ENGINE_TIMEOUT,
        RejectReason.UNREADABLE,
    }
)


@contextlib.contextmanager
def reported(what: str) -> Iterator[None]:
    """Turns an operating system's error into one line that says what could not be done."""
    try:
        yield
    except (OSError, TimeoutError) as error:
        raise errors.ConfigError(f"{what}: {_sentence(error)}") from error
    except Exception as error:  # noqa: BLE001  # object stores' clients raise their own
        if isinstance(error, errors.StarmillError):
            raise
        raise errors.ConfigError(f"{what}: {_sentence(error)}") from error


def _sentence(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).splitlines()[0]


class PartRef(NamedTuple):
    """A replay whose episodes are ready; all that travels through Beam.

    reused: JSON of where a dataset that is extended has the episodes; "" for a part.
    unwanted: JSON of the sides that the selection left out, with name and reasons.
    """

    replay_id: str
    reused: str
    unwanted: str


def ref_from_item(item: plan.WorkItem) -> PartRef:
    """Returns the reference of a work item whose part is written or which is reused."""
    unwanted = [
        dataclasses.asdict(
            table.QuarantineRow(
                replay_id=item.row.replay_id,
                player_id=side,
                source=item.row.file_stem,
                reason=reason,
                detail="the selection leaves this side out",
            )
        )
        for side, reason in item.unwanted
    ]
    reused = [dataclasses.asdict(found) for found in item.reused]
    return PartRef(
        item.row.replay_id,
        json.dumps(reused) if reused else "",
        json.dumps(unwanted) if unwanted else "",
    )


def parts_folder(work: str) -> str:
    """Returns where parts are."""
    return storage.join(work, "parts")


def part_url(work: str, replay_id: str) -> str:
    """Returns the address of a replay's part; 256 folders keep listings short."""
    return storage.join(parts_folder(work), f"{replay_id[:2]}/{replay_id}.part")


def _quarantine_url(work: str, replay_id: str) -> str:
    return part_url(work, replay_id).removesuffix(".part") + ".quarantine.json"


def write_result(work: str, replay_id: str, result: episode_maker.Result) -> None:
    """Writes a replay's part; with it, the replay is done."""
    with reported(f"{work}: cannot be written"):
        if result.quarantine:
            rows = [dataclasses.asdict(row) for row in result.quarantine]
            text = json.dumps(rows, sort_keys=True, indent=1) + "\n"
            storage.write(_quarantine_url(work, replay_id), text.encode())
        shards.write_part(part_url(work, replay_id), result.episodes)


def read_quarantine(work: str, replay_id: str) -> list[table.QuarantineRow]:
    """Returns the rows of the sides that failed; none if all went well."""
    url = _quarantine_url(work, replay_id)
    if not storage.exists(url):
        return []
    return [table.QuarantineRow(**row) for row in json.loads(storage.read(url))]


def is_done(work: str, item: plan.WorkItem) -> bool:
    """Returns whether a replay's part is there and need not be made again."""
    if not storage.exists(part_url(work, item.row.replay_id)):
        return False
    failed = read_quarantine(work, item.row.replay_id)
    return not any(row.reason in _WORTH_ANOTHER_RUN for row in failed)


class ShardResult(NamedTuple):
    """A finished shard: None in place of an entry where no episode was left."""

    entry: shards.ShardEntry | None
    placed: list[shards.Placed]
    quarantine: list[table.QuarantineRow]


def shard_result_url(work: str, name: str) -> str:
    """Returns the address of a finished shard's entries."""
    return storage.join(work, f"shards/{name}.json")


def join_shard(
    work: str, output: str, name: str, refs: Sequence[PartRef]
) -> ShardResult:
    """Joins parts, sorted by replay, into a shard, unless that was done already."""
    ordered = sorted(set(refs))
    quarantine = [row for ref in ordered for row in _left_out(work, ref)]
    inputs = _inputs_digest(work, ordered, quarantine)
    done = read_shard_result(work, name, inputs)
    if done is not None and (
        done.entry is None or storage.exists(storage.join(output, name))
    ):
        return done
    with reported(f"{output}: cannot be written"):
        entry, placed = _write_joined(work, output, name, ordered)
    result = ShardResult(entry, placed, quarantine)
    content = {
        "inputs": inputs,
        "entry": dataclasses.asdict(entry) if entry else None,
        "placed": [dataclasses.asdict(row) for row in placed],
        "quarantine": [dataclasses.asdict(row) for row in quarantine],
    }
    with reported(f"{work}: cannot be written"):
        storage.write(shard_result_url(work, name), json.dumps(content).encode())
    return result


def _write_joined(
    work: str, output: str, name: str, ordered: Sequence[PartRef]
) -> tuple[shards.ShardEntry | None, list[shards.Placed]]:
    episodes = _episodes(work, ordered)
    first = next(episodes, None)
    if first is None:
        return None, []

    def everything() -> Iterator[shards.EpisodeRecords]:
        yield first
        yield from episodes

    return shards.write_shard(output, name, everything())


def _episodes(work: str, ordered: Sequence[PartRef]) -> Iterator[shards.EpisodeRecords]:
    readers: dict[str, storage.RangeReader] = {}
    for ref in ordered:
        if not ref.reused:
            yield from shards.read_part(part_url(work, ref.replay_id))
            continue
        for found in json.loads(ref.reused):
            reader = readers.setdefault(
                found["folder"], storage.RangeReader(found["folder"])
            )
            yield _reused_records(reader, found)


def _reused_records(
    reader: storage.RangeReader, found: dict[str, Any]
) -> shards.EpisodeRecords:
    begin = found["offsets"][0]
    data = reader.read(found["shard"], begin, found["offsets"][-1])
    where = f"{reader.folder}/{found['shard']}"
    return shards.EpisodeRecords(
        meta=episode.EpisodeMeta(**found["meta"]),
        records=list(shards.records_of(data, where)),
    )


def _left_out(work: str, ref: PartRef) -> list[table.QuarantineRow]:
    unwanted = [table.QuarantineRow(**row) for row in json.loads(ref.unwanted or "[]")]
    return unwanted + ([] if ref.reused else read_quarantine(work, ref.replay_id))


def _inputs_digest(
    work: str, ordered: Sequence[PartRef], quarantine: Sequence[table.QuarantineRow]
) -> str:
    sizes = [
        0 if ref.reused else storage.size_bytes(part_url(work, ref.replay_id))
        for ref in ordered
    ]
    text = json.dumps(
        [ordered, sizes, [dataclasses.astuple(row) for row in quarantine]]
    )
    return hashlib.sha256(text.encode()).hexdigest()


def read_shard_result(
    work: str, name: str, inputs: str | None = None
) -> ShardResult | None:
    """Returns a finished shard's entries; None if it is not made, or of other inputs."""
    url = shard_result_url(work, name)
    if not storage.exists(url):
        return None
    content = json.loads(storage.read(url))
    if inputs is not None and content["inputs"] != inputs:
        return None
    entry = content["entry"]
    return ShardResult(
        shards.ShardEntry(**entry) if entry else None,
        [_placed(row) for row in content["placed"]],
        [table.QuarantineRow(**row) for row in content["quarantine"]],
    )


def _placed(row: dict[str, Any]) -> shards.Placed:
    return shards.Placed(
        **{
            **row,
            "meta": episode.EpisodeMeta(**row["meta"]),
            "offsets": tuple(row["offsets"]),
        }
    )


def claim(work: str, job: dict[str, Any]) -> None:
    """Marks the work folder as this build's; ConfigError if it is another's."""
    url = storage.join(work, "job.json")
    text = json.dumps(job, sort_keys=True, indent=1) + "\n"
    if storage.exists(url):
        found = json.loads(storage.read(url))
        differ = sorted(key for key in {*job, *found} if job.get(key) != found.get(key))
        if differ:
            raise errors.ConfigError(
                f"{work}: holds the unfinished work of another build, which differs in "
                f"{', '.join(differ)}. Finish that one, take another --output or --work, "
                "or delete the folder"
            )
        return
    storage.write(url, text.encode())
