"""One run: every assumption checked against the game that is given.

In: `Options`. Out: a `Report`. Plays each replay four times for each player, apart from the
stages for single requests and live games: as the pipeline does, once; then with the opponent's
process in step, as the predecessor does; and, where there is a Python 3.10 with its wheel, as the
predecessor's own code does. Must not know how reports look.
"""

import contextlib
import dataclasses
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from starmill.converters.protos import sc2api_pb2
from starmill.engines import installation
from starmill.engines.conformance import (
    comparison,
    live,
    messages,
    recording,
    reference,
    requests,
)
from starmill.engines.conformance.laboratory import Laboratory
from starmill.engines.conformance.ledger import Ledger
from starmill.engines.conformance.recording import Recording, Replay
from starmill.engines.conformance.records import Options, Playback, Report
from starmill.engines.conformance.transcript import Total, Transcript
from starmill.engines.game_process import Executable
from starmill.engines.playback import Player
from starmill.engines.replays import replay_file
from starmill.schema import errors
from starmill.schema.settings import ConverterSettings

SIDES = (1, 2)
# Besides one for each replay: single requests, two processes, a live game.
OTHER_STAGES = 3
_ABANDONED_STEPS = 2
# docs/scale.md: sides of the whole dataset, and loops and steps of an average one.
_BUILD_SIDES, _SIDE_LOOPS, _SIDE_STEPS = 2_800_000, 15_000, 1_250
_OBSERVATIONS_PER_STEP = 2
PLAYBACK_ASSUMPTIONS = (
    "start.accepts",
    "start.loop_zero",
    "start.player",
    "start.fog",
    "status.in_replay",
    "status.ended",
    "step.exact",
    "actions.window",
    "actions.once",
    "actions.reported",
    "end.result",
    "end.not_early",
    "end.no_stub",
    "order.units",
    "order.same_bytes",
    "order.reuse",
    "geometry.planes",
    "geometry.minimap",
    "geometry.camera",
    "geometry.camera_follows",
    "ids.known",
    "memory.growth",
    "arrays.convert",
    "arrays.two_ways",
)


def run(options: Options, on_stage: Callable[[str], None] = lambda _: None) -> Report:
    """Checks everything.

    on_stage: gets the name of each stage as it begins.

    Raises ConfigError if there is no game, or no replay that it could play.
    """
    ledger = Ledger()
    lab = Laboratory(options.root, options.deadlines, ledger)
    try:
        return _Trial(options, lab, on_stage).run()
    finally:
        lab.close()


