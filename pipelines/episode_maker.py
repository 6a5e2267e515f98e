"""Turns one replay into encoded episodes, or into the reason why a side failed. No Beam.

In: a replay's bytes, its row of the index, and the sides to play. Out: for each side either
an episode's records or a quarantine row. The result does not depend on accidents: a game that
fails is replaced and its side is played again, and the row of a failure names neither process
nor attempt. Observations are converted and encoded as they arrive, so only the encoded
records grow with the length of the game.
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

from starmill.converters import episode
from starmill.engines import game_process, playback
from starmill.engines.pool import Pool
from starmill.engines.replays import replay_file
from starmill.schema import codec, errors, shards, table
from starmill.schema.episode import EpisodeMeta
from starmill.schema.reasons import RejectReason
from starmill.schema.replay_row import ReplayRow
from starmill.schema.settings import UNPLUGGED, ConverterSettings

_LOG = logging.getLogger(__name__)
SIDES = (1, 2)
# After a kill from outside: the pause grows with every kill, up to the longest.
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
# A message can be garbled on its way once. The second time, the replay is to blame.
_CONVERTER_ATTEMPTS = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class MakerConfig:
    """How replays are played.

    Attributes:
        settings: of the converter; supervised.
        attempts: how often a side is played before it is quarantined.
        kills: how often a game that has begun to play the replay may be killed from outside
            before that counts as a failure. Memory may run short at the same place each time.
        early_kills: the same for kills before any of the replay was played. Such a kill says
            nothing about the replay, so many are allowed.
        one_process: whether the two sides are played one after the other in one process, to
            save memory. Not possible with opponent features, which need both games at once.
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
            raise errors.ConfigError("how replays are played: " + "; ".join(problems))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of one replay: an episode or a quarantine row for each requested side.

    Attributes:
        episodes: the encoded sides.
        quarantine: one row for each side that failed.
        loops_played: game loops played by all processes, including failed attempts.
        attempts: how many times a side was started.
    """

    episodes: tuple[shards.EpisodeRecords, ...]
    quarantine: tuple[table.QuarantineRow, ...]
    loops_played: int = 0
    attempts: int = 0


class _Encoded(NamedTuple):
    """One side's episode, encoded.

    Attributes:
        records: the codec's records, header first.
        steps: how many steps they hold.
        game_loops: the loop of the last step.
    """

    records: list[bytes]
    steps: int
    game_loops: int


# Player -> the side's episode, or the error that ended the attempt.
_Outcomes = dict[int, _Encoded | Exception]


class _Counts:
    """Counters that two threads share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.loops_played = 0
        self.attempts = 0

    def add(self, *, loops_played: int = 0, attempts: int = 0) -> None:
        with self._lock:
            self.loops_played += loops_played
            self.attempts += attempts


