"""One replay to its episodes, encoded; or the reason for each side that failed. No Beam.

In: a replay's bytes, its row of the index, and which sides are wanted. Out: records per
episode and a quarantine row per failure, the same whatever happened on the way: a game that
fails is replaced and the side played again, and what is written of a failure names neither
process nor attempt. Observations are converted and encoded as they come, so memory does not
grow with the game but by the encoded records.
"""

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from starmill.converters import episode as episode_lib
from starmill.converters import timing
from starmill.converters.observation import Converter
from starmill.engines import game_process, playback
from starmill.engines.pool import Pool
from starmill.engines.replays import replay_file
from starmill.schema import codec, episode, errors, shards, table
from starmill.schema.replay_row import RejectReason, ReplayRow
from starmill.schema.settings import UNPLUGGED, ConverterSettings

_LOG = logging.getLogger(__name__)
SIDES = (1, 2)
_LONGEST_PAUSE_SECONDS = 2.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerConfig:
    """How replays are played.

    settings: what the converter makes.
    attempts: how often a side is played before it goes to quarantine.
    kills: how often a game may be killed from outside, having played some of the replay,
        before that counts as a failure: memory may run short at the same place each time.
    early_kills: the same before any of it was played, which is no sign against the replay.
    one_process: play the two sides one after the other in one process, where memory is
        short; not with opponent features, which need both at once.
    """

    settings: ConverterSettings = UNPLUGGED
    attempts: int = 3
    kills: int = 20
    early_kills: int = 500
    one_process: bool = False

    def __post_init__(self) -> None:
        """Checks that the options go together."""
        problems = []
        if self.attempts < 1 or min(self.kills, self.early_kills) < 0:
            problems.append(
                "expected attempts of 1 or more and kills of 0 or more, "
                f"found {self.attempts}, {self.kills} and {self.early_kills}"
            )
        if self.one_process and self.settings.add_opponent_features:
            problems.append("opponent features need two processes per game")
        if not self.settings.supervised:
            problems.append("episodes need supervised settings")
        if problems:
            raise errors.ConfigError("worker: " + "; ".join(problems))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What became of a replay: for each side that was wanted an episode or a row.

    loops_played: by all processes, failed attempts included.
    attempts: how often a side was begun.
    """

    episodes: tuple[shards.EpisodeRecords, ...]
    quarantine: tuple[table.QuarantineRow, ...]
    loops_played: int = 0
    attempts: int = 0


class _Encoded(NamedTuple):
    records: list[bytes]
    steps: int
    game_loops: int


_Made = dict[int, _Encoded | Exception]


class _Counts:
    """What two threads count together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.loops_played = 0
        self.attempts = 0

    def add(self, *, loops_played: int = 0, attempts: int = 0) -> None:
        with self._lock:
            self.loops_played += loops_played
            self.attempts += attempts