class _Trial:
    def __init__(
        self, options: Options, lab: Laboratory, on_stage: Callable[[str], None]
    ) -> None:
        self._options = options
        self._lab = lab
        self._on_stage = on_stage
        self._measured: dict[str, float] = {}
        self._totals: dict[str, Total] = {}
        self._steps, self._convert_seconds = 0, 0.0
        self._reported, self._frames = 0, 0
        self._secrets = _secrets(options)

    def run(self) -> Report:
        lab, options = self._lab, self._options
        replays, playbacks = self._read()
        first = self._executable(replays[0])
        for name, names, call in (
            ("requests", requests.ASSUMPTIONS, self._single_requests),
            ("two processes", ("process.two",), self._two_processes),
        ):
            self._on_stage(name)
            with lab.stage(name, names):
                call(first, replays[0])
        for replay in replays:
            self._on_stage(f"replay {replay.name}")
            steps = self._steps
            with lab.stage(f"replay {replay.name}", PLAYBACK_ASSUMPTIONS):
                self._play(replay)
            playbacks.append(_played(replay, self._steps - steps))
        lab.ledger.skip(["start.fog"], "no enemy came into view in these replays")
        lab.ledger.skip(["geometry.camera_follows"], "no player moved the camera")
        self._on_stage("live game")
        with lab.stage("live game", live.ASSUMPTIONS):
            live.check(lab, first, options.settings)
        if options.reference_python is None:
            lab.ledger.skip(
                ["arrays.reference"], "pass --reference-python to compare with it"
            )
        engine = lab.pool.installation.engine_name(first)
        versions = lab.pool.installation.describe()
        lab.close()  # checks what is left of the games
        return Report(
            engine=engine,
            versions=versions,
            entries=tuple(lab.ledger.entries()),
            measured=self._results(),
            playbacks=tuple(playbacks),
            secrets=tuple(sorted(self._secrets, key=len, reverse=True)),
        )

    def _executable(self, replay: Replay) -> Executable:
        return self._lab.pool.installation.executable(
            replay.game_version, replay.base_build, replay.data_version
        )

    def _read(self) -> tuple[list[Replay], list[Playback]]:
        """Returns the replays to play, and notes on those that cannot be."""
        replays: list[Replay] = []
        others: list[Playback] = []
        for path in self._options.files:
            if len(replays) == self._options.most_replays:
                break
            data = path.read_bytes()
            row = replay_file.replay_row(data, str(path))
            try:
                replay = _replay(data, path)
                self._executable(replay)
            except (errors.ReplayError, errors.EngineMissing) as error:
                others.append(
                    Playback(
                        name=row.replay_id[:16],
                        game_version=row.game_version or "",
                        map_name=row.map_name or "",
                        loops=row.duration_loops or 0,
                        steps=0,
                        note=str(error),
                    )
                )
                continue
            replays.append(replay)
            self._secrets |= _player_names(data)
        if not replays:
            notes = "; ".join(f"{other.name}: {other.note}" for other in others[:3])
            raise errors.ConfigError(
                f"expected a replay that this game can play, found none in "
                f"{len(self._options.files)} files; {notes}"
            )
        return replays, others

    def _single_requests(self, executable: Executable, replay: Replay) -> None:
        self._measured |= requests.check(
            self._lab, executable, replay, self._options.settings
        )

    def _two_processes(self, executable: Executable, _: Replay) -> None:
        ping = sc2api_pb2.Request(ping=sc2api_pb2.RequestPing())
        with self._lab.lease(executable, 2, fresh=True) as benches:
            for bench in benches:
                bench.client.call(ping, self._options.deadlines.play)
        self._lab.ledger.expect("process.two", True, "")

    def _play(self, replay: Replay) -> None:
        with contextlib.ExitStack() as stack:
            own = {side: self._play_own(replay, side, stack) for side in SIDES}
            for side in SIDES:
                self._compare(replay, side, own[side], stack)
            if self._options.reference_python is not None:
                self._compare_reference(replay, own)

    def _play_own(
        self, replay: Replay, side: int, stack: contextlib.ExitStack
    ) -> "_Own":
        settings, ledger = self._options.settings, self._lab.ledger
        with self._lab.lease(self._executable(replay)) as (bench,):
            is_reused = bench.game.replays > 1
            if is_reused:
                _abandon(Player(bench.game), replay, settings)
            recordings: list[Recording] = []

            def on_start(started: Recording) -> None:
                stack.callback(started.close)
                recordings.append(started)
                bench.transcript.start_over()

            try:
                recording.play_own(
                    Player(bench.game),
                    replay,
                    side,
                    settings,
                    on_start,
                    lambda: bench.transcript.status == sc2api_pb2.ended,
                )
            finally:
                if recordings:
                    self._check_messages(recordings[0], replay, side)
            _check_statuses(bench.transcript, recordings[0], ledger)
            self._add(bench.transcript)
            self._lab.note_memory(bench.game, self._options.max_growth_bytes)
            for name in ("start.accepts", "start.loop_zero", "step.exact"):
                ledger.expect(name, True, "")
            for name in ("end.not_early", "end.no_stub"):
                ledger.expect(name, True, "")
            return _Own(recordings[0], is_reused)

    def _check_messages(self, played: Recording, replay: Replay, side: int) -> None:
        checks = messages.ObservationChecks(
            self._lab.ledger,
            player_id=side,
            game_info=played.info.game_info,
            settings=self._options.settings,
        )
        counts = []
        for index, loop in enumerate(played.loops):
            message = sc2api_pb2.ResponseObservation.FromString(played[index])
            checks.check(message)
            counts.append((loop, len(message.actions)))
        checks.finish()
        reported, frames = messages.reported_share(replay.frames.get(side, []), counts)
        self._reported += reported
        self._frames += frames
        if frames:
            self._lab.ledger.expect(
                "actions.reported",
                reported * 10 >= frames,
                f"player {side}: {reported} of {frames} action loops have a "
                "reported action",
            )

    def _compare(
        self, replay: Replay, side: int, own: "_Own", stack: contextlib.ExitStack
    ) -> None:
        settings, ledger = self._options.settings, self._lab.ledger
        # As the predecessor does, in processes in which nothing was played before.
        executable = self._executable(replay)
        with self._lab.lease(executable, 2, fresh=True) as (mine, other):
            players = Player(mine.game), Player(other.game)
            in_step = recording.play_in_step(players, replay, side, settings)
            stack.callback(in_step.close)
        where = f"replay {replay.name}, player {side}"
        frames = replay.frames.get(side, [])
        name = "order.reuse" if own.is_reused else "order.same_bytes"
        comparison.compare_messages(ledger, name, in_step, own.recording, where)
        began = time.perf_counter()
        steps = comparison.compare_arrays(
            ledger, own.recording, in_step, frames, settings, where
        )
        # Two recordings were converted.
        self._convert_seconds += (time.perf_counter() - began) / 2
        self._steps += steps

    def _compare_reference(self, replay: Replay, own: dict[int, "_Own"]) -> None:
        options = self._options
        python, root = str(options.reference_python), self._lab.pool.installation.root
        for side in SIDES:
            where = f"replay {replay.name}, player {side}"
            try:
                with reference.play(
                    python, root, replay, side, options.settings
                ) as file:
                    comparison.compare_reference(
                        self._lab.ledger,
                        own[side].recording,
                        file,
                        replay.frames.get(side, []),
                        options.settings,
                        where,
                    )
            except errors.ConfigError as error:
                self._lab.ledger.skip(["arrays.reference"], str(error))
            except errors.EngineError as error:
                self._lab.ledger.expect("arrays.reference", False, f"{where}: {error}")

    def _add(self, transcript: Transcript) -> None:
        for kind, total in transcript.totals.items():
            mine = self._totals.setdefault(kind, Total())
            mine.count += total.count
            mine.seconds += total.seconds
            mine.size_bytes += total.size_bytes
            mine.loops += total.loops

    def _results(self) -> dict[str, float]:
        """Returns the measurements that the run has made."""
        out = dict(self._measured)
        step, observation = (self._totals.get(k) for k in ("step", "observation"))
        if step and observation and step.seconds and self._steps:
            out["loops_per_second"] = step.loops / step.seconds
            out["observation_milliseconds"] = (
                1000 * observation.seconds / observation.count
            )
            out["observation_bytes"] = observation.size_bytes / observation.count
            out["convert_milliseconds"] = 1000 * self._convert_seconds / self._steps
            out["loops_per_step"] = step.loops / self._steps
            out["build_core_hours"] = build_core_hours(out)
        load = self._totals.get("start_replay")
        if load:
            out["load_seconds"] = load.seconds / load.count
        if self._lab.largest_bytes:
            out["process_bytes"] = self._lab.largest_bytes
        growth = self._lab.growth_bytes()
        if growth is not None:
            out["growth_bytes"] = growth
        if self._frames:
            out["reported_share"] = self._reported / self._frames
        return out


