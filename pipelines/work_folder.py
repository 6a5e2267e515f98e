"""The work folder: what a build has done so far, and how its parts become shards.

    job.json                the build's settings; a folder belongs to one build
    index-5b1c....parquet   the replays that were read; named by a digest of what was read
    plan-90af....parquet    the replays to play; named by a digest of its content
    parts/ab/ab12...part    episodes of one replay (`schema.shards`)
    parts/ab/ab12...quarantine.json      the sides that failed; written before the part
    shards/train-00000-of-00004.tfrecord-90af....json
                            a finished shard's rows for the tables; named by the plan, too

Every file has a deterministic name and deterministic bytes, and appears complete or not at
all. So a build can skip what exists, no matter which process wrote it, or in which order.
Names with digests keep lists of replays apart, even if a process that was believed dead
still writes.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from starmill.pipelines import claims, episode_maker, index, plan
from starmill.schema import errors, shards, storage, table
from starmill.schema.episode import EpisodeMeta
from starmill.schema.reasons import RejectReason

_JOB = "job.json"
_INDEX = re.compile(r"index-[0-9a-f]{16}\.parquet")
_INDEX_PARTS = "index.parts"
_SHARD = re.compile(r"shards/(.+)-[0-9a-f]{16}\.json")
_PART = re.compile(r"parts/([0-9a-f]{2})/\1[0-9a-f]{62}\.(part|quarantine\.json)")
# Failures that may not happen again: the game was missing, or the machine was too slow.
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
    """Turns errors of the operating system or a store into a ConfigError of one line.

    Args:
        what: the start of that line, which names the place and what was impossible.
    """
    try:
        yield
    except (OSError, TimeoutError) as error:
        raise errors.ConfigError(f"{what}: {_sentence(error)}") from error
    except Exception as error:  # noqa: BLE001  # object stores' clients raise errors of their own
        if isinstance(error, errors.StarmillError):
            raise
        raise errors.ConfigError(f"{what}: {_sentence(error)}") from error


def _sentence(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).splitlines()[0]


class PartRef(NamedTuple):
    """A replay whose episodes are ready. This is all that travels through Beam.

    Attributes:
        replay_id: of the replay.
        reused: JSON of where the extended dataset has the episodes; "" if they are in a part.
        unselected: JSON of the rows of the sides that the selection leaves out; "" if none.
    """

    replay_id: str
    reused: str
    unselected: str


def ref_from_item(item: plan.WorkItem) -> PartRef:
    """Returns the reference of a work item that is played or reused."""
    unselected = [
        dataclasses.asdict(
            table.UnselectedRow(
                replay_id=item.row.replay_id,
                player_id=side,
                source=item.row.file_stem,
                reason=reason,
            )
        )
        for side, reason in item.unselected
    ]
    reused = [dataclasses.asdict(episode) for episode in item.reused]
    return PartRef(
        item.row.replay_id,
        json.dumps(reused) if reused else "",
        json.dumps(unselected) if unselected else "",
    )


def index_url(work: str, digest: str) -> str:
    """Returns the address of the index with a digest."""
    return storage.join(work, f"index-{digest}.parquet")


def index_parts(work: str) -> str:
    """Returns the folder of the parts of indices. Those of the same replays are reused."""
    return storage.join(work, _INDEX_PARTS)


def parts_folder(work: str) -> str:
    """Returns the folder that holds the parts."""
    return storage.join(work, "parts")


def part_url(work: str, replay_id: str) -> str:
    """Returns the address of a replay's part, in one of 256 folders."""
    return storage.join(parts_folder(work), f"{replay_id[:2]}/{replay_id}.part")


def _quarantine_url(work: str, replay_id: str) -> str:
    return part_url(work, replay_id).removesuffix(".part") + ".quarantine.json"


def write_result(work: str, replay_id: str, result: episode_maker.Result) -> None:
    """Writes the outcome of a replay: first the sides that failed, then the part."""
    with reported(f"{work}: cannot be written"):
        if result.quarantine:
            rows = [dataclasses.asdict(row) for row in result.quarantine]
            text = json.dumps(rows, sort_keys=True, indent=1) + "\n"
            storage.write(_quarantine_url(work, replay_id), text.encode())
        shards.write_part(part_url(work, replay_id), result.episodes)


