"""Two processes that play one game: both simulate it and exchange their players' inputs.

In: a TCP connection on the ports that the clients agreed on. Out: the other side's inputs, loop
by loop. When its client steps, a side announces "on loop L these inputs, and no others before
loop L + n". A loop is played once both sides have covered it. A message is JSON with its length
in front. Must not know: the protocol of the game's clients.
"""

import dataclasses
import json
import logging
import math
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from starmill.engines.skirmish.simulation import game
from starmill.engines.skirmish.simulation.debug.cheats import Cheat
from starmill.schema import errors

_LOG = logging.getLogger(__name__)
_KINDS: dict[str, Callable[..., game.Input]] = {
    kind.__name__: kind
    for kind in (
        game.UnitCommand,
        game.Autocast,
        game.CameraMove,
        game.Select,
        game.ControlGroup,
        game.Leave,
        Cheat,
    )
}
_MAX_TAG = (1 << 62) - 1  # the game's arrays hold signed numbers
_MAX_MESSAGE_BYTES = 16 << 20  # a command to five hundred units takes some kilobytes
_LENGTH = struct.Struct(">I")
_RETRY_SECONDS = 0.05
_ATTEMPT_SECONDS = 5.0
CONNECT_SECONDS = 60.0


def encode_input(item: game.Input) -> list[Any]:
    """Returns an input as JSON values; floats keep every bit."""
    return [type(item).__name__, *dataclasses.astuple(item)]


def decode_input(values: Sequence[Any]) -> game.Input:
    """Returns the input that `encode_input` wrote; EngineError if it is not one."""
    try:
        name, *fields = values
        tupled = [tuple(one) if isinstance(one, list) else one for one in fields]
        item = _KINDS[name](*tupled)
        _check(item)
    except (ValueError, TypeError, KeyError) as error:
        raise errors.EngineError(f"the other process sent no input: {error}") from error
    return item


def _check(item: game.Input) -> None:
    """Raises ValueError or TypeError if a field is nothing that a game can be given."""
    _check_number(item.player, 1, 2)
    if isinstance(item, (game.UnitCommand, game.Autocast, game.Select)):
        for tag in item.unit_tags:
            _check_number(tag, 0, _MAX_TAG)
    if isinstance(item, (game.UnitCommand, game.Autocast)):
        _check_number(item.ability_id, 0, _MAX_TAG)
    if isinstance(item, game.UnitCommand):
        _check_number(item.target_tag, 0, _MAX_TAG)
        _check_point(item.target_point or (0.0, 0.0))
    elif isinstance(item, game.CameraMove):
        _check_point((item.x, item.y))
    elif isinstance(item, Cheat):
        for number in item.numbers:
            _check_point((number, 0.0))
    elif isinstance(item, game.ControlGroup):
        _check_number(item.index, 0, game.GROUPS - 1)
        _check_number(item.kind, game.RECALL, game.APPEND_AND_STEAL)


def _check_number(value: Any, low: int, high: int) -> None:
    if not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"expected a number from {low} to {high}, found {value!r}")


def _check_point(point: Sequence[Any]) -> None:
    x, y = point
    if not (math.isfinite(x) and math.isfinite(y)):
        raise ValueError(f"expected a point, found {point!r}")


class Peer:
    """The other process.

    Attributes:
        covered: the other side's inputs are known for all loops below this one.
        gone: whether the connection is closed; nothing more arrives then.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._inputs: dict[int, list[game.Input]] = {}
        self._chat: list[str] = []
        self.covered = 0
        self.gone = False

    def send(self, message: dict[str, Any]) -> None:
        """Sends one message. If the connection is closed, sets `gone` and raises nothing."""
        data = json.dumps(message).encode()
        try:
            self._socket.sendall(_LENGTH.pack(len(data)) + data)
        except OSError:
            self.gone = True

    def receive(self) -> dict[str, Any] | None:
        """Returns the next message; None if the connection is closed, or if it brings no message."""
        head = self._exactly(_LENGTH.size)
        if head is None or _LENGTH.unpack(head)[0] > _MAX_MESSAGE_BYTES:
            self.gone = True
            return None
        data = self._exactly(_LENGTH.unpack(head)[0])
        if data is None:
            return None
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self.gone = True
            return None
        return message

    def _exactly(self, count: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < count:
            try:
                data = self._socket.recv(count - len(parts))
            except OSError:
                data = b""
            if not data:
                self.gone = True
                return None
            parts += data
        return bytes(parts)

    def announce(
        self,
        loop: int,
        until: int,
        inputs: Sequence[game.Input],
        chat: Sequence[str],
    ) -> None:
        """Tells the other side what this side does from `loop` to before `until`."""
        values = [encode_input(item) for item in inputs]
        self.send({"loop": loop, "until": until, "inputs": values, "chat": list(chat)})

    def wait_for(self, loop: int) -> bool:
        """Waits until `loop` is covered; False if the connection closes before that.

        A message that is not an announcement closes it too.
        """
        while self.covered <= loop:
            message = self.receive()
            if message is None:
                return False
            try:
                self._note(message)
            except (errors.EngineError, ValueError, TypeError, KeyError) as error:
                _LOG.warning("the other process is not understood: %s", error)
                self.close()
                return False
        return True

    def _note(self, message: dict[str, Any]) -> None:
        inputs = [decode_input(values) for values in message["inputs"]]
        if inputs:
            self._inputs.setdefault(int(message["loop"]), []).extend(inputs)
        self._chat += [str(line) for line in message["chat"]]
        self.covered = max(self.covered, int(message["until"]))

    def take(self, loop: int) -> list[game.Input]:
        """Returns the other side's inputs of a covered loop, and forgets them."""
        return self._inputs.pop(loop, [])

    def take_chat(self) -> list[str]:
        """Returns the chat lines that arrived since the last call."""
        chat, self._chat = self._chat, []
        return chat

    def close(self) -> None:
        """Closes the connection."""
        self.gone = True
        self._socket.close()


def host(address: str, port: int, timeout_seconds: float = CONNECT_SECONDS) -> Peer:
    """Waits for the other process on this port; EngineError if it does not connect in time."""
    try:
        with socket.create_server((address, port)) as listener:
            listener.settimeout(timeout_seconds)
            connection, _ = listener.accept()
    except OSError as error:
        raise errors.EngineError(
            f"port {port}: expected another process to join within {timeout_seconds:g} s, "
            f"found none ({error})"
        ) from error
    connection.settimeout(None)
    return Peer(connection)


def join(address: str, port: int, timeout_seconds: float = CONNECT_SECONDS) -> Peer:
    """Connects to the process that waits on this port; EngineError if none does in time."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            connection = socket.create_connection(
                (address, port), timeout=_ATTEMPT_SECONDS
            )
        except OSError as error:
            if time.monotonic() > deadline:
                raise errors.EngineError(
                    f"{address}:{port}: expected a game to join within {timeout_seconds:g} s, "
                    "found none"
                ) from error
            time.sleep(_RETRY_SECONDS)
            continue
        connection.settimeout(None)
        return Peer(connection)
