"""Debug commands as inputs of the game, so that replays and other processes follow them.

In: a live game and one command. Out: inputs for the next loop. Drawings are accepted and ignored,
and so is control of the enemy's units. `end_game` and `test_process` act at once.
"""

import math
import os
import time
from collections.abc import Iterator

from starmill.converters.protos import debug_pb2
from starmill.engines.skirmish.server import live_game
from starmill.engines.skirmish.simulation.debug import cheats
from starmill.engines.skirmish.simulation.debug.cheats import Cheat

_MAX_DELAY_SECONDS = 60.0
_CRASH_EXIT_CODE = 139  # what a shell reports for a segmentation fault
_MAX_TAGS = 40  # in one input, since a replay's event holds about a thousand bytes
_VALUES = debug_pb2.DebugSetUnitValue
_STATISTICS = {
    _VALUES.Energy: cheats.ENERGY,
    _VALUES.Life: cheats.HEALTH,
    _VALUES.Shields: cheats.SHIELD,
}


def apply(play: live_game.LiveGame, command: debug_pb2.DebugCommand) -> None:
    """Applies one debug command, at once or on the next loop."""
    kind = command.WhichOneof("command")
    if kind == "test_process":
        _test_process(command.test_process)
    elif kind == "end_game":
        surrender = debug_pb2.DebugEndGame.Surrender
        end = command.end_game.end_result
        play.leave(play.player if end == surrender else 3 - play.player)
    elif play.plays:
        play.give(
            [
                cheat
                for cheat in _cheats(play.player, command)
                if all(math.isfinite(number) for number in cheat.numbers)
            ]
        )


def _cheats(player: int, command: debug_pb2.DebugCommand) -> Iterator[Cheat]:
    """Yields the inputs that a command stands for."""
    match command.WhichOneof("command"):
        case "game_state":
            yield Cheat(player, cheats.SWITCH, (int(command.game_state),))
        case "create_unit":
            create = command.create_unit
            place = (create.pos.x, create.pos.y)
            numbers = (create.unit_type, create.owner, *place, create.quantity)
            yield Cheat(player, cheats.CREATE, numbers)
        case "kill_unit":
            tags = list(command.kill_unit.tag)
            for first in range(0, len(tags), _MAX_TAGS):
                yield Cheat(player, cheats.KILL, tuple(tags[first : first + _MAX_TAGS]))
        case "unit_value":
            change = command.unit_value
            statistic = _STATISTICS[change.unit_value]
            yield Cheat(player, cheats.SET, (change.unit_tag, statistic, change.value))


def _test_process(test: debug_pb2.DebugTestProcess) -> None:
    time.sleep(min(max(test.delay_ms / 1000, 0.0), _MAX_DELAY_SECONDS))
    if test.test == debug_pb2.DebugTestProcess.hang:
        while True:
            time.sleep(3600)
    os._exit(0 if test.test == debug_pb2.DebugTestProcess.exit else _CRASH_EXIT_CODE)
