"""Which of a player's commands the game refused, and why.

In: the requests of one player, the game's answers to them, and the observations after them. Out: a
list of refusals. The game may refuse a command at once, in its answer to the request, or when it
plays the command, as an action error of the next observation. Both are counted, each command once.
"""

import collections
import dataclasses
from typing import NamedTuple

from google.protobuf.message import DecodeError

from starmill.converters.protos import error_pb2, sc2api_pb2
from starmill.schema import errors, protobuf

_ACTION_ERRORS = 2  # the field of ResponseObservation
# A worker that finds its building site occupied reports it when it arrives, many commands later.
_REMEMBERED = 64


class Refusal(NamedTuple):
    """A command that the game refused.

    Attributes:
        loop: the game loop at which it was given.
        function: what the player asked for, a number of `vocab.functions`.
        reason: a name of the game's ActionResult, such as "NotEnoughMinerals".
    """

    loop: int
    function: int
    reason: str


@dataclasses.dataclass
class _Command:
    """A command that was sent.

    Attributes:
        loop: the game loop at which it was given.
        function: what the player asked for.
        ability: the ability's id in the request; 0 if it asks for none.
        copies: how often the request repeats it.
        errors: how many action errors were about it.
        is_refused: whether it counts as refused.
        is_new: whether no observation has followed it yet.
    """

    loop: int
    function: int
    ability: int
    copies: int
    errors: int = 0
    is_refused: bool = False
    is_new: bool = True


class CommandLog:
    """Follows one player's commands through one game.

    A command that a request repeats counts as refused once all its copies are.

    Attributes:
        refused: the refusals so far, in the order in which they became known.
    """

    def __init__(self) -> None:
        self.refused: list[Refusal] = []
        self._commands: collections.deque[_Command] = collections.deque(
            maxlen=_REMEMBERED
        )

    def note_request(
        self, loop: int, function: int, request: sc2api_pb2.RequestAction, answer: bytes
    ) -> bool:
        """Notes a request and the game's ResponseAction; returns whether it was refused."""
        results = sc2api_pb2.ResponseAction.FromString(answer).result
        command = _Command(loop, function, _ability(request), len(request.actions))
        self._commands.append(command)
        if all(result != error_pb2.Success for result in results):
            self._refuse(command, results[0] if results else error_pb2.Error)
        return command.is_refused

    def note_observation(self, answer: bytes) -> None:
        """Reads the action errors of a ResponseObservation, without parsing the rest."""
        try:
            reports = [
                sc2api_pb2.ActionError.FromString(answer[field.start : field.end])
                for field in protobuf.fields(answer)
                if field.number == _ACTION_ERRORS
            ]
        except DecodeError as error:
            raise errors.EngineCrashed("an observation is not a message") from error
        for report in reports:
            command = self._command_of(report.ability_id)
            if command is not None:
                command.errors += 1
                if command.errors >= command.copies:
                    self._refuse(command, report.result)
        for command in self._commands:
            command.is_new = False

    def _command_of(self, ability: int) -> _Command | None:
        """Returns the command that an error is about: the newest that asked for the ability.

        The game may report another id of the ability than was asked for. Then the error is taken
        to be about the command since the observation before, if there was one.
        """
        for command in reversed(self._commands):
            if command.ability == ability:
                return command
        newest = self._commands[-1] if self._commands else None
        return newest if newest is not None and newest.is_new else None

    def _refuse(self, command: _Command, result: int) -> None:
        if command.is_refused:
            return
        command.is_refused = True
        names: dict[int, str] = {
            int(number): name for name, number in error_pb2.ActionResult.items()
        }
        reason = names.get(result, str(result))
        self.refused.append(Refusal(command.loop, command.function, reason))


def _ability(request: sc2api_pb2.RequestAction) -> int:
    """Returns the ability that a request asks for; 0 if it only moves the camera."""
    for action in request.actions:
        raw = action.action_raw
        kind = raw.WhichOneof("action")
        if kind == "unit_command":
            return int(raw.unit_command.ability_id)
        if kind == "toggle_autocast":
            return int(raw.toggle_autocast.ability_id)
    return 0