@dataclasses.dataclass(frozen=True)
class _Own:
    """A side played as the pipeline plays it.

    Attributes:
        recording: its observations.
        is_reused: whether the process had played other replays before.
    """

    recording: Recording
    is_reused: bool


def build_core_hours(rates: dict[str, float]) -> float:
    """Returns the core hours that the whole dataset takes at these rates."""
    stepping = _SIDE_LOOPS / rates["loops_per_second"]
    observing = rates["observation_milliseconds"] * _OBSERVATIONS_PER_STEP
    ours = rates["convert_milliseconds"]
    seconds = stepping + _SIDE_STEPS * (observing + ours) / 1000
    return _BUILD_SIDES * seconds / 3600


def _abandon(player: Player, replay: Replay, settings: ConverterSettings) -> None:
    """Leaves a replay in the middle, as a failed attempt does."""
    player.load(replay.data, 1, settings)
    stream = player.stream(replay.frames.get(1, []))
    with contextlib.closing(stream):  # type: ignore[type-var]  # a generator
        for _ in range(_ABANDONED_STEPS):
            next(stream, None)


def _check_statuses(transcript: Transcript, played: Recording, ledger: Ledger) -> None:
    """Checks the statuses of a playback that has come to its end."""
    # The last step and the last observation are those that see the end.
    before, ending = transcript.history[:-2], transcript.history[-2:]
    in_replay, ended = sc2api_pb2.in_replay, sc2api_pb2.ended
    others = sorted({status for status in before if status != in_replay})
    ledger.expect(
        "status.in_replay",
        not others,
        f"expected {in_replay} until the end of the replay, found {others}",
    )
    ledger.expect(
        "status.ended",
        all(status == ended for status in ending),
        f"expected {ended} at the end of the replay, found {ending}",
    )
    message = sc2api_pb2.ResponseObservation()
    if played.end is not None:
        message.ParseFromString(played.end.data)
    players = sorted(result.player_id for result in message.player_result)
    early = [
        played.loops[index]
        for index in range(len(played) - 1)
        if sc2api_pb2.ResponseObservation.FromString(played[index]).player_result
    ]
    ledger.expect(
        "end.result",
        players == [1, 2] and not early,
        f"expected results of players 1 and 2 at the end alone, found those of {players}"
        + (f", and some on loop {early[0]}" if early else ""),
    )


