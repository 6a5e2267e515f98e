"""Skirmish behind the protocol: start-up, and what an observation costs.

Both are measured as a client sees them: from launching the process to its first answer, and from
sending a request to having the answer, over the socket, in the middle of a game.
"""

import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from websockets.sync.client import ClientConnection, connect

from perf.row import Row
from starmill.converters.protos import sc2api_pb2
from starmill.engines.skirmish import recorded_game, versions

_LAUNCHES = 5
_OBSERVATIONS = 200
_MID_GAME = 0.6  # share of the replay at which observations are timed


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _game() -> Iterator[tuple[ClientConnection, float]]:
    """Starts a game; yields its connection and the time at which it was launched."""
    port = _free_port()
    command = [sys.executable, "-I", "-m", "starmill.engines.skirmish.server.process"]
    began = time.perf_counter()
    process = subprocess.Popen([*command, "-listen", "127.0.0.1", "-port", str(port)])
    try:
        while True:
            try:
                opening = connect(
                    f"ws://127.0.0.1:{port}/sc2api",
                    max_size=None,
                    ping_interval=None,
                    compression=None,
                    proxy=None,
                )
                break
            except OSError:
                time.sleep(0.01)
        with opening as client:
            yield client, began
    finally:
        process.terminate()
        process.wait()


def _ask(client: ClientConnection, request: sc2api_pb2.Request) -> bytes:
    client.send(request.SerializeToString())
    answer = client.recv()
    if isinstance(answer, str):
        raise TypeError("answers are binary")
    return answer


def _options() -> sc2api_pb2.InterfaceOptions:
    options = sc2api_pb2.InterfaceOptions(
        raw=True, score=True, show_cloaked=True, show_placeholders=True
    )
    layer = options.feature_layer
    layer.width = 24
    layer.resolution.x = layer.resolution.y = 1
    layer.minimap_resolution.x = layer.minimap_resolution.y = 128
    return options


def measure() -> list[Row]:
    """Returns start-up seconds, loading seconds and milliseconds per observation."""
    sides = [
        recorded_game.parse_player("bot:6500", race) for race in ("terran", "protoss")
    ]
    outcome = recorded_game.play_game(
        home=sides[0],
        away=sides[1],
        map_name="Frost Hollow",
        seed=4,
        version=versions.LATEST,
    )
    first, loaded = [], []
    for _ in range(_LAUNCHES):
        with _game() as (client, began):
            _ask(client, sc2api_pb2.Request(ping=sc2api_pb2.RequestPing()))
            first.append(time.perf_counter() - began)
            maps = sc2api_pb2.Request(available_maps=sc2api_pb2.RequestAvailableMaps())
            _ask(client, maps)
            loaded.append(time.perf_counter() - began)
    with _game() as (client, _):
        start = sc2api_pb2.RequestStartReplay(
            replay_data=outcome.replay, observed_player_id=1, options=_options()
        )
        _ask(client, sc2api_pb2.Request(start_replay=start))
        step = sc2api_pb2.RequestStep(count=int(outcome.loops * _MID_GAME))
        _ask(client, sc2api_pb2.Request(step=step))
        asked = sc2api_pb2.Request(observation=sc2api_pb2.RequestObservation())
        times, units = [], 0
        for _ in range(_OBSERVATIONS):
            began = time.perf_counter()
            answer = _ask(client, asked)
            times.append((time.perf_counter() - began) * 1000)
        seen = sc2api_pb2.Response.FromString(answer).observation.observation
        units = len(seen.raw_data.units)
    startup, millis = statistics.median(first), statistics.median(times)
    return [
        Row(
            name="skirmish: launch to first answer",
            unit="s",
            ours=startup,
            floor=1.5,
            ok=startup < 1.5,
        ),
        Row(
            name="skirmish: launch to game loaded",
            unit="s",
            ours=statistics.median(loaded),
        ),
        Row(
            name=f"skirmish: observation request ({units} units)",
            unit="ms",
            ours=millis,
            floor=3.0,
            ok=millis < 3.0,
        ),
    ]
