"""The stages of the Beam job. Each stage calls one function and counts.

    file of the work list -> Packet -> (shard, ShardPart) -> grouped by shard -> shard's name
    -> grouped by the hundred -> group's name -> all groups -> the summary

Only names and places travel through Beam. The stage that plays a packet reads its replays from the
work list, writes their parts, and joins the shard whose last packet it is. The later stages join what
is left, and merge the rows of the tables.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import apache_beam as beam
from apache_beam.metrics.metric import Metrics

from starmill.engines import pool
from starmill.engines.replays import replay_file
from starmill.pipelines import episode_maker, work_folder
from starmill.pipelines.inputs import packs
from starmill.pipelines.joining import finishing, joining
from starmill.pipelines.planning import packets
from starmill.schema import errors, storage
from starmill.schema.reasons import RejectReason
from starmill.schema.replay_row import ReplayRow


def count(name: str, by: int = 1) -> None:
    """Adds to one of the job's counters."""
    Metrics.counter("generate", name).inc(by)


class ReadPlan(beam.DoFn):
    """Number of a file of the work list -> where its packets are."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, number: int) -> Iterator[packets.Packet]:
        """Yields the packets of one file."""
        yield from packets.packets_of(self._folder, number)


class ShardPart(NamedTuple):
    """What a packet tells the stage that joins its shard.

    Attributes:
        file: number of the work list's file that has the shard's packets.
        begin: first byte of the shard's packets.
        end: one after their last byte.
        is_joined: whether this packet was the shard's last, and the shard is joined.
    """

    file: int
    begin: int
    end: int
    is_joined: bool


class PlayPacket(beam.DoFn):
    """Packet -> (shard's name, ShardPart); writes the parts of its replays.

    The packet that is a shard's last joins the shard. Nothing waits for other shards.
    """

    def __init__(
        self,
        target: work_folder.Target,
        pool_config: pool.PoolConfig,
        config: episode_maker.MakerConfig,
        password: packs.Password = None,
    ) -> None:
        self._target = target
        self._work = target.work
        self._pool_config = pool_config
        self._config = config
        self._password = password
        self._pool: pool.Pool | None = None

    def process(self, packet: packets.Packet) -> Iterator[tuple[str, ShardPart]]:
        """Plays the replays of one packet, unless their parts exist or they are reused."""
        packet = packets.Packet(*packet)
        items = packets.read(
            self._target.plan_folder, packet.file, packet.begin, packet.end
        )
        # Not `all(...)` of a generator, which would stop at the first failure.
        are_settled = [self._settle(item) for item in items]
        is_joined = False
        if all(are_settled) and work_folder.mark_done(self._target, packet):
            join(
                self._target,
                packet.shard,
                packets.read_shard(self._target.plan_folder, packet),
            )
            is_joined = True
        yield (
            packet.shard,
            ShardPart(packet.file, packet.shard_begin, packet.shard_end, is_joined),
        )

    def _settle(self, item: packets.WorkItem) -> bool:
        """Returns whether nothing about a replay will change, now or in another run."""
        if item.reused:
            count("replays_reused")
            return True
        if work_folder.is_done(self._work, item):
            count("replays_done_before")
            return True
        return self._play(item)

    def _play(self, item: packets.WorkItem) -> bool:
        # Not in `setup`, because a worker with nothing to play needs no game.
        if self._pool is None:
            self._pool = pool.open_shared(self._pool_config)
        try:
            data = read_replay(item.row, self._password)
        except errors.ReplayError as error:
            result = _unreadable(item, error)
        else:
            maker = episode_maker.EpisodeMaker(self._pool, self._config)
            with self._pool.turns:
                result = maker.run(data, item.row, item.sides)
        work_folder.write_result(self._work, item.row.replay_id, result)
        count("replays_played")
        count("episodes", len(result.episodes))
        count("steps", sum(episode.meta.steps for episode in result.episodes))
        count("game_loops_played", result.loops_played)
        count("attempts", result.attempts)
        count("games_started", self._pool.newly_started())
        for row in result.quarantine:
            count(f"quarantined_{row.reason}")
        return work_folder.is_settled(result.quarantine)

    def teardown(self) -> None:
        """Returns the games to the shared pool."""
        if self._pool is not None:
            pool.close_shared(self._pool)
            self._pool = None


def _unreadable(
    item: packets.WorkItem, error: errors.ReplayError
) -> episode_maker.Result:
    rows = [episode_maker.quarantine_row(item.row, side, error) for side in item.sides]
    return episode_maker.Result(episodes=(), quarantine=tuple(rows))


def read_replay(row: ReplayRow, password: packs.Password = None) -> bytes:
    """Returns the bytes of a replay: a file, a URL, or a member of a pack.

    Raises ReplayError if they cannot be read.
    """
    source = row.source
    limit = replay_file.DEFAULT_LIMITS.file_bytes
    if packs.SUFFIX + "!" in source.lower():
        at = source.lower().index(packs.SUFFIX + "!") + len(packs.SUFFIX)
        address, name = source[:at], source[at + 1 :]
        data = _member_by_range(address, row, password, limit)
        return data or packs.member(address, name, password=password, max_bytes=limit)
    try:
        return storage.read(source)
    except errors.FormatError as error:
        # Not the error's own message: it names an address, which differs between machines.
        raise errors.ReplayError(
            RejectReason.UNREADABLE, "the file can no longer be read"
        ) from error


def _member_by_range(
    address: str, row: ReplayRow, password: packs.Password, limit: int
) -> bytes | None:
    """Returns the member where the index says that it is; None if something else is there."""
    if row.member_offset is None or not row.member_bytes:
        return None
    try:
        data = packs.member_at(
            address,
            row.member_offset,
            row.member_bytes,
            password=password,
            max_bytes=limit,
        )
    except errors.ReplayError:
        return None  # the pack changed; its directory tells where the replay is now
    return data if hashlib.sha256(data).hexdigest() == row.replay_id else None


def join(
    target: work_folder.Target, name: str, items: Iterable[packets.WorkItem]
) -> None:
    """Joins a shard and counts it."""
    items = list(items)
    refs = [joining.ref_from_item(item) for item in items]
    result = joining.join_shard(target, name, refs)
    joining.check_sides(items, result)
    count("shards")
    count("shard_episodes", result.episodes.num_rows)


class JoinShard(beam.DoFn):
    """(shard's name, ShardParts) -> (group, shard's name); joins the shard if no packet has."""

    def __init__(self, target: work_folder.Target) -> None:
        self._target = target

    def process(
        self, group: tuple[str, Iterable[ShardPart]]
    ) -> Iterator[tuple[str, str]]:
        """Joins one shard."""
        name, values = group
        parts = [ShardPart(*value) for value in values]
        if not any(part.is_joined for part in parts):
            file, begin, end, _ = parts[0]
            join(
                self._target,
                name,
                packets.read(self._target.plan_folder, file, begin, end),
            )
        yield finishing.group_of(name), name


class MergeRows(beam.DoFn):
    """(group, names of shards) -> group; writes their rows as one file."""

    def __init__(self, target: work_folder.Target) -> None:
        self._target = target

    def process(self, group: tuple[str, Iterable[str]]) -> Iterator[str]:
        """Merges the rows of one group of shards."""
        name, names = group
        finishing.merge(self._target, name, names)
        yield name


class WriteTables(beam.DoFn):
    """All groups -> the address of the summary; writes the tables of the dataset."""

    def __init__(self, target: work_folder.Target) -> None:
        self._target = target

    def process(self, element: tuple[None, Iterable[str]]) -> Iterator[str]:
        """Writes the tables and the summary."""
        finishing.finish(self._target, element[1])
        yield self._target.summary


def build(
    pipeline: beam.Pipeline,
    *,
    files: int,
    target: work_folder.Target,
    pool_config: pool.PoolConfig,
    config: episode_maker.MakerConfig,
    password: packs.Password = None,
    min_ram: str | None = None,
) -> beam.pvalue.PCollection:
    """Adds the job's stages to a pipeline and returns the address of the summary.

    Args:
        pipeline: of Beam.
        files: of the work list.
        target: the work folder, the dataset's folder, and whose they are.
        pool_config: how games are started and reused.
        config: how replays are played.
        password: where workers find that of encrypted packs.
        min_ram: memory that a worker needs to play, like "8GB". Only for runners that choose
            machines by it; others would start a second set of workers for the hint.
    """
    play: beam.PTransform = beam.ParDo(
        PlayPacket(target, pool_config, config, password)
    )
    if min_ram is not None:
        play = play.with_resource_hints(min_ram=min_ram)
    return (
        pipeline
        | "ListFiles" >> beam.Create(list(range(files)))  # int
        | "SpreadFiles" >> beam.Reshuffle()
        | "ReadPlan" >> beam.ParDo(ReadPlan(target.plan_folder))  # Packet
        | "SpreadPackets" >> beam.Reshuffle()
        | "PlayPackets" >> play  # (str, ShardPart)
        | "GroupByShard" >> beam.GroupByKey()  # (str, Iterable[ShardPart])
        | "JoinShards" >> beam.ParDo(JoinShard(target))  # (str, str)
        | "GroupShards" >> beam.GroupByKey()  # (str, Iterable[str])
        | "MergeRows" >> beam.ParDo(MergeRows(target))  # str
        | "NameGroups" >> beam.WithKeys(None)
        | "GroupGroups" >> beam.GroupByKey()  # (None, Iterable[str])
        | "WriteTables" >> beam.ParDo(WriteTables(target))  # str
    )