def read_quarantine(work: str, replay_id: str) -> list[table.QuarantineRow]:
    """Returns the rows of the sides of a replay that failed."""
    url = _quarantine_url(work, replay_id)
    if not storage.exists(url):
        return []
    try:
        return [table.QuarantineRow(**row) for row in json.loads(storage.read(url))]
    except (ValueError, TypeError) as error:
        raise errors.FormatError(
            f"{url}: damaged ({error}); delete it and the replay's part to play the "
            "replay again"
        ) from error


def is_done(work: str, item: plan.WorkItem) -> bool:
    """Returns whether a replay's part exists and no side is worth another attempt."""
    if not storage.exists(part_url(work, item.row.replay_id)):
        return False
    failures = read_quarantine(work, item.row.replay_id)
    return not any(row.reason in _WORTH_ANOTHER_RUN for row in failures)


class Target(NamedTuple):
    """What a build writes to.

    Attributes:
        work: path or URL of the work folder.
        output: path or URL of the dataset's folder.
        plan: digest of the work list.
        token: of the build's claim of the output; "" if it has none.
    """

    work: str
    output: str
    plan: str
    token: str

    @property
    def plan_url(self) -> str:
        """Returns the address of the work list."""
        return storage.join(self.work, plan.name(self.plan))


class ShardResult(NamedTuple):
    """A finished shard.

    Attributes:
        entry: for the manifest; None if no episode was left, and so no file was written.
        placed: its episodes, in the order of the file.
        quarantine: the sides of its replays that failed.
        unselected: the sides of its replays that the selection leaves out.
    """

    entry: shards.ShardEntry | None
    placed: list[shards.Placed]
    quarantine: list[table.QuarantineRow]
    unselected: list[table.UnselectedRow]


def shard_result_url(target: Target, name: str) -> str:
    """Returns the address of a finished shard's result."""
    return storage.join(target.work, f"shards/{name}-{target.plan}.json")


def join_shard(target: Target, name: str, refs: Sequence[PartRef]) -> ShardResult:
    """Joins parts, sorted by replay, into a shard; skips a shard that is finished.

    Raises ConfigError if another build has taken the output over.
    """
    if target.token:
        claims.check(target.output, target.token)
    work = target.work
    ordered = sorted(set(refs))
    quarantine = [
        row
        for ref in ordered
        if not ref.reused
        for row in read_quarantine(work, ref.replay_id)
    ]
    inputs = _inputs_digest(work, ordered, quarantine)
    done = read_shard_result(target, name, inputs)
    if done is not None and is_intact(target.output, done.entry):
        return done
    with reported(f"{target.output}: cannot be written"):
        entry, placed = _write_joined(target, name, ordered)
    unselected = [
        table.UnselectedRow(**row)
        for ref in ordered
        for row in json.loads(ref.unselected or "[]")
    ]
    result = ShardResult(entry, placed, quarantine, unselected)
    content = {
        "inputs": inputs,
        "entry": dataclasses.asdict(entry) if entry else None,
        "placed": [dataclasses.asdict(row) for row in placed],
        "quarantine": [dataclasses.asdict(row) for row in quarantine],
        "unselected": [dataclasses.asdict(row) for row in unselected],
    }
    with reported(f"{work}: cannot be written"):
        storage.write(shard_result_url(target, name), json.dumps(content).encode())
    return result


def is_intact(output: str, entry: shards.ShardEntry | None) -> bool:
    """Returns whether a shard that is finished is still as it was written."""
    if entry is None:
        return True
    try:
        written = storage.digest(output, entry.name)
    except errors.FormatError:
        return False
    return written == storage.Written(entry.size_bytes, entry.sha256)


def _write_joined(
    target: Target, name: str, ordered: Sequence[PartRef]
) -> tuple[shards.ShardEntry | None, list[shards.Placed]]:
    episodes = _episodes(target.work, ordered)
    first = next(episodes, None)
    if first is None:
        return None, []
    return shards.write_shard(target.output, name, itertools.chain([first], episodes))


def _episodes(work: str, ordered: Sequence[PartRef]) -> Iterator[shards.EpisodeRecords]:
    readers: dict[str, storage.RangeReader] = {}
    for ref in ordered:
        if not ref.reused:
            yield from shards.read_part(part_url(work, ref.replay_id))
            continue
        for reused in json.loads(ref.reused):
            folder = reused["folder"]
            if folder not in readers:
                readers[folder] = storage.RangeReader(folder)
            yield _reused_records(readers[folder], reused)