class EpisodeMaker:
    """Makes episodes from replays with the games of a pool. Threads may share it."""

    def __init__(self, pool: Pool, config: MakerConfig) -> None:
        self._pool = pool
        self._config = config

    def run(self, data: bytes, row: ReplayRow, sides: Sequence[int] = SIDES) -> Result:
        """Returns the episodes of the given sides, and a row for each side that failed.

        Args:
            data: the replay file's bytes.
            row: the replay's row of the index.
            sides: which players' sides to make.
        """
        counts = _Counts()
        try:
            _check_unchanged(data, row)
            replay = replay_file.open_replay(data)
            frames = replay.action_frames()
            executable = self._executable(row)
        except (errors.ReplayError, errors.EngineMissing) as error:
            outcomes: _Outcomes = dict.fromkeys(sides, error)
        else:
            outcomes = self._play(executable, data, frames, sides, counts)
        episodes, quarantine = [], []
        for side in sides:
            outcome = outcomes[side]
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
    ) -> _Outcomes:
        if self._config.settings.add_opponent_features:
            return self._retried(
                lambda rest: self._play_pair(executable, data, frames, rest, counts),
                sides,
            )

        def one(side: int) -> _Encoded | Exception:
            return self._retried(
                lambda rest: {
                    side: self._play_side(
                        executable, data, frames.get(side, []), side, counts
                    )
                    for side in rest
                },
                (side,),
            )[side]

        if self._config.one_process or len(sides) == 1:
            return {side: one(side) for side in sides}
        # In parallel, each side in its own game: while one game computes, the other side's
        # observations are converted.
        with concurrent.futures.ThreadPoolExecutor(len(sides)) as threads:
            return dict(zip(sides, threads.map(one, sides), strict=True))

    def _retried(
        self, attempt: Callable[[Sequence[int]], _Outcomes], sides: Sequence[int]
    ) -> _Outcomes:
        """Returns the outcome of each side, after trying again those that may succeed."""
        outcomes: _Outcomes = {}
        failures, kills, early = 0, 0, 0
        remaining = tuple(sides)
        while True:
            latest = attempt(remaining)
            outcomes.update(latest)
            retryable = [side for side in latest if _may_pass(latest[side])]
            if not retryable:
                return outcomes
            kill = _outside_kill([outcomes[side] for side in retryable])
            failures += kill is None
            kills += kill is not None and kill.in_play
            early += kill is not None and not kill.in_play
            limit = self._config.attempts
            if any(isinstance(outcomes[s], errors.ConverterError) for s in retryable):
                limit = min(limit, _CONVERTER_ATTEMPTS)
            too_often = kills > self._config.kills or early > self._config.early_kills
            if failures >= limit or too_often:
                return outcomes
            if kill is not None:
                # A kernel that is short of memory needs time to recover.
                pause = _PAUSE_SECONDS * (kills + early)
                time.sleep(min(_LONGEST_PAUSE_SECONDS, pause))
            remaining = tuple(retryable)

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
    ) -> _Outcomes:
        counts.add(attempts=len(sides))
        players: list[playback.Player] = []
        try:
            with self._pool.lease(executable, 2) as games:
                players += [
                    playback.Player(game, max_rss_bytes=self._pool.config.max_rss_bytes)
                    for game in games
                ]
                outcomes = self._encode_pair(players, data, frames, sides)
                for outcome in outcomes.values():
                    if isinstance(outcome, errors.EngineError):
                        raise outcome  # neither game can be trusted any more
                return outcomes
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
    ) -> _Outcomes:
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
        settings = self._config.settings
        encoder = codec.EpisodeEncoder(settings)
        loop = 0
        for step in episode.convert_replay(
            settings, info.game_info, info.replay_info, stream, frames
        ):
            loop = int(step["game_loop"])
            encoder.add(step)
        return _Encoded(encoder.finish(), encoder.steps, loop)


def _outside_kill(
    outcomes: Sequence[_Encoded | Exception],
) -> errors.EngineKilled | None:
    """Returns None unless every outcome is a kill from outside; prefers a kill in play."""
    kills = [
        outcome for outcome in outcomes if isinstance(outcome, errors.EngineKilled)
    ]
    if len(kills) < len(outcomes):
        return None
    return max(kills, key=lambda kill: kill.in_play)


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


def _episode(row: ReplayRow, side: int, encoded: _Encoded) -> shards.EpisodeRecords:
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
    meta = EpisodeMeta(
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
        steps=encoded.steps,
        game_loops=encoded.game_loops,
        duration_loops=row.duration_loops or 0,
    )
    return shards.EpisodeRecords(meta=meta, records=encoded.records)


# The first class that matches an error gives its reason.
_REASONS: tuple[tuple[type[errors.StarmillError], RejectReason], ...] = (
    (errors.EngineMissing, RejectReason.ENGINE_MISSING),
    (errors.EngineTimeout, RejectReason.ENGINE_TIMEOUT),
    (errors.EngineDesync, RejectReason.DESYNC),
    (errors.EngineError, RejectReason.ENGINE_CRASHED),
    (errors.ConverterError, RejectReason.CONVERTER),
    (errors.SpecError, RejectReason.SPEC),
)


def reason_of(error: errors.StarmillError) -> RejectReason:
    """Returns the reason that a failure is counted under."""
    if isinstance(error, errors.ReplayError):
        return RejectReason(error.reason)
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    raise error


def quarantine_row(
    row: ReplayRow, side: int, error: errors.StarmillError
) -> table.QuarantineRow:
    """Returns the quarantine row of a side that failed.

    The row names the replay's file without its folder, because a dataset must not depend on
    where its replays were stored.
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
