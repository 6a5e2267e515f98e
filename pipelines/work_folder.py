"""The work folder: what a build has done so far, and how its parts become shards.

    job.json                the build's settings; a folder belongs to one build
    index-5b1c....parquet   the replays that were read; named by a digest of what was read
    plan-90af.../00000.packets           the replays to play (`planning.packets`); the folder is
                            named by a digest of its content
    parts/ab/ab12...part    episodes of one replay (`schema.shards`)
    parts/ab/ab12...quarantine.json      the sides that failed; written before the part
    done/train-00000-of-00004.tfrecord-90af.../1024   an empty file for each finished packet
    shards/train-00000-of-00004.tfrecord-90af....parquet
                            a finished shard's rows for the tables; named by the plan, too
    tables/train-00000-90af....parquet   the rows of many shards
    summary-90af....json    what the manifest needs of all shards

Every file has a deterministic name and deterministic bytes, and appears complete or not at
all. So a build can skip what exists, no matter which process wrote it, or in which order.
Names with digests keep lists of replays apart, even if a process that was believed dead
still writes.
"""

import concurrent.futures
import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from starmill.pipelines import claims, episode_maker, index
from starmill.pipelines.planning import packets
from starmill.schema import errors, shards, storage, table
from starmill.schema.reasons import RejectReason

_JOB = "job.json"
_INDEX = re.compile(r"index-[0-9a-f]{16}\.parquet")
_INDEX_PARTS = "index.parts"
_SHARD = re.compile(r"shards/(.+)-[0-9a-f]{16}\.(json|parquet)")
_TABLES = re.compile(r"tables/[a-z]+-\d{5}-[0-9a-f]{16}\.parquet")
_MARK = re.compile(r"done/(.+)-[0-9a-f]{16}/\d+")
_SUMMARY = re.compile(r"summary-[0-9a-f]{16}\.json")
_PARTS = re.compile(r"[0-9a-f]{2}")
_PART = re.compile(r"parts/([0-9a-f]{2})/\1[0-9a-f]{62}\.(part|quarantine\.json)")
# Folders of parts that are emptied at a time. Each takes a few requests, one after the other.
_EMPTIED_AT_ONCE = 16
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
def reported(problem: str) -> Iterator[None]:
    """Turns errors of the operating system or a store into a ConfigError of one line.

    Args:
        problem: the start of that line, which names the place and the operation that failed.
    """
    try:
        yield
    except (OSError, TimeoutError) as error:
        raise errors.ConfigError(f"{problem}: {_sentence(error)}") from error
    except Exception as error:  # noqa: BLE001  # object stores' clients raise errors of their own
        if isinstance(error, errors.StarmillError):
            raise
        raise errors.ConfigError(f"{problem}: {_sentence(error)}") from error


def _sentence(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).splitlines()[0]


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


def is_done(work: str, item: packets.WorkItem) -> bool:
    """Returns whether a replay's part exists and none of its sides should be tried again."""
    if not storage.exists(part_url(work, item.row.replay_id)):
        return False
    return is_settled(read_quarantine(work, item.row.replay_id))


def is_settled(failures: Iterable[table.QuarantineRow]) -> bool:
    """Returns whether another run would not play any of these sides again."""
    return not any(row.reason in _WORTH_ANOTHER_RUN for row in failures)


class Target(NamedTuple):
    """What a build writes to.

    Attributes:
        work: path or URL of the work folder.
        output: path or URL of the dataset's folder.
        plan: digest of the work list.
        token: of the build's claim of the output; "" if it has none.
        increment: number of the increment that the build adds; 0: it makes a whole dataset.
    """

    work: str
    output: str
    plan: str
    token: str
    increment: int = 0

    @property
    def plan_folder(self) -> str:
        """Returns the address of the work list's folder."""
        return storage.join(self.work, packets.folder_name(self.plan))

    def shard_result(self, name: str) -> str:
        """Returns the address of a finished shard's result."""
        return storage.join(self.work, f"shards/{name}-{self.plan}.parquet")

    def tables(self, name: str) -> str:
        """Returns the address of the rows of many shards."""
        return storage.join(self.work, f"tables/{name}-{self.plan}.parquet")

    @property
    def summary(self) -> str:
        """Returns the address of what the manifest needs of all shards."""
        return storage.join(self.work, f"summary-{self.plan}.json")