class Worker:
    """Makes episodes of replays with the games of a pool; threads may share it."""

    def __init__(self, pool: Pool, config: WorkerConfig) -> None:
        self._pool = pool
        self._config = config

    def run(self, data: bytes, row: ReplayRow, sides: Sequence[int] = SIDES) -> Result:
        """Returns the episodes of the sides, and rows for those that failed."""
        counts = _Counts()
        try:
            _check_unchanged(data, row)
            replay = replay_file.open_replay(data)
            frames = timing.action_frames(replay.game_events())
            executable = self._executable(row)
        except (errors.ReplayError, errors.EngineMissing) as error:
            made: _Made = dict.fromkeys(sides, error)
        else:
            made = self._play(executable, data, frames, sides, counts)
        episodes, quarantine = [], []
        for side in sides:
            outcome = made[side]
            try:
                if isinstance(outcome, Exception):
                    raise outcome
                episodes.append(_episode(row, side, outcome))
            except errors.StarmillError as error:
                quarantine.append(quarantine_row(row, side, error))
                _LOG.warning("%s-%s: %s", row.replay_id, side, error)
        return Result(
            episodes=tuple(episodes),
            quarantine=tuple(quarantine),
            loops_played=counts.loops_played,
            attempts=counts.attempts,
        )

    def _executable(self, row: ReplayRow) -> game_process.Executable:
        if row.game_version is None or row.base_build is None:
            raise errors.ReplayError(
                RejectReason.BAD_HEADER, "the game version is unknown"
            )
        return self._pool.installation.executable(
            row.game_version, row.base_build, row.data_version
        )

    def _play(
        self,
        executable: game_process.Executable,
        data: bytes,
        frames: dict[int, list[int]],
        sides: Sequence[int],
        counts: _Counts,
    ) -> _Made:
        if self._config.settings.add_opponent_features:
            return self._retried(
                lambda left: self._play_pair(executable, data, frames, left, counts),
                sides,
            )

        def one(side: int) -> _Encoded | Exception:
            return self._retried(
                lambda left: {
                    side: self._play_side(
                        executable, data, frames.get(side, []), side, counts
                    )
                    for side in left
                },
                (side,),
            )[side]

        if self._config.one_process or len(sides) == 1:
            return {side: one(side) for side in sides}
        # The sides are played in parallel, each in a game of its own: while one game
        # computes, the other side is converted.
        with concurrent.futures.ThreadPoolExecutor(len(sides)) as threads:
            return dict(zip(sides, threads.map(one, sides), strict=True))

    def _retried(
        self, attempt: Callable[[Sequence[int]], _Made], sides: Sequence[int]
    ) -> _Made:
        """Returns what `attempt` makes of the sides, trying those again that may succeed."""
        done: _Made = {}
        failures, kills, early = 0, 0, 0
        left = tuple(sides)
        while True:
            made = attempt(left)
            again = []
            for side, outcome in made.items():
                done[side] = outcome
                if _may_pass(outcome):
                    again.append(side)
            if not again:
                return done
            kill = _outside_kill([done[side] for side in again])
            failures += kill is None
            kills += kill is not None and kill.in_play
            early += kill is not None and not kill.in_play
            limit = self._config.attempts
            if any(isinstance(done[s], errors.ConverterError) for s in again):
                # A message can be garbled on its way, but a second time it is the replay.
                limit = min(limit, 2)
            too_often = kills > self._config.kills or early > self._config.early_kills
            if failures >= limit or too_often:
                return done
            if kill is not None:
                # Whoever kills (a kernel short of memory) may need time to be done with it.
                time.sleep(min(_LONGEST_PAUSE_SECONDS, 0.05 * (kills + early)))
            left = tuple(again)

    def _play_side(
        self,
        executable: game_process.Executable,
        data: bytes,
        frames: Sequence[int],
        side: int,
        counts: _Counts,
    ) -> _Encoded | Exception:
        counts.add(attempts=1)
        played = 0
        try:
            with self._pool.lease(executable) as (game,):
                player = playback.Player(
                    game, max_rss_bytes=self._pool.config.max_rss_bytes
                )
                try:
                    info = player.load(data, side, self._config.settings)
                    stream = player.stream(frames)
                    with contextlib.closing(stream):  # type: ignore[type-var]  # a generator
                        return self._encode(info, stream, frames)
                finally:
                    played = player.loops_played
                    counts.add(loops_played=played)
        except errors.StarmillError as error:
            return _with_progress(error, played)

    def _play_pair(
        self,
        executable: game_process.Executable,
        data: bytes,
        frames: dict[int, list[int]],
        sides: Sequence[int],
        counts: _Counts,
    ) -> _Made:
        counts.add(attempts=len(sides))
        players: list[playback.Player] = []
        try:
            with self._pool.lease(executable, 2) as games:
                players += [
                    playback.Player(game, max_rss_bytes=self._pool.config.max_rss_bytes)
                    for game in games
                ]
                made = self._encode_pair(players, data, frames, sides)
                for outcome in made.values():
                    if isinstance(outcome, errors.EngineError):
                        raise outcome  # both games are in doubt
                return made
        except errors.StarmillError as error:
            played = sum(player.loops_played for player in players)
            return dict.fromkeys(sides, _with_progress(error, played))
        finally:
            counts.add(loops_played=sum(player.loops_played for player in players))

    def _encode_pair(
        self,
        players: Sequence[playback.Player],
        data: bytes,
        frames: dict[int, list[int]],
        sides: Sequence[int],
    ) -> _Made:
        infos = {
            side: players[side - 1].load(data, side, self._config.settings)
            for side in SIDES
        }
        pair = playback.Pair((players[0], players[1]), frames)

        def one(side: int) -> _Encoded | Exception:
            try:
                stream = pair.stream(side)
                with contextlib.closing(stream):  # type: ignore[type-var]  # a generator
                    return self._encode(infos[side], stream, frames.get(side, []))
            except errors.StarmillError as error:
                return error

        with concurrent.futures.ThreadPoolExecutor(len(sides)) as threads:
            return dict(zip(sides, threads.map(one, sides), strict=True))

    def _encode(
        self, info: playback.Info, stream: playback.Stream, frames: Sequence[int]
    ) -> _Encoded:
        converter = Converter(
            self._config.settings, info.game_info, info.replay_info, reuse=True
        )
        encoder = codec.EpisodeEncoder(self._config.settings)
        loop = 0
        for step in episode_lib.convert_stream(converter, stream, frames):
            loop = int(step["game_loop"])
            encoder.add(step)
        return _Encoded(encoder.finish(), encoder.steps, loop)


