"""Before a game begins: which map a request names, who plays, and how two processes meet.

In: create and join requests. Out: a map or an error, a `live_game.GameSetup`, and a connection to
the other process if there is one. Must not know: how a game is played.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starmill.converters.protos import sc2api_pb2
from starmill.engines.skirmish.server import live_game, lockstep, map_files
from starmill.engines.skirmish.simulation import maps, records
from starmill.schema import errors
from starmill.schema.game_constants import RANDOM

_LOOPBACK = "127.0.0.1"


def text(value: str | bytes) -> str:
    """Returns a message's string. Protobuf returns bytes if it is not valid UTF-8."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def find_map(
    request: sc2api_pb2.RequestCreateGame, saved: Mapping[str, bytes], maps_dir: str
) -> maps.GameMap | tuple[Any, str]:
    """Returns the map that a request names, or an error of ResponseCreateGame and its details.

    saved: maps that the client has sent before, by path. maps_dir: the installation's; "" if it
    has none.
    """
    error = sc2api_pb2.ResponseCreateGame
    if request.HasField("battlenet_map_name"):
        game_map = map_files.map_of_name(text(request.battlenet_map_name))
        return game_map or (error.InvalidMapName, "no such map")
    if not request.HasField("local_map"):
        return error.MissingMap, ""
    path = text(request.local_map.map_path)
    content = request.local_map.map_data or saved.get(path, b"")
    # No file has a path with a NUL in it.
    file = Path(maps_dir) / path if maps_dir and path and "\0" not in path else None
    if not content and file is not None and file.is_file():
        content = file.read_bytes()
    if content:
        try:
            return map_files.map_of_data(content)
        except errors.FormatError as problem:
            return error.InvalidMapData, str(problem)
    game_map = map_files.map_of_name(path)
    return game_map or (error.InvalidMapPath, f"no map at {path!r}")


def setup_error(request: sc2api_pb2.RequestCreateGame, game_map: maps.GameMap) -> str:
    """Returns what is wrong with the players of a request, "" if nothing is.

    A participant may play alone; on the map of a mini-game there is no other player.
    """
    players = [s for s in request.player_setup if s.type != sc2api_pb2.Observer]
    participants = [s for s in players if s.type == sc2api_pb2.Participant]
    if game_map.mini_game is not None and len(players) != 1:
        return f"expected one player on {game_map.name}, found {len(players)}"
    if len(players) not in (1, 2):
        return f"expected one or two players, found {len(players)}"
    watched = len(players) < len(request.player_setup)
    if not participants and not watched:
        return "expected a participant or an observer, found computers only"
    if participants and watched:
        return "expected computers only, found a participant in a game with an observer"
    return ""


def render_error(options: sc2api_pb2.InterfaceOptions) -> str:
    """Returns why a client's options are refused; "" if they are accepted."""
    return "this game renders no images" if options.HasField("render") else ""


def delivered(options: sc2api_pb2.InterfaceOptions) -> sc2api_pb2.InterfaceOptions:
    """Returns a client's options without what this game ignores."""
    known = sc2api_pb2.InterfaceOptions()
    known.CopyFrom(options)
    known.ClearField("raw_crop_to_playable_area")
    if known.HasField("feature_layer"):
        known.feature_layer.ClearField("crop_to_playable_area")
    return known


def observer_error(
    created: sc2api_pb2.RequestCreateGame | None, request: sc2api_pb2.RequestJoinGame
) -> str:
    """Returns why a client cannot join in its role, "" if it can.

    Observers join games between computers; participants join all others.
    """
    watches = request.WhichOneof("participation") == "observed_player_id"
    types = [] if created is None else [seat.type for seat in created.player_setup]
    if watches and sc2api_pb2.Observer not in types:
        return "expected a game that was created with an observer"
    if not watches and types and sc2api_pb2.Participant not in types:
        return "expected an observer, since only computers play this game"
    return ""


def join(
    request: sc2api_pb2.RequestJoinGame,
) -> tuple[live_game.GameSetup, int, lockstep.Peer | None]:
    """Joins the game of another process as player 2."""
    peer = lockstep.join(request.host_ip or _LOOPBACK, request.server_ports.game_port)
    peer.send({"race": int(request.race or RANDOM), "name": text(request.player_name)})
    return live_game.setup_from_json(peer.receive()), 2, peer


def host(
    created: sc2api_pb2.RequestCreateGame,
    request: sc2api_pb2.RequestJoinGame,
    game_map: maps.GameMap,
    *,
    default_seed: int,
) -> tuple[live_game.GameSetup, int, lockstep.Peer | None]:
    """Sets up the game that this process created; waits for the other process if it takes part.

    default_seed: the seed if the request has none. The real game takes a random one.
    """
    own_seat = live_game.Seat(
        race=int(request.race or RANDOM), name=text(request.player_name)
    )
    seats: list[live_game.Seat] = []
    player, peer = records.WATCHER, None
    for requested in created.player_setup:
        if requested.type == sc2api_pb2.Computer:
            seats.append(
                live_game.Seat(
                    race=int(requested.race or RANDOM),
                    name=text(requested.player_name) or "Computer",
                    difficulty=int(requested.difficulty or sc2api_pb2.VeryEasy),
                    build=int(requested.ai_build or sc2api_pb2.RandomBuild),
                )
            )
        elif requested.type == sc2api_pb2.Participant and not player:
            seats.append(own_seat)
            player = len(seats)
        elif requested.type == sc2api_pb2.Participant:
            if not request.HasField("server_ports"):
                raise errors.EngineError(
                    "expected server_ports, which a game of two participants needs"
                )
            peer = lockstep.host(_LOOPBACK, request.server_ports.game_port)
            other = peer.receive() or {}
            name, race = str(other.get("name") or ""), int(other.get("race") or RANDOM)
            seats.append(live_game.Seat(race=race, name=name))
    if len(seats) == 1:
        seats.append(live_game.Seat(race=RANDOM, name="", absent=True))
    seed = created.random_seed if created.HasField("random_seed") else default_seed
    setup = live_game.GameSetup(
        map_name=game_map.name,
        seed=seed,
        disable_fog=created.disable_fog,
        seats=(seats[0], seats[1]),
    )
    if request.WhichOneof("participation") == "observed_player_id":
        player = request.observed_player_id
    if peer is not None:
        peer.send(live_game.setup_to_json(setup))
    return setup, player, peer
