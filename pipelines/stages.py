"""The stages of the Beam job. Each stage calls one function and counts.

    row group -> WorkItem -> (shard, PartRef) -> grouped by shard -> shard's name

Only names and small rows travel through Beam. The stage that plays a replay writes its part;
the stage that joins a shard reads the parts.
"""

from collections.abc import Iterable, Iterator

import apache_beam as beam
from apache_beam.metrics.metric import Metrics

from starmill.engines import pool
from starmill.engines.replays import replay_file
from starmill.pipelines import episode_maker, plan, work_folder
from starmill.pipelines.inputs import packs
from starmill.schema import errors, storage
from starmill.schema.reasons import RejectReason


def count(name: str, by: int = 1) -> None:
    """Adds to one of the job's counters."""
    Metrics.counter("generate", name).inc(by)


class ReadPlan(beam.DoFn):
    """Number of a row group of the work list -> its WorkItems."""

    def __init__(self, url: str) -> None:
        self._url = url

    def process(self, group: int) -> Iterator[plan.WorkItem]:
        """Yields the replays of one row group."""
        yield from plan.items(self._url, group)


class PlayReplay(beam.DoFn):
    """WorkItem -> (shard's name, PartRef); writes the replay's part."""

    def __init__(
        self,
        work: str,
        pool_config: pool.PoolConfig,
        config: episode_maker.MakerConfig,
        password: packs.Password = None,
    ) -> None:
        self._work = work
        self._pool_config = pool_config
        self._config = config
        self._password = password
        self._pool: pool.Pool | None = None

    def process(self, item: plan.WorkItem) -> Iterator[tuple[str, work_folder.PartRef]]:
        """Plays one replay, unless its part exists or its episodes are reused."""
        if item.reused:
            count("replays_reused")
        elif work_folder.is_done(self._work, item):
            count("replays_done_before")
        else:
            self._play(item)
        yield item.shard, work_folder.ref_from_item(item)

    def _play(self, item: plan.WorkItem) -> None:
        # Not in `setup`, because a worker with nothing to play needs no game.
        if self._pool is None:
            self._pool = pool.open_shared(self._pool_config)
        try:
            data = read_replay(item.row.source, self._password)
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

    def teardown(self) -> None:
        """Returns the games to the shared pool."""
        if self._pool is not None:
            pool.close_shared(self._pool)
            self._pool = None


def _unreadable(item: plan.WorkItem, error: errors.ReplayError) -> episode_maker.Result:
    rows = [episode_maker.quarantine_row(item.row, side, error) for side in item.sides]
    return episode_maker.Result(episodes=(), quarantine=tuple(rows))


def read_replay(source: str, password: packs.Password = None) -> bytes:
    """Returns the bytes of a replay: a file, a URL, or a member of a pack.

    Raises ReplayError if they cannot be read.
    """
    limit = replay_file.DEFAULT_LIMITS.file_bytes
    if packs.SUFFIX + "!" in source.lower():
        at = source.lower().index(packs.SUFFIX + "!") + len(packs.SUFFIX)
        return packs.member(
            source[:at], source[at + 1 :], password=password, max_bytes=limit
        )
    try:
        return storage.read(source)
    except errors.FormatError as error:
        # Not the error's own message: it names an address, which differs between machines.
        raise errors.ReplayError(
            RejectReason.UNREADABLE, "the file can no longer be read"
        ) from error


class JoinShard(beam.DoFn):
    """(shard's name, PartRefs) -> the shard's name; writes the shard."""

    def __init__(self, target: work_folder.Target) -> None:
        self._target = target

    def process(
        self, group: tuple[str, Iterable[work_folder.PartRef]]
    ) -> Iterator[str]:
        """Joins the parts of one shard."""
        name, refs = group
        ordered = [work_folder.PartRef(*ref) for ref in refs]
        result = work_folder.join_shard(self._target, name, ordered)
        count("shards")
        count("shard_episodes", len(result.placed))
        yield name


def build(
    pipeline: beam.Pipeline,
    *,
    groups: int,
    target: work_folder.Target,
    pool_config: pool.PoolConfig,
    config: episode_maker.MakerConfig,
    password: packs.Password = None,
    min_ram: str | None = None,
) -> beam.pvalue.PCollection:
    """Adds the job's stages to a pipeline and returns the names of finished shards.

    Args:
        pipeline: of Beam.
        groups: row groups of the work list.
        target: the work folder, the dataset's folder, and whose they are.
        pool_config: how games are started and reused.
        config: how replays are played.
        password: where workers find that of encrypted packs.
        min_ram: memory that a worker needs to play, like "8GB". Only for runners that choose
            machines by it; others would start a second set of workers for the hint.
    """
    play: beam.PTransform = beam.ParDo(
        PlayReplay(target.work, pool_config, config, password)
    )
    if min_ram is not None:
        play = play.with_resource_hints(min_ram=min_ram)
    return (
        pipeline
        | "ListGroups" >> beam.Create(list(range(groups)))  # int
        | "SpreadGroups" >> beam.Reshuffle()
        | "ReadPlan" >> beam.ParDo(ReadPlan(target.plan_url))  # WorkItem
        | "SpreadReplays" >> beam.Reshuffle()
        | "PlayReplays" >> play  # (str, PartRef)
        | "GroupByShard" >> beam.GroupByKey()  # (str, Iterable[PartRef])
        | "JoinShards" >> beam.ParDo(JoinShard(target))  # str
    )
