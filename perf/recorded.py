"""A game of the embedded engine, played for measurements, and its middle as a client sees it.

In: nothing. Out: the replay of a long game of two strong bots, a connection to a game process, and
a capture: what one player observed and did on 40 steps of the middle of that game, in the form
that `starmill convert` reads. Everything is made here, so any clone can measure, and the same
release makes the same messages on every machine.
"""

import functools
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from websockets.sync.client import ClientConnection, connect

from starmill.converters import capture, columns, timing
from starmill.converters.protos import sc2api_pb2
from starmill.engines import playback
from starmill.engines.replays import replay_file
from starmill.engines.skirmish import recorded_game, versions
from starmill.schema.settings import UNPLUGGED

PLAYER = 1
MID_GAME = 0.6  # share of the replay at which the middle begins
STEPS = 40


@functools.cache
def played() -> recorded_game.Outcome:
    """Returns a game of two bots that build large economies."""
    sides = [
        recorded_game.parse_player("bot:6500", race) for race in ("terran", "protoss")
    ]
    return recorded_game.play_game(
        home=sides[0],
        away=sides[1],
        map_name="Frost Hollow",
        seed=4,
        version=versions.LATEST,
    )


class Process(NamedTuple):
    """A running game.

    Attributes:
        client: the connection to it.
        launched: when it was launched, by `time.perf_counter`.
    """

    client: ClientConnection
    launched: float

    def ask(self, request: sc2api_pb2.Request) -> bytes:
        """Returns the serialized Response to a request."""
        self.client.send(request.SerializeToString())
        answer = self.client.recv()
        if isinstance(answer, str):
            raise TypeError("answers are binary")
        return answer


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def game_process() -> Iterator[Process]:
    """Starts a game process, and ends it with the context."""
    port = _free_port()
    command = [sys.executable, "-I", "-m", "starmill.engines.skirmish.server.process"]
    launched = time.perf_counter()
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
            yield Process(client, launched)
    finally:
        process.terminate()
        process.wait()


def start_replay(game: Process, options: sc2api_pb2.InterfaceOptions) -> None:
    """Lets the game play back `played()`."""
    start = sc2api_pb2.RequestStartReplay(
        replay_data=played().replay, observed_player_id=PLAYER, options=options
    )
    game.ask(sc2api_pb2.Request(start_replay=start))


def step(game: Process, loops: int) -> None:
    """Plays game loops."""
    game.ask(sc2api_pb2.Request(step=sc2api_pb2.RequestStep(count=loops)))


def mid_game_capture() -> capture.Capture:
    """Returns the steps of PLAYER from the middle of the game on."""
    replay = replay_file.open_replay(played().replay)
    frames = timing.action_frames(replay.game_events())[PLAYER]
    middle = [loop for loop in frames if loop >= MID_GAME * played().loops]
    loops = middle[: STEPS + 1]
    messages = []
    with game_process() as game:
        info = sc2api_pb2.Request(
            replay_info=sc2api_pb2.RequestReplayInfo(replay_data=played().replay)
        )
        replay_info = sc2api_pb2.Response.FromString(game.ask(info)).replay_info
        start_replay(game, playback.interface_options(UNPLUGGED))
        asked = sc2api_pb2.Request(game_info=sc2api_pb2.RequestGameInfo())
        game_info = sc2api_pb2.Response.FromString(game.ask(asked)).game_info
        for before, loop in zip([0, *loops], loops, strict=False):
            step(game, loop - before)
            observe = sc2api_pb2.Request(observation=sc2api_pb2.RequestObservation())
            answer = sc2api_pb2.Response.FromString(game.ask(observe))
            messages.append(answer.observation.SerializeToString())
    steps = tuple(
        capture.Step(
            player=messages[number],
            opponent=None,
            force_action=columns.reported_actions(messages[number + 1]),
            delay=loops[number + 1] - loops[number],
        )
        for number in range(STEPS)
    )
    return capture.Capture(
        settings=UNPLUGGED.to_json(),
        game_info=game_info.SerializeToString(),
        replay_info=replay_info.SerializeToString(),
        steps=steps,
        meta={"name": "mid_game"},
    )