def _replay(data: bytes, path: Path) -> Replay:
    row = replay_file.replay_row(data, str(path))
    if row.status != "ok" or row.game_version is None or row.base_build is None:
        raise errors.ReplayError(row.status, row.detail or "the version is unknown")
    opened = replay_file.open_replay(data)
    return Replay(
        data=data,
        name=row.replay_id[:16],
        game_version=row.game_version,
        base_build=row.base_build,
        data_version=row.data_version,
        map_name=row.map_name or "",
        duration_loops=row.duration_loops or 0,
        mmrs={side: row.players[side - 1].mmr or 0 for side in SIDES},
        frames=opened.action_frames(),
    )


def _played(replay: Replay, steps: int) -> Playback:
    return Playback(
        name=replay.name,
        game_version=replay.game_version,
        map_name=replay.map_name,
        loops=replay.duration_loops,
        steps=steps,
        note="" if steps else "not played to the end; see the assumptions",
    )


def _secrets(options: Options) -> set[str]:
    """Returns the folders, files and machine that reports must not name."""
    folders = {str(Path.home()), str(Path.cwd()), tempfile.gettempdir(), options.root}
    folders |= {str(path) for path in options.files}
    folders |= {path.stem for path in options.files}
    names = {text for text in folders | {platform.node()} if len(text) > 2}
    return names - {installation.SKIRMISH}


def _player_names(data: bytes) -> set[str]:
    details = replay_file.open_replay(data).details
    names = {
        entry.get("m_name", b"").decode("utf-8", "replace")
        for entry in details.get("m_playerList") or ()
    }
    return {name for name in names if len(name) > 2}