def _outside_kill(
    outcomes: Sequence[_Encoded | Exception],
) -> errors.EngineKilled | None:
    """Returns the kill that all of them failed by, the one latest in play; None if not all."""
    found = [one for one in outcomes if isinstance(one, errors.EngineKilled)]
    if len(found) < len(outcomes):
        return None
    return max(found, key=lambda kill: kill.in_play)


def _with_progress(
    error: errors.StarmillError, loops_played: int
) -> errors.StarmillError:
    if isinstance(error, errors.EngineKilled):
        error.in_play = loops_played > 0
    return error


def _may_pass(outcome: _Encoded | Exception) -> bool:
    if isinstance(outcome, errors.EngineMissing):
        return False
    return isinstance(outcome, errors.EngineError | errors.ConverterError)


def _check_unchanged(data: bytes, row: ReplayRow) -> None:
    if hashlib.sha256(data).hexdigest() != row.replay_id:
        raise errors.ReplayError(
            RejectReason.UNREADABLE, "the file has changed since it was indexed"
        )


def _episode(row: ReplayRow, side: int, made: _Encoded) -> shards.EpisodeRecords:
    own, other = row.players[side - 1], row.players[2 - side]
    race, opponent_race, outcome = own.race_name, other.race_name, own.outcome
    unknown = [
        (reason, name)
        for reason, name, value in (
            (RejectReason.RACE, "race", race),
            (RejectReason.RACE, "opponent's race", opponent_race),
            (RejectReason.OUTCOME, "outcome", outcome),
            (RejectReason.MAP, "map", row.map_name),
        )
        if value is None
    ]
    if unknown:
        raise errors.ReplayError(unknown[0][0], f"the {unknown[0][1]} is unknown")
    meta = episode.EpisodeMeta(
        replay_id=row.replay_id,
        player_id=side,
        game_version=str(row.game_version),
        base_build=row.base_build or 0,
        data_version=row.data_version,
        map_name=str(row.map_name),
        race=str(race),
        opponent_race=str(opponent_race),
        mmr=own.mmr,
        opponent_mmr=other.mmr,
        apm=own.apm,
        outcome=int(outcome or 0),
        steps=made.steps,
        game_loops=made.game_loops,
        duration_loops=row.duration_loops or 0,
    )
    return shards.EpisodeRecords(meta=meta, records=made.records)


# The first class that an error is an instance of gives its reason.
_REASONS: tuple[tuple[type[errors.StarmillError], RejectReason], ...] = (
    (errors.EngineMissing, RejectReason.ENGINE_MISSING),
    (errors.EngineTimeout, RejectReason.ENGINE_TIMEOUT),
    (errors.EngineDesync, RejectReason.DESYNC),
    (errors.EngineError, RejectReason.ENGINE_CRASHED),
    (errors.ConverterError, RejectReason.CONVERTER),
    (errors.SpecError, RejectReason.SPEC),
)


def reason_of(error: errors.StarmillError) -> RejectReason:
    """Returns the reason under which a failure is counted."""
    if isinstance(error, errors.ReplayError):
        return RejectReason(error.reason)
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    raise error


def quarantine_row(
    row: ReplayRow, side: int, error: errors.StarmillError
) -> table.QuarantineRow:
    """Returns the row of a side that failed.

    source is the file's name alone: a dataset must not depend on where its replays lay.
    """
    reason = reason_of(error)
    detail = error.detail if isinstance(error, errors.ReplayError) else str(error)
    if reason == RejectReason.ENGINE_REFUSED and row.engine == "sc2":
        detail += "; a replay of StarCraft II needs that game in $SC2PATH"
    return table.QuarantineRow(
        replay_id=row.replay_id,
        player_id=side,
        source=row.file_stem,
        reason=reason.value,
        detail=detail,
    )
