"""Actions both ways: the game's requests to an action's arguments, and back.

In: a RequestAction and the units of the observation it answered, or an action as a mapping
of arguments. Out: the arguments of the first acceptable game action, or the RequestAction.
Knows nothing of time; the converter's memory is passed in and out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.converters import geometry, protos
from starmill.schema import errors, vocab
from starmill.schema.compilation import compiled

_MASK64 = (1 << 64) - 1
# Identical commands in a request beyond this many count as this many.
MAX_REPEAT = 3


class Command(NamedTuple):
    """What the extra unit columns remember of the last unit command.

    Attributes:
        selected: tags of its units, ascending, int64 [S].
        target: its target's tag, or NO_TARGET.
    """

    selected: NDArray[np.int64]
    target: np.int64


# The reference's own marker: if nothing is targeted, the tag of all ones counts as the target.
NO_TARGET = np.int64(-1)
NO_COMMAND = Command(np.empty(0, np.int64), NO_TARGET)


# The spec's maximum is 2. The reference accepts more than that, so somewhat larger
# numbers are accepted too.
MOST_REPEATED = 255


class Limits(NamedTuple):
    """The settings that bound an action.

    Attributes:
        functions: number of functions; ids from here on are not offered.
        units: rows of raw_units, which is also the end marker of unit_tags.
        selection: length of unit_tags.
        repeat: whether commands say how often they are given.
    """

    functions: int
    units: int
    selection: int
    repeat: bool


class Decoded(NamedTuple):
    """The arguments of one game action.

    Attributes:
        function: function id.
        queued: 1 if the command is queued, otherwise 0.
        repeat: how often the command is given again after the first time.
        target_unit_tag: row of the target; 0 if the function has no unit as its target.
        world: grid cell of the target point; 0 if the function has none.
        rows: rows of the commanded units, ascending and not yet padded, int64 [S].
    """

    function: int
    queued: int
    repeat: int
    target_unit_tag: int
    world: int
    rows: NDArray[np.int64]


NO_OP = Decoded(0, 0, 0, 0, 0, np.empty(0, np.int64))


def _signed(tags: Sequence[int]) -> NDArray[np.int64]:
    """Returns tags as the columns hold them."""
    return np.fromiter(tags, np.uint64, len(tags)).view(np.int64)


def _ascending(tags: Sequence[int]) -> NDArray[np.int64]:
    signed = _signed(tags)
    signed.sort()
    return signed


@compiled
def _rows_of(tags, wanted, limit):  # type: ignore[no-untyped-def]
    """Indices below the limit of the tags that are wanted; wanted is ascending."""
    out = np.empty(min(limit, len(tags)), np.int64)
    count = 0
    for i in range(len(out)):
        k = np.searchsorted(wanted, tags[i])
        if k < len(wanted) and wanted[k] == tags[i]:
            out[count] = i
            count += 1
    return out[:count]


@compiled
def _first_row(tags, wanted):  # type: ignore[no-untyped-def]
    for i in range(len(tags)):
        if tags[i] == wanted:
            return i
    return -1


def _world(grid: geometry.Grid, point: Any) -> int:
    world = int(geometry.world_index(grid, np.float32(point.x), np.float32(point.y)))
    if not 0 <= world < grid.resolution**2:
        raise errors.ConverterError(
            f"action's point ({point.x}, {point.y}) is in cell {world}: "
            f"expected 0 to {grid.resolution**2 - 1}"
        )
    return world


def _function(kind: str, ability: int) -> int:
    return vocab.decode_functions(kind).get(ability, 0)


def _decode_command(
    request: Any,
    command: Any,
    tags: NDArray[np.int64],
    limits: Limits,
    grid: geometry.Grid,
) -> Decoded | None:
    target, kind = 0, "cmd"
    if command.HasField("target_unit_tag"):
        kind = "cmd_unit"
        target = int(_first_row(tags, _signed([command.target_unit_tag])[0]))
        if not 0 <= target < limits.units:
            return None
    elif command.HasField("target_world_space_pos"):
        kind = "cmd_pt"
    function = _function(kind, command.ability_id)
    rows = _rows_of(tags, _ascending(command.unit_tags), limits.units)
    if function >= limits.functions or not len(rows):
        return None
    same = 1
    if len(request.actions) > 1:
        same = sum(
            action.action_raw.unit_command.ability_id == command.ability_id
            for action in request.actions
        )
    return Decoded(
        function=function,
        queued=int(command.queue_command),
        repeat=min(same, MAX_REPEAT) - 1,
        target_unit_tag=target,
        world=_world(grid, command.target_world_space_pos) if kind == "cmd_pt" else 0,
        rows=rows,
    )


def _decode_one(
    request: Any,
    raw: Any,
    tags: NDArray[np.int64],
    limits: Limits,
    grid: geometry.Grid,
) -> Decoded | None:
    kind = raw.WhichOneof("action")
    if kind == "unit_command":
        return _decode_command(request, raw.unit_command, tags, limits, grid)
    if kind == "camera_move":
        world = _world(grid, raw.camera_move.center_world_space)
        return NO_OP._replace(function=vocab.CAMERA_FUNCTION, world=world)
    if kind == "toggle_autocast":
        toggle = raw.toggle_autocast
        function = _function("autocast", toggle.ability_id)
        rows = _rows_of(tags, _ascending(toggle.unit_tags), limits.units)
        if function < limits.functions and len(rows):
            return NO_OP._replace(function=function, rows=rows)
    return None


def decode(
    request: Any, tags: NDArray[np.int64], limits: Limits, grid: geometry.Grid
) -> Decoded | None:
    """Returns the first acceptable action of a RequestAction; None if there is none.

    Args:
        request: the RequestAction.
        tags: of the observation's units, in message order.
        limits: from the settings.
        grid: the map's.

    Raises ConverterError where its point lies outside of the grid.
    """
    for action in request.actions:
        decoded = _decode_one(request, action.action_raw, tags, limits, grid)
        if decoded is not None:
            return decoded
    return None


def fill_unit_tags(out: NDArray[Any], decoded: Decoded, limits: Limits) -> None:
    """Writes `unit_tags`: rows, cut, then the end marker (0 for function 0)."""
    rows = decoded.rows[: limits.selection]
    out[: len(rows)] = rows
    out[len(rows) :] = limits.units if decoded.function else 0


def _numbers(action: Mapping[str, Any], name: str) -> NDArray[np.int64]:
    """Returns an argument's numbers, flat; ConverterError unless they are int32."""
    if name not in action:
        raise errors.ConverterError(
            f"action: expected the argument {name!r}, found {sorted(map(str, action))}"
        )
    try:
        values = np.asarray(action[name])
    except ValueError as error:  # lists of different lengths, or nested too deeply
        raise errors.ConverterError(f"action: {name!r}: {error}") from error
    is_small = values.dtype.kind in "biuf" and bool(
        ((values >= -(2**31)) & (values < 2**31)).all()
    )
    if values.size and not is_small:
        raise errors.ConverterError(
            f"action: {name!r}: expected numbers of int32, found {action[name]!r:.100}"
        )
    return values.reshape(-1).astype(np.int64)