def mark_done(target: Target, packet: packets.Packet) -> bool:
    """Notes that all replays of a packet are done; returns whether those of its shard are.

    The last one of a shard's packets sees the marks of all others, in whatever order they end.
    """
    folder = storage.join(target.work, f"done/{packet.shard}-{target.plan}")
    with reported(f"{target.work}: cannot be written"):
        storage.write(storage.join(folder, str(packet.begin)), b"")
        marks = [name for name in storage.names(folder) if name.isdigit()]
    return len(marks) >= packet.of


def claim(work: str, job: dict[str, Any]) -> None:
    """Marks the work folder as this build's. Raises ConfigError as `check` does."""
    if not check(work, job):
        text = json.dumps(job, sort_keys=True, indent=1) + "\n"
        storage.write(storage.join(work, _JOB), text.encode())


def check(work: str, job: dict[str, Any]) -> bool:
    """Returns whether the work folder is this build's already.

    A folder in which another build has played nothing yet, such as one whose selection kept no
    replay, is free. Raises ConfigError if the folder belongs to another build, or holds files
    that no build wrote.
    """
    url = storage.join(work, _JOB)
    if storage.exists(url):
        return _is_same_job(work, storage.read(url), job)
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


def _is_same_job(work: str, data: bytes, job: dict[str, Any]) -> bool:
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
    if differences and has_results(work):
        raise errors.ConfigError(
            f"{work}: holds the unfinished work of another build, which differs in "
            f"{', '.join(differences)}. Finish that build, choose another --output or "
            "--work, or delete the folder"
        )
    return not differences


def has_results(work: str) -> bool:
    """Returns whether a build has written more than its job, its index and its plan."""
    names = (storage.temporary_target(name) or name for name in storage.names(work))
    return any(
        not (_is_work(name) or name == _INDEX_PARTS or claims.is_ours(name))
        for name in names
    )


def remove(work: str) -> None:
    """Deletes what builds write to a work folder, and the folder if nothing else is in it.

    An object store deletes a thousand files with one request. The folders of parts go one by one,
    so the names of a few of them are in memory, not those of all parts.
    """
    # fsspec's files in memory are not safe with threads.
    if not storage.is_local(work) and not work.startswith("memory://"):
        parts = parts_folder(work)
        names = [name for name in storage.names(parts) if _PARTS.fullmatch(name)]
        with concurrent.futures.ThreadPoolExecutor(_EMPTIED_AT_ONCE) as executor:
            for _ in executor.map(lambda name: _remove_parts(work, name), names):
                pass
    storage.remove(work, _is_work)


def _remove_parts(work: str, name: str) -> None:
    """Deletes the parts of one of the folders of parts."""
    folder = storage.join(parts_folder(work), name)
    storage.remove(folder, lambda file: _is_work(f"parts/{name}/{file}"))


def _is_work(name: str) -> bool:
    """Returns whether builds write this file, relative to the work folder, or its temporary."""
    name = storage.temporary_target(name) or name
    folder, _, rest = name.rpartition("/")
    if not folder:
        patterns: tuple[re.Pattern[str], ...] = (_INDEX, _SUMMARY)
        is_ours = name == _JOB or any(p.fullmatch(name) for p in patterns)
        return is_ours or packets.is_name(name)
    if folder == _INDEX_PARTS:
        return index.is_part(rest)
    if match := _SHARD.fullmatch(name) or _MARK.fullmatch(name):
        return shards.is_shard_name(match[1])
    match = _PART.fullmatch(name) or _TABLES.fullmatch(name)
    return match is not None or packets.is_name(name)
