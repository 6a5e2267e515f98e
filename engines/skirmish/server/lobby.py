"""Before a game begins: which map is meant, who plays, and how two processes find each other.

In: create and join requests. Out: a map or an error, a `live_game.GameSetup`, a connection to the other
process if there is one.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starmill.converters.protos import sc2api_pb2
from starmill.engines.skirmish.server import live_game, lockstep, map_files
from starmill.engines.skirmish.simulation import maps
from starmill.schema import errors

_LOOPBACK = "127.0.0.1"


def text(value: str | bytes) -> str:
    """Returns a message's string; protobuf hands out bytes where it is no UTF-8."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def find_map(
    wanted: sc2api_pb2.RequestCreateGame, saved: Mapping[str, bytes], maps_dir: str
) -> maps.GameMap | tuple[Any, str]:
    """Returns the map that a request names, or an error of ResponseCreateGame and details.

    saved: maps that the client sent before, by path.
    """
    error = sc2api_pb2.ResponseCreateGame
    if wanted.HasField("battlenet_map_name"):
        named = map_files.map_of_name(text(wanted.battlenet_map_name))
        return named or (error.InvalidMapName, "no such map")
    if not wanted.HasField("local_map"):
        return error.MissingMap, ""
    path = text(wanted.local_map.map_path)
    content = wanted.local_map.map_data or saved.get(path, b"")
    # A path with a NUL is none that a file could have.
    file = Path(maps_dir) / path if maps_dir and path and "\0" not in path else None
    if not content and file is not None and file.is_file():
        content = file.read_bytes()
    if content:
        try:
            return map_files.map_of_data(content)
        except errors.FormatError as problem:
            return error.InvalidMapData, str(problem)
    known = map_files.map_of_name(path)
    return known or (error.InvalidMapPath, f"no map at {path!r}")


def setup_error(wanted: sc2api_pb2.RequestCreateGame) -> str:
    """Returns why a game cannot be set up so, or nothing."""
    players = [s for s in wanted.player_setup if s.type != sc2api_pb2.Observer]
    humans = [s for s in players if s.type == sc2api_pb2.Participant]
    if len(players) != 2:
        return f"expected two players, found {len(players)}"
    if not humans:
        return "expected a participant"
    return ""


def join(
    wanted: sc2api_pb2.RequestJoinGame,
) -> tuple[live_game.GameSetup, int, lockstep.Peer | None]:
    """Joins the game of another process, as player 2."""
    peer = lockstep.join(wanted.host_ip or _LOOPBACK, wanted.server_ports.game_port)
    peer.send({"race": int(wanted.race or 4), "name": text(wanted.player_name)})
    return live_game.setup_from_json(peer.receive()), 2, peer


def host(
    created: sc2api_pb2.RequestCreateGame,
    wanted: sc2api_pb2.RequestJoinGame,
    game_map: maps.GameMap,
    *,
    default_seed: int,
) -> tuple[live_game.GameSetup, int, lockstep.Peer | None]:
    """Starts the game that this process created; waits for the other one if there is one.

    default_seed: where the request has none. The real game is random then; ours is not.
    """
    me = live_game.Seat(race=int(wanted.race or 4), name=text(wanted.player_name))
    seats: list[live_game.Seat] = []
    player, peer = 0, None
    for requested in created.player_setup:
        if requested.type == sc2api_pb2.Computer:
            seats.append(
                live_game.Seat(
                    race=int(requested.race or 4),
                    name=text(requested.player_name) or "Computer",
                    difficulty=int(requested.difficulty or sc2api_pb2.VeryEasy),
                    build=int(requested.ai_build or sc2api_pb2.RandomBuild),
                )
            )
        elif requested.type == sc2api_pb2.Participant and not player:
            seats.append(me)
            player = len(seats)
        elif requested.type == sc2api_pb2.Participant:
            if not wanted.HasField("server_ports"):
                raise errors.EngineError("a game of two needs server_ports")
            peer = lockstep.host(_LOOPBACK, wanted.server_ports.game_port)
            other = peer.receive() or {}
            name, race = str(other.get("name") or ""), int(other.get("race") or 4)
            seats.append(live_game.Seat(race=race, name=name))
    seed = created.random_seed if created.HasField("random_seed") else default_seed
    setup = live_game.GameSetup(
        map_name=game_map.name,
        seed=seed,
        disable_fog=created.disable_fog,
        seats=(seats[0], seats[1]),
    )
    if peer is not None:
        peer.send(live_game.setup_to_json(setup))
    return setup, player, peer
