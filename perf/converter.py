"""From an observation's bytes to the full dict of dense arrays, beside pysc2's own Python code.

Both sides get the same messages in the same run. The peer is `Features.transform_obs` of pysc2
with the equivalent options, timed on messages that are already parsed, so its parsing is not
counted; ours starts from bytes, and its step's action is decoded too. Times are CPU time of the
thread, which other work on the machine disturbs less than the clock on the wall. Two statistics are
given, and the floor holds for both: the median of all calls, and the median over messages of each
message's best round, which sheds contention. On a quiet machine they agree; where they do not, the
machine was busy and neither should be quoted.
"""

import importlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perf import recorded
from perf.row import Row, beside
from starmill.converters import capture, episode, protos
from starmill.converters.observation import Converter
from starmill.schema.settings import ConverterSettings

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 15
FLOOR = 20.0
# Compiles everything in a process of its own, with an empty cache.
_FIRST_CALL = """
import sys, time
from pathlib import Path
from starmill.converters import capture, episode
from starmill.converters.observation import Converter
from starmill.schema.settings import ConverterSettings
case = capture.load(Path(sys.argv[1]))
made = Converter(ConverterSettings.from_json(case.settings), case.game_info, case.replay_info)
step = case.steps[0]
start = time.perf_counter()
made.convert(step.player, opponent=step.opponent, force_action=step.force_action, delay=1)
print(time.perf_counter() - start)
"""


def _recorded(work: Path) -> Path:
    """Writes the capture of the middle of a game and returns its path."""
    path = work / "mid_game.npz"
    path.write_bytes(capture.to_bytes(capture.to_arrays(recorded.mid_game_capture())))
    return path


def _peer(case: capture.Capture) -> Callable[[Any], Any]:
    """pysc2's converter with the options that give what ours gives."""
    protos.mark_flags_parsed()
    # By name, since it can be imported only once `protos` has been.
    actions = importlib.import_module("pysc2.lib.actions")
    features = importlib.import_module("pysc2.lib.features")
    settings = ConverterSettings.from_json(case.settings)
    raw = settings.raw_settings
    if raw is None:
        raise SystemExit("perf: the benchmark's settings have no raw interface")
    info = protos.sc2api_pb2.ResponseGameInfo.FromString(case.game_info)
    interface = features.AgentInterfaceFormat(
        feature_dimensions=features.Dimensions(screen=1, minimap=settings.minimap[0]),
        raw_resolution=raw.resolution[0],
        action_space=actions.ActionSpace.RAW,
        camera_width_world_units=settings.camera_width_world_units,
        use_raw_units=True,
        max_raw_actions=raw.max_unit_count,
        max_selected_units=raw.max_unit_selection_size,
        use_unit_counts=True,
        use_camera_position=True,
        show_cloaked=True,
        show_burrowed_shadows=True,
        show_placeholders=True,
        add_cargo_to_units=True,
    )
    reader = features.Features(
        interface,
        map_size=info.start_raw.map_size,
        requested_races={
            player.player_id: player.race_requested
            for player in info.player_info
            if player.type != protos.sc2api_pb2.Observer
        },
    )
    transform: Callable[[Any], Any] = reader.transform_obs
    return transform


def _ours(case: capture.Capture, *, reuse: bool) -> list[float]:
    """Seconds per observation over one episode."""
    settings = ConverterSettings.from_json(case.settings)
    converter = Converter(settings, case.game_info, case.replay_info, reuse=reuse)
    seconds = []
    for step in case.steps:
        start = time.thread_time()
        arrays = converter.convert(
            step.player,
            opponent=step.opponent,
            force_action=step.force_action,
            delay=step.delay,
        )
        seconds.append(time.thread_time() - start)
        converter.action(episode.action_of(arrays))
    return seconds


def _peers(transform: Callable[[Any], Any], messages: list[Any]) -> list[float]:
    seconds = []
    for message in messages:
        start = time.thread_time()
        transform(message)
        seconds.append(time.thread_time() - start)
    return seconds


def _median_ms(rounds: list[list[float]]) -> float:
    return statistics.median(call for calls in rounds for call in calls) * 1e3


def _best_ms(rounds: list[list[float]]) -> float:
    return statistics.median(min(times) for times in zip(*rounds, strict=True)) * 1e3


STATISTICS = {"median of calls": _median_ms, "best of rounds": _best_ms}


def _first_call_seconds(path: Path, cache: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_CALL, str(path)],
        env={"NUMBA_CACHE_DIR": cache, "PATH": "/usr/bin:/bin"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout)


def measure(path: Path | None = None) -> list[Row]:
    """Measures a capture, the middle of a game if none is given; ours and the peer's alternate."""
    with tempfile.TemporaryDirectory() as work:
        return _measure(path or _recorded(Path(work)), Path(work))


def _measure(path: Path, work: Path) -> list[Row]:
    case = capture.load(path)
    transform = _peer(case)
    messages = [
        protos.sc2api_pb2.ResponseObservation.FromString(step.player)
        for step in case.steps
    ]
    _ours(case, reuse=True)  # compiles, or loads what was compiled
    reused, fresh, peers = [], [], []
    for _ in range(ROUNDS):
        reused.append(_ours(case, reuse=True))
        fresh.append(_ours(case, reuse=False))
        peers.append(_peers(transform, messages))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cold = _first_call_seconds(path, str(work / "cache"))
    warm = _first_call_seconds(path, str(work / "cache"))
    rows = []
    for label, seconds in (("reused buffers", reused), ("fresh arrays", fresh)):
        for statistic, milliseconds in STATISTICS.items():
            ours, peer = milliseconds(seconds), milliseconds(peers)
            rows.append(
                beside(
                    f"observation to arrays, {label}, {statistic} ({path.stem})",
                    "ms",
                    ours,
                    peer,
                    "pysc2 Features.transform_obs",
                    floor=FLOOR,
                    less_is_better=True,
                )
            )
    rows += [
        Row(name="converter: first call, compiling", unit="s", ours=cold),
        Row(name="converter: first call, compiled before", unit="s", ours=warm),
        Row(name="converter: peak memory, peer included", unit="MB", ours=peak),
    ]
    return rows


if __name__ == "__main__":
    for row in measure(*map(Path, sys.argv[1:2])):
        print(row, file=sys.stderr)
