"""Debug commands: the basics that tests of clients use.

In: a live game and one command. Out: whether it changed the game in a way that no replay can
hold. Drawings are accepted and not drawn.
"""

import os
import time

import numpy as np

from starmill.converters.protos import debug_pb2
from starmill.engines.skirmish.server import live_game
from starmill.engines.skirmish.simulation import entry_points, rules
from starmill.engines.skirmish.simulation.game import Game

_MAX_CREATED = 100
_RESOURCES = 5000  # what "all resources" adds


def apply(play: live_game.LiveGame, command: debug_pb2.DebugCommand) -> bool:
    """Does one debug command; True if the game's replay is no longer true."""
    kind = command.WhichOneof("command")
    if kind == "test_process":
        _test_process(command.test_process)
    if kind == "end_game":
        surrender = debug_pb2.DebugEndGame.Surrender
        loser = (
            play.player if command.end_game.end_result == surrender else 3 - play.player
        )
        play.leave(loser)
        return False
    changes = {
        "game_state": lambda: _game_state(play, command.game_state),
        "create_unit": lambda: _create(play, command.create_unit),
        "kill_unit": lambda: _kill(play, list(command.kill_unit.tag)),
        "unit_value": lambda: _set_value(play, command.unit_value),
    }
    if kind not in changes:
        return False
    changes[kind]()
    entry_points.refresh_vision(play.game.world.state)
    return True


def _test_process(test: debug_pb2.DebugTestProcess) -> None:
    time.sleep(min(max(test.delay_ms, 0), 60_000) / 1000)
    if test.test == debug_pb2.DebugTestProcess.hang:
        while True:
            time.sleep(3600)
    os._exit(0 if test.test == debug_pb2.DebugTestProcess.exit else 139)


def _game_state(play: live_game.LiveGame, state: int) -> None:
    mine = play.game.world.players[play.player]
    if state == debug_pb2.show_map:
        mine["all_visible"] = 1 - mine["all_visible"]
    if state in (debug_pb2.all_resources, debug_pb2.minerals):
        mine["minerals"] += _RESOURCES
    if state in (debug_pb2.all_resources, debug_pb2.gas):
        mine["vespene"] += _RESOURCES


def _create(play: live_game.LiveGame, wanted: debug_pb2.DebugCreateUnit) -> None:
    known = 0 < wanted.unit_type < len(rules.unit_rules())
    if not known or not rules.unit_rules()["known"][wanted.unit_type]:
        return
    place = (wanted.pos.x, wanted.pos.y)
    if wanted.owner not in (1, 2) or not np.isfinite(place).all():
        return
    left, bottom, right, top = play.game.map.playable
    x = min(max(wanted.pos.x, left), right - 1)
    y = min(max(wanted.pos.y, bottom), top - 1)
    for _ in range(min(wanted.quantity, _MAX_CREATED)):
        entry_points.spawn(
            play.game.world.state, wanted.unit_type, wanted.owner, x, y, 1.0
        )


def _kill(play: live_game.LiveGame, tags: list[int]) -> None:
    for row in _rows(play.game, tags):
        entry_points.kill(play.game.world.state, row, -1)


def _rows(game: Game, tags: list[int]) -> list[int]:
    usable = [tag for tag in tags if 0 < tag < 1 << 32]
    return [int(row) for row in game.rows_of(usable)] if usable else []


def _set_value(play: live_game.LiveGame, wanted: debug_pb2.DebugSetUnitValue) -> None:
    value_type = debug_pb2.DebugSetUnitValue
    names = {
        value_type.Energy: "energy",
        value_type.Life: "health",
        value_type.Shields: "shield",
    }
    if not np.isfinite(wanted.value) or wanted.unit_value not in names:
        return
    for row in _rows(play.game, [wanted.unit_tag]):
        name = names[wanted.unit_value]
        unit = play.game.world.units[row]
        unit[name] = min(max(wanted.value, 0.0), float(unit[f"{name}_max"]))
