"""Skirmish behind the protocol: start-up, and what an observation costs.

Both are measured as a client sees them: from launching the process to its first answer, and from
sending a request to having the answer, over the socket, in the middle of a game.
"""

import statistics
import time

from perf import recorded
from perf.row import Row
from starmill.converters.protos import sc2api_pb2

_LAUNCHES = 5
_OBSERVATIONS = 200


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
    first, loaded = [], []
    for _ in range(_LAUNCHES):
        with recorded.game_process() as game:
            game.ask(sc2api_pb2.Request(ping=sc2api_pb2.RequestPing()))
            first.append(time.perf_counter() - game.launched)
            maps = sc2api_pb2.Request(available_maps=sc2api_pb2.RequestAvailableMaps())
            game.ask(maps)
            loaded.append(time.perf_counter() - game.launched)
    with recorded.game_process() as game:
        recorded.start_replay(game, _options())
        recorded.step(game, int(recorded.played().loops * recorded.MID_GAME))
        asked = sc2api_pb2.Request(observation=sc2api_pb2.RequestObservation())
        times, units = [], 0
        for _ in range(_OBSERVATIONS):
            began = time.perf_counter()
            answer = game.ask(asked)
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
