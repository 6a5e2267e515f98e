"""The stages of the Beam job; each calls one function and counts.

    row group -> WorkItem -> (shard, PartRef) -> grouped by shard -> shard's name

Payloads never travel: parts are written by the stage that plays, read by the one that joins.
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
    """Row group's number -> its WorkItems."""

    def __init__(self, url: str) -> None:
        self._url = url

    def process(self, group: int) -> Iterator[plan.WorkItem]:
        """Reads one row group."""
        yield from plan.items(self._url, group)


class PlayReplay(beam.DoFn):
    """WorkItem -> (shard's name, PartRef), with the replay's part written."""

    def __init__(
        self,
        work: str,
        pool_config: pool.PoolConfig,
        config: episode_maker.MakerConfig,
        password: str | None = None,
    ) -> None:
        self._work = work
        self._pool_config = pool_config
        self._config = config
        self._password = password
        self._pool: pool.Pool | None = None

    def process(self, item: plan.WorkItem) -> Iterator[tuple[str, work_folder.PartRef]]:
        """Plays one replay, unless its part is there or its episodes are reused."""
        if item.reused:
            count("replays_reused")
        elif work_folder.is_done(self._work, item):
            count("replays_done_before")
        else:
            self._make(item)
        yield item.shard, work_folder.ref_from_item(item)

    def _make(self, item: plan.WorkItem) -> None:
        # Not in `setup`: a worker that has nothing to play needs no game.
        if self._pool is None:
            self._pool = pool.open_shared(self._pool_config)
        try:
            data = read_replay(item.row.source, self._password)
        except errors.ReplayError as error:
            result = _unreadable(item, error)
        else:
            made_by = episode_maker.EpisodeMaker(self._pool, self._config)
            with self._pool.turns:
                result = made_by.run(data, item.row, item.sides)
        work_folder.write_result(self._work, item.row.replay_id, result)
        count("replays_played")
        count("episodes", len(result.episodes))
        count("steps", sum(made.meta.steps for made in result.episodes))
        count("game_loops_played", result.loops_played)
        count("attempts", result.attempts)
        count("games_started", self._pool.newly_started())
        for row in result.quarantine:
            count(f"quarantined_{row.reason}")

    def teardown(self) -> None:
        """Gives the games back."""
        if self._pool is not None:
            pool.close_shared(self._pool)
            self._pool = None


def _unreadable(item: plan.WorkItem, error: errors.ReplayError) -> episode_maker.Result:
    rows = [episode_maker.quarantine_row(item.row, side, error) for side in item.sides]
    return episode_maker.Result(episodes=(), quarantine=tuple(rows))


def read_replay(source: str, password: str | None = None) -> bytes:
    """Returns a replay's bytes from a file, a URL, or a member of a pack."""
    limit = replay_file.DEFAULT_LIMITS.file_bytes
    if packs.SUFFIX + "!" in source.lower():
        at = source.lower().index(packs.SUFFIX + "!") + len(packs.SUFFIX)
        return packs.member(
            source[:at], source[at + 1 :], password=password, max_bytes=limit
        )
    try:
        return storage.read(source)
    except errors.FormatError as error:
        # The message names the address, which differs from machine to machine.
        raise errors.ReplayError(
            RejectReason.UNREADABLE, "the file can no longer be read"
        ) from error


class JoinShard(beam.DoFn):
    """(shard's name, PartRefs) -> the shard's name, with the shard written."""

    def __init__(self, work: str, output: str) -> None:
        self._work = work
        self._output = output

    def process(
        self, group: tuple[str, Iterable[work_folder.PartRef]]
    ) -> Iterator[str]:
        """Joins one shard."""
        name, refs = group
        ordered = [work_folder.PartRef(*ref) for ref in refs]
        result = work_folder.join_shard(self._work, self._output, name, ordered)
        count("shards")
        count("shard_episodes", len(result.placed))
        yield name


def build(
    pipeline: beam.Pipeline,
    *,
    groups: int,
    plan_url: str,
    work: str,
    output: str,
    pool_config: pool.PoolConfig,
    config: episode_maker.MakerConfig,
    password: str | None = None,
    min_ram: str | None = None,
) -> beam.pvalue.PCollection:
    """Adds the job's stages to a pipeline; returns the names of finished shards.

    min_ram: what a worker that plays needs, for runners that choose machines by it; others
        would only start a second set of workers for it.
    """
    play: beam.PTransform = beam.ParDo(PlayReplay(work, pool_config, config, password))
    if min_ram is not None:
        play = play.with_resource_hints(min_ram=min_ram)
    return (
        pipeline
        | "ListGroups" >> beam.Create(list(range(groups)))  # int
        | "SpreadGroups" >> beam.Reshuffle()
        | "ReadPlan" >> beam.ParDo(ReadPlan(plan_url))  # WorkItem
        | "SpreadReplays" >> beam.Reshuffle()
        | "PlayReplays" >> play  # (str, PartRef)
        | "GroupByShard" >> beam.GroupByKey()  # (str, Iterable[PartRef])
        | "JoinShards" >> beam.ParDo(JoinShard(work, output))  # str
    )
