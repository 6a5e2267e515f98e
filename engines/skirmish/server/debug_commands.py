"""Debug commands: the basic ones that tests of clients use.

In: a live game and one command. Out: the game, changed, and whether a replay can still represent
it. Drawings are accepted and ignored.
"""

import os
import time

import numpy as np

from starmill.converters.protos import debug_pb2
from starmill.engines.skirmish.server import live_game
from starmill.engines.skirmish.simulation import entry_points, rules
from starmill.engines.skirmish.simulation.game import Game

_MAX_CREATED = 100
_RESOURCES = 5000  # added by `all_resources`, `minerals` and `gas`
_MAX_DELAY_SECONDS = 60.0
_CRASH_EXIT_CODE = 139  # what a shell reports for a segmentation fault


def apply(play: live_game.LiveGame, command: debug_pb2.DebugCommand) -> bool:
    """Applies one debug command. Returns True if no replay can represent the game any more."""
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
    time.sleep(min(max(test.delay_ms / 1000, 0.0), _MAX_DELAY_SECONDS))
    if test.test == debug_pb2.DebugTestProcess.hang:
        while True:
            time.sleep(3600)
    os._exit(0 if test.test == debug_pb2.DebugTestProcess.exit else _CRASH_EXIT_CODE)


def _game_state(play: live_game.LiveGame, state: int) -> None:
    record = play.game.world.players[play.player]
    if state == debug_pb2.show_map:
        record["all_visible"] = 1 - record["all_visible"]
    if state in (debug_pb2.all_resources, debug_pb2.minerals):
        record["minerals"] += _RESOURCES
    if state in (debug_pb2.all_resources, debug_pb2.gas):
        record["vespene"] += _RESOURCES


def _create(play: live_game.LiveGame, request: debug_pb2.DebugCreateUnit) -> None:
    known = 0 < request.unit_type < len(rules.unit_rules())
    if not known or not rules.unit_rules()["known"][request.unit_type]:
        return
    place = (request.pos.x, request.pos.y)
    if request.owner not in (1, 2) or not np.isfinite(place).all():
        return
    left, bottom, right, top = play.game.map.playable
    x = min(max(request.pos.x, left), right - 1)
    y = min(max(request.pos.y, bottom), top - 1)
    for _ in range(min(request.quantity, _MAX_CREATED)):
        entry_points.spawn(
            play.game.world.state, request.unit_type, request.owner, x, y, 1.0
        )


def _kill(play: live_game.LiveGame, tags: list[int]) -> None:
    for row in _rows(play.game, tags):
        entry_points.kill(play.game.world.state, row, -1)


def _rows(game: Game, tags: list[int]) -> list[int]:
    usable = [tag for tag in tags if 0 < tag < 1 << 32]
    return [int(row) for row in game.rows_of(usable)] if usable else []


def _set_value(play: live_game.LiveGame, request: debug_pb2.DebugSetUnitValue) -> None:
    value_type = debug_pb2.DebugSetUnitValue
    names = {
        value_type.Energy: "energy",
        value_type.Life: "health",
        value_type.Shields: "shield",
    }
    if not np.isfinite(request.value) or request.unit_value not in names:
        return
    for row in _rows(play.game, [request.unit_tag]):
        name = names[request.unit_value]
        unit = play.game.world.units[row]
        unit[name] = min(max(request.value, 0.0), float(unit[f"{name}_max"]))