def _reused_records(
    reader: storage.RangeReader, reused: dict[str, Any]
) -> shards.EpisodeRecords:
    begin, end = reused["offsets"][0], reused["offsets"][-1]
    data = reader.read(reused["shard"], begin, end)
    where = f"{reader.folder}/{reused['shard']}"
    records = list(shards.records_of(data, where))
    digest = hashlib.sha256(b"".join(records)).hexdigest()
    if digest != reused["sha256"]:
        raise errors.ShardCorrupt(
            f"{where}, byte {begin:,}: the episode table says sha256 {reused['sha256']}, "
            f"found {digest}; the dataset that is extended is damaged"
        )
    return shards.EpisodeRecords(meta=EpisodeMeta(**reused["meta"]), records=records)


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
    target: Target, name: str, inputs: str | None = None
) -> ShardResult | None:
    """Returns the result of a finished shard.

    None if the shard is not finished, if it was made from other inputs than `inputs`, or if
    its result is damaged.
    """
    url = shard_result_url(target, name)
    if not storage.exists(url):
        return None
    try:
        content = json.loads(storage.read(url))
        if inputs is not None and content["inputs"] != inputs:
            return None
        entry = content["entry"]
        return ShardResult(
            shards.ShardEntry(**entry) if entry else None,
            [_placed(row) for row in content["placed"]],
            [table.QuarantineRow(**row) for row in content["quarantine"]],
            [table.UnselectedRow(**row) for row in content["unselected"]],
        )
    except (ValueError, KeyError, TypeError, errors.SpecError):
        return None


def _placed(row: dict[str, Any]) -> shards.Placed:
    return shards.Placed(
        **{
            **row,
            "meta": EpisodeMeta(**row["meta"]),
            "offsets": tuple(row["offsets"]),
        }
    )


def claim(work: str, job: dict[str, Any]) -> None:
    """Marks the work folder as this build's. Raises ConfigError as `check` does."""
    if not check(work, job):
        text = json.dumps(job, sort_keys=True, indent=1) + "\n"
        storage.write(storage.join(work, _JOB), text.encode())


def check(work: str, job: dict[str, Any]) -> bool:
    """Returns whether the work folder is this build's already.

    Raises ConfigError if it belongs to another build, or holds files that no build wrote.
    """
    url = storage.join(work, _JOB)
    if storage.exists(url):
        _check_job(work, storage.read(url), job)
        return True
    foreign = [
        name
        for name in storage.names(work)
        if storage.temporary_target(name) != _JOB and not claims.is_ours(name)
    ]
    if foreign:
        raise errors.ConfigError(
            f"{work}: expected an empty folder or an unfinished build, found "
            f"{foreign[0]!r}{' and others' if len(foreign) > 1 else ''}; "
            "choose another --work"
        )
    return False


def _check_job(work: str, data: bytes, job: dict[str, Any]) -> None:
    try:
        stored = json.loads(data)
    except ValueError:
        stored = None
    if not isinstance(stored, dict) or "starmill" not in stored:
        raise errors.ConfigError(
            f"{work}: its {_JOB} is not that of an unfinished build; choose another --work"
        )
    differences = sorted(
        key for key in {*job, *stored} if job.get(key) != stored.get(key)
    )
    if differences:
        raise errors.ConfigError(
            f"{work}: holds the unfinished work of another build, which differs in "
            f"{', '.join(differences)}. Finish that build, choose another --output or "
            "--work, or delete the folder"
        )


def remove(work: str) -> None:
    """Deletes what builds write to a work folder, and the folder if nothing else is in it."""
    storage.remove(work, _is_work)


def _is_work(name: str) -> bool:
    """Returns whether builds write this file, relative to the work folder, or its temporary."""
    name = storage.temporary_target(name) or name
    folder, _, rest = name.rpartition("/")
    if not folder:
        return name == _JOB or plan.is_name(name) or _INDEX.fullmatch(name) is not None
    if folder == _INDEX_PARTS:
        return index.PART_NAME.fullmatch(rest) is not None
    if match := _SHARD.fullmatch(name):
        return shards.is_shard_name(match[1])
    return _PART.fullmatch(name) is not None
