"""The answers that describe a game: `game_info` and `replay_info`.

In: a game and its participants, or a replay's summary. Out: protocol messages. Must not know: the
course of a game.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from starmill.converters.protos import common_pb2, raw_pb2, sc2api_pb2
from starmill.engines.skirmish.observation import feature_layers
from starmill.engines.skirmish.replays import members, reader
from starmill.engines.skirmish.server import map_files
from starmill.engines.skirmish.simulation import maps
from starmill.engines.skirmish.simulation.game import Game
from starmill.schema import errors
from starmill.schema.game_constants import LOOPS_PER_SECOND, RACE_ID_BY_CODE

RESULTS = {
    "Win": sc2api_pb2.Victory,
    "Loss": sc2api_pb2.Defeat,
    "Tie": sc2api_pb2.Tie,
}
RESULT_VALUES = {
    "win": sc2api_pb2.Victory,
    "loss": sc2api_pb2.Defeat,
    "tie": sc2api_pb2.Tie,
}


def start_raw(game_map: maps.GameMap, enemy_starts: Sequence[int]) -> raw_pb2.StartRaw:
    """Returns the map's grids and the enemy's possible start locations."""
    left, bottom, right, top = game_map.playable
    start = raw_pb2.StartRaw(
        map_size=common_pb2.Size2DI(x=game_map.width, y=game_map.height),
        playable_area=common_pb2.RectangleI(
            p0=common_pb2.PointI(x=left, y=bottom), p1=common_pb2.PointI(x=right, y=top)
        ),
        start_locations=[
            common_pb2.Point2D(x=game_map.starts[i][0], y=game_map.starts[i][1])
            for i in enemy_starts
        ],
    )
    start.pathing_grid.ParseFromString(feature_layers.image(game_map.pathable, 1))
    start.placement_grid.ParseFromString(feature_layers.image(game_map.placeable, 1))
    start.terrain_height.ParseFromString(
        feature_layers.image(np.asarray(game_map.terrain), 8)
    )
    return start


def game_info(
    game: Game,
    participants: Sequence[members.Participant],
    *,
    observer: int | None,
    options: sc2api_pb2.InterfaceOptions,
) -> sc2api_pb2.ResponseGameInfo:
    """Returns the description of a game.

    observer: the asking player, who does not learn the race of an enemy that requested a random
        one; None in a replay, where both races are known.
    """
    infos = []
    for player, participant in enumerate(participants, start=1):
        setup = game.players[player - 1]
        if setup.absent:
            continue
        requested: Any = setup.race_requested
        actual: Any = setup.race
        difficulty: Any = participant.difficulty or sc2api_pb2.VeryEasy
        build: Any = participant.build
        info = sc2api_pb2.PlayerInfo(
            player_id=player,
            type=sc2api_pb2.Computer
            if participant.computer
            else sc2api_pb2.Participant,
            race_requested=requested,
            player_name=participant.name,
        )
        if observer is None or observer == player:
            info.race_actual = actual
        if participant.computer:
            info.difficulty = difficulty
            info.ai_build = build
        infos.append(info)
    asked_by = observer or 1
    own_start = game.players[asked_by - 1].start
    return sc2api_pb2.ResponseGameInfo(
        map_name=f"Skirmish {game.map.name}",
        local_map_path=map_files.own_path(game.map.name),
        player_info=infos,
        start_raw=start_raw(game.map, [1 - own_start]),
        options=options,
    )


def replay_info(summary: reader.Summary) -> sc2api_pb2.ResponseReplayInfo:
    """Returns the description of a replay, of Skirmish or of the real game.

    Raises ReplayError if its metadata do not fit into the message.
    """
    try:
        return _replay_info(summary)
    except reader.DAMAGE as error:
        raise errors.ReplayError(reader.BROKEN, f"metadata: {error!r}") from error


def _replay_info(summary: reader.Summary) -> sc2api_pb2.ResponseReplayInfo:
    metadata = summary.metadata
    response = sc2api_pb2.ResponseReplayInfo(
        map_name=str(metadata.get("Title", "")),
        game_duration_loops=summary.loops,
        game_duration_seconds=summary.loops / LOOPS_PER_SECOND,
        game_version=str(metadata.get("GameVersion", "")),
        data_version=str(metadata.get("DataVersion", "")),
        data_build=int(metadata.get("DataBuild", 0)),
        base_build=int(str(metadata.get("BaseBuild", "Base0")).removeprefix("Base")),
    )
    if summary.ours:
        response.local_map_path = map_files.own_path(
            response.map_name.removeprefix("Skirmish ")
        )
    for entry in metadata.get("Players", []):
        player = int(entry["PlayerID"])
        extra = response.player_info.add()
        extra.player_info.player_id = player
        extra.player_info.type = sc2api_pb2.Participant
        extra.player_info.race_requested = _race(entry.get("SelectedRace"))
        extra.player_info.race_actual = _race(entry.get("AssignedRace"))
        extra.player_result.player_id = player
        extra.player_result.result = RESULTS.get(
            entry.get("Result"), sc2api_pb2.Undecided
        )
        extra.player_mmr = int(entry.get("MMR") or 0)
        extra.player_apm = int(entry.get("APM") or 0)
    return response


def _race(code: str | None) -> Any:  # Any: the protobuf stubs ask for their own enum
    """Returns the race id of a metadata code, NoRace for other codes."""
    return RACE_ID_BY_CODE.get(code or "", 0)