def argument(action: Mapping[str, Any], name: str) -> int:
    """Returns one of an action's numbers; ConverterError if it is not there."""
    values = _numbers(action, name)
    if values.size != 1:
        raise errors.ConverterError(
            f"action: {name!r} is one number, found {values.size}"
        )
    return int(values[0])


def _tag_of(row: int, tags: NDArray[np.int64]) -> int:
    """Returns the tag of a row; a row that the observation lacks is returned as it is."""
    return int(tags[row]) & _MASK64 if row < len(tags) else row


def _tags_of(
    action: Mapping[str, Any], tags: NDArray[np.int64], limits: Limits
) -> list[int]:
    out = []
    for row in _numbers(action, "unit_tags").tolist():
        if row < 0:
            break
        if row != limits.units:
            out.append(_tag_of(row, tags))
    return out


def _encode_autocast(
    request: Any, function: vocab.Function, tags: list[int]
) -> Command | None:
    toggle = request.actions.add().action_raw.toggle_autocast
    toggle.ability_id = function.ability_id
    toggle.unit_tags.extend(tags)
    return None


def _encode_command(
    request: Any,
    function: vocab.Function,
    action: Mapping[str, Any],
    tags: NDArray[np.int64],
    limits: Limits,
    grid: geometry.Grid,
) -> Command | None:
    queued = argument(action, "queued")
    commanded = _tags_of(action, tags, limits)
    target = NO_TARGET
    command = protos.raw_pb2.ActionRawUnitCommand(
        ability_id=function.ability_id, unit_tags=commanded, queue_command=bool(queued)
    )
    if function.kind == "cmd_pt":
        point = command.target_world_space_pos
        point.x, point.y = geometry.world_point(grid, argument(action, "world"))
    elif function.kind == "cmd_unit":
        row = argument(action, "target_unit_tag")
        if row < 0:
            return None
        command.target_unit_tag = _tag_of(row, tags)
        target = _signed([command.target_unit_tag])[0]
    # Required of all kinds, after a negative target has made the request empty.
    repeat = argument(action, "repeat") if limits.repeat else 0
    if repeat > MOST_REPEATED:
        raise errors.ConverterError(
            f"action: 'repeat': expected at most {MOST_REPEATED}, found {repeat}"
        )
    copies = repeat + 1 if function.kind == "cmd" else 1
    for _ in range(copies):
        request.actions.add().action_raw.unit_command.CopyFrom(command)
    if copies < 1:
        return None
    return Command(_ascending(commanded), target)


class Encoded(NamedTuple):
    """A request for the game, and what it changes in the converter's memory.

    Attributes:
        request: a RequestAction.
        command: the new last command; None keeps the old one.
        camera: where the virtual camera moves, in world units; None keeps its place.
    """

    request: Any
    command: Command | None = None
    camera: tuple[float, float] | None = None


def encode(
    action: Mapping[str, Any],
    tags: NDArray[np.int64],
    limits: Limits,
    grid: geometry.Grid,
) -> Encoded:
    """Returns the RequestAction of an action's arguments.

    Args:
        action: by argument name; `function` and what that function takes.
        tags: of the latest observation's units, in message order.
        limits: from the settings.
        grid: the map's.
    """
    request = protos.sc2api_pb2.RequestAction()
    function_id = argument(action, "function")
    functions = vocab.functions()
    if not 0 < function_id < len(functions):
        return Encoded(request)
    function = functions[function_id]
    if function.kind == "camera_move":
        x, y = geometry.world_point(grid, argument(action, "world"))
        centre = request.actions.add().action_raw.camera_move.center_world_space
        centre.x, centre.y = x, y
        return Encoded(request, camera=(x, y))
    if function.kind == "autocast":
        commanded = _tags_of(action, tags, limits)
        return Encoded(request, _encode_autocast(request, function, commanded))
    return Encoded(
        request, _encode_command(request, function, action, tags, limits, grid)
    )
