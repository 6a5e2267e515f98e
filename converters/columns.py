"""An observation message as columns: the numbers that arrays are made of, read from bytes.

In: the wire bytes of a ResponseObservation. Out: `Columns`, buffers that each message fills
again and that grow when a message needs more. `message_fields` says what is read; this module
does not know what becomes of it. Tags are unsigned 64-bit numbers, kept as the int64 of the
same bits.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.converters import wire
from starmill.converters.message_fields import (
    ACTIONS_FIELD,
    ALLIANCE,
    BUFF_0,
    BUFF_1,
    BUFFS,
    BUFFS_FIELD,
    CAMERA_FIELD,
    CARRIER,
    DISPLAY_TYPE,
    EFFECT_ALLIANCE,
    EFFECT_RADIUS,
    EFFECT_TABLE,
    EFFECT_X,
    EFFECTS,
    FEATURE_LAYERS_TABLE,
    GAME_LOOP,
    GRAMMAR,
    IMAGE_SIZE_FIELD,
    IMAGE_TABLE,
    LENGTH,
    MAX_RECORDS,
    MINIMAP_TABLE,
    OBSERVATION_TABLE,
    ORDER_0,
    ORDER_TABLE,
    ORDERS,
    ORDERS_FIELD,
    PASSENGER_TABLE,
    PASSENGERS,
    PLANE_ROWS,
    PLAYER_COMMON_FIELD,
    PLAYER_COMMON_TABLE,
    PLAYER_FIELD,
    PLAYER_RAW_TABLE,
    POINT2_TABLE,
    POINT_TABLE,
    POS_FIELD,
    PROGRESS_0,
    PROGRESS_1,
    RAW_FIELD,
    RAW_TABLE,
    RESPONSE_TABLE,
    SELF,
    SIZE_TABLE,
    START,
    UNIT_TABLE,
    UNITS,
    UNITS_FIELD,
    UPGRADES,
    VISIBLE,
    X,
)
from starmill.schema import errors
from starmill.schema.compilation import bare_compiled, bare_inlined, bare_kernel

# What `_read` returns where the bytes are a message.
_READ, _NO_ROOM = -1, -2


class Columns(NamedTuple):
    """One message's numbers. Rows beyond the counts are left over from earlier messages.

    Attributes:
        counts: records of each kind, UNITS, PASSENGERS, EFFECTS and UPGRADES, int64 [4].
        head: `player_common` and the game loop, int64 [12].
        camera: x and y, float32 [2].
        units: integers of the units, in message order, int64 [N, 33].
        unit_floats: floats of the same units, float32 [N, 14].
        passengers: integers of the passengers, in message order, int64 [P, 3].
        passenger_floats: floats of the same passengers, float32 [P, 6].
        effects: integers of the effects, one row per position, int64 [E, 3].
        effect_floats: floats of the same effects, float32 [E, 3].
        upgrades: raw ids, int64 [G].
        planes: images by field number; START is an offset into the message, int64 [12, 5].
    """

    counts: NDArray[np.int64]
    head: NDArray[np.int64]
    camera: NDArray[np.float32]
    units: NDArray[np.int64]
    unit_floats: NDArray[np.float32]
    passengers: NDArray[np.int64]
    passenger_floats: NDArray[np.float32]
    effects: NDArray[np.int64]
    effect_floats: NDArray[np.float32]
    upgrades: NDArray[np.int64]
    planes: NDArray[np.int64]


class _Sink(NamedTuple):
    """Where the readers write besides `Columns`: its float arrays, viewed as uint32.

    Attributes:
        camera: of `Columns.camera`.
        units: of `Columns.unit_floats`.
        passengers: of `Columns.passenger_floats`.
        effects: of `Columns.effect_floats`.
        scratch: integers of a record that is not kept, [4].
        scratch_bits: floats of a record that is not kept, [4].
        stack: from `wire.make_stack`.
    """

    camera: NDArray[np.uint32]
    units: NDArray[np.uint32]
    passengers: NDArray[np.uint32]
    effects: NDArray[np.uint32]
    scratch: NDArray[np.int64]
    scratch_bits: NDArray[np.uint32]
    stack: NDArray[np.int64]


def _sink_of(columns: Columns) -> _Sink:
    return _Sink(
        columns.camera.view(np.uint32),
        columns.unit_floats.view(np.uint32),
        columns.passenger_floats.view(np.uint32),
        columns.effect_floats.view(np.uint32),
        np.zeros(4, np.int64),
        np.zeros(4, np.uint32),
        wire.make_stack(),
    )


def _allocate(sizes: tuple[int, int, int, int]) -> Columns:
    units, passengers, effects, upgrades = sizes
    return Columns(
        counts=np.zeros(4, np.int64),
        head=np.zeros(GAME_LOOP + 1, np.int64),
        camera=np.zeros(2, np.float32),
        units=np.zeros((units, BUFF_1 + 1), np.int64),
        unit_floats=np.zeros((units, PROGRESS_1 + 1), np.float32),
        passengers=np.zeros((passengers, 3), np.int64),
        passenger_floats=np.zeros((passengers, 6), np.float32),
        effects=np.zeros((effects, 3), np.int64),
        effect_floats=np.zeros((effects, 3), np.float32),
        upgrades=np.zeros(upgrades, np.int64),
        planes=np.zeros((max(PLANE_ROWS.values()) + 1, 5), np.int64),
    )


@bare_inlined
def _read_order(data, start, stop, unit, bits, sink):  # type: ignore[no-untyped-def]
    """Reads the unit's next order; the first four ids and two progresses are kept."""
    k = unit[ORDERS]
    unit[ORDERS] += 1
    order, progress = sink.scratch, sink.scratch_bits
    order[0] = 0
    progress[0] = 0
    wire.scan(data, start, stop, ORDER_TABLE, order, progress)
    if k < 4:
        unit[ORDER_0 + k] = order[0]
    if k < 2:
        bits[PROGRESS_0 + k] = progress[0]


@bare_inlined
def _read_buffs(data, pos, stop, unit):  # type: ignore[no-untyped-def]
    while pos < stop:
        value, pos = wire.varint(data, pos)
        if unit[BUFFS] < 2:
            unit[BUFF_0 + unit[BUFFS]] = np.int64(value & np.uint64(0xFFFFFFFF))
        unit[BUFFS] += 1


@bare_kernel
def _read_passenger(data, start, stop, carrier, columns, sink):  # type: ignore[no-untyped-def]
    row = min(columns.counts[PASSENGERS], len(columns.passengers) - 1)
    columns.counts[PASSENGERS] += 1
    into, bits = columns.passengers[row], sink.passengers[row]
    into[:] = 0
    into[CARRIER] = carrier
    bits[:] = 0
    wire.scan(data, start, stop, PASSENGER_TABLE, into, bits)


@bare_inlined
def _read_unit(data, pos, end, columns, sink):  # type: ignore[no-untyped-def]
    # Records beyond the room overwrite the last one; the caller makes room and starts over.
    index = columns.counts[UNITS]
    columns.counts[UNITS] += 1
    row = min(index, len(columns.units) - 1)
    unit, bits = columns.units[row], sink.units[row]
    place = bits[X:]
    unit[:] = 0
    bits[:] = 0
    unit[DISPLAY_TYPE] = VISIBLE
    unit[ALLIANCE] = SELF
    while True:
        pos, field, start, stop = wire.scan(data, pos, end, UNIT_TABLE, unit, bits)
        if field == 0:
            return
        if field == POS_FIELD:
            wire.scan(data, start, stop, POINT_TABLE, unit, place)
        elif field == ORDERS_FIELD:
            _read_order(data, start, stop, unit, bits, sink)
        elif field == BUFFS_FIELD:
            _read_buffs(data, start, stop, unit)
        else:
            _read_passenger(data, start, stop, index, columns, sink)


@bare_kernel
def _read_effect(data, pos, end, columns, sink):  # type: ignore[no-untyped-def]
    """Adds a row per position; what they share may stand after them in the message."""
    first = columns.counts[EFFECTS]
    effect, bits = sink.scratch, sink.scratch_bits
    effect[:] = 0
    effect[EFFECT_ALLIANCE] = SELF
    bits[:] = 0
    room = len(columns.effects)
    while True:
        pos, field, start, stop = wire.scan(data, pos, end, EFFECT_TABLE, effect, bits)
        if field == 0:
            break
        row = min(columns.counts[EFFECTS], room - 1)
        columns.counts[EFFECTS] += 1
        sink.effects[row, :] = 0
        point = sink.effects[row, EFFECT_X:]
        wire.scan(data, start, stop, POINT2_TABLE, effect, point)
    for row in range(first, min(columns.counts[EFFECTS], room)):
        for column in range(columns.effects.shape[1]):
            columns.effects[row, column] = effect[column]
        sink.effects[row, EFFECT_RADIUS] = bits[EFFECT_RADIUS]


@bare_kernel
def _read_player(data, pos, end, columns, sink):  # type: ignore[no-untyped-def]
    head, bits = columns.head, sink.camera
    while True:
        pos, field, start, stop = wire.scan(
            data, pos, end, PLAYER_RAW_TABLE, head, bits
        )
        if field == 0:
            return
        if field == CAMERA_FIELD:
            wire.scan(data, start, stop, POINT_TABLE, head, bits)
            continue
        while start < stop:
            value, start = wire.varint(data, start)
            row = min(columns.counts[UPGRADES], len(columns.upgrades) - 1)
            columns.counts[UPGRADES] += 1
            columns.upgrades[row] = np.int64(value & np.uint64(0xFFFFFFFF))


@bare_kernel
def _read_raw(data, pos, end, columns, sink):  # type: ignore[no-untyped-def]
    while True:
        pos, field, start, stop = wire.scan(
            data, pos, end, RAW_TABLE, columns.head, sink.scratch_bits
        )
        if field == 0:
            return
        if field == UNITS_FIELD:
            _read_unit(data, start, stop, columns, sink)
        elif field == PLAYER_FIELD:
            _read_player(data, start, stop, columns, sink)
        else:
            _read_effect(data, start, stop, columns, sink)


@bare_kernel
def _read_image(data, pos, end, plane, sink):  # type: ignore[no-untyped-def]
    unused = sink.scratch_bits
    while True:
        pos, field, start, stop = wire.scan(data, pos, end, IMAGE_TABLE, plane, unused)
        if field == 0:
            return
        if field == IMAGE_SIZE_FIELD:
            wire.scan(data, start, stop, SIZE_TABLE, plane, unused)
        else:
            plane[START] = start
            plane[LENGTH] = stop - start


@bare_kernel
def _read_layers(data, pos, end, columns, sink):  # type: ignore[no-untyped-def]
    head, unused = columns.head, sink.scratch_bits
    while True:
        pos, field, start, stop = wire.scan(
            data, pos, end, FEATURE_LAYERS_TABLE, head, unused
        )
        if field == 0:
            return
        while True:
            start, plane, inner, inner_end = wire.scan(
                data, start, stop, MINIMAP_TABLE, head, unused
            )
            if plane == 0:
                break
            _read_image(data, inner, inner_end, columns.planes[plane], sink)


@bare_kernel
def _read_observation(data, pos, end, columns, sink):  # type: ignore[no-untyped-def]
    head, unused = columns.head, sink.scratch_bits
    while True:
        pos, field, start, stop = wire.scan(
            data, pos, end, OBSERVATION_TABLE, head, unused
        )
        if field == 0:
            return
        if field == PLAYER_COMMON_FIELD:
            wire.scan(data, start, stop, PLAYER_COMMON_TABLE, head, unused)
        elif field == RAW_FIELD:
            _read_raw(data, start, stop, columns, sink)
        else:
            _read_layers(data, start, stop, columns, sink)


@bare_compiled
def _read(data, tail, numbers, columns, sink):  # type: ignore[no-untyped-def]
    """Fills the columns; returns the offset at which the bytes are no message.

    Returns _READ if all of it is one, _NO_ROOM if there were more records than rows.
    """
    bad = wire.check(data, tail, numbers, sink.stack)
    if bad >= 0:
        return bad
    columns.counts[:] = 0
    columns.head[:] = 0
    columns.planes[:] = 0
    sink.camera[:] = 0
    pos, end = 0, len(data)
    while True:
        pos, field, start, stop = wire.scan(
            data, pos, end, RESPONSE_TABLE, columns.head, sink.scratch_bits
        )
        if field == 0:
            break
        _read_observation(data, start, stop, columns, sink)
    counts = columns.counts
    fits = (
        counts[UNITS] <= len(columns.units)
        and counts[PASSENGERS] <= len(columns.passengers)
        and counts[EFFECTS] <= len(columns.effects)
        and counts[UPGRADES] <= len(columns.upgrades)
    )
    return _READ if fits else _NO_ROOM


def _refuse(size: int, offset: int) -> errors.ConverterError:
    return errors.ConverterError(
        f"expected the bytes of a ResponseObservation, found {size} bytes that "
        f"stop making sense at offset {offset}"
    )


def reported_actions(observation: bytes) -> bytes:
    """Returns the actions that an observation reports, as the bytes of a RequestAction.

    Both messages keep their actions in the same field with the same type, so these are the
    observation's own bytes.
    """
    data = np.frombuffer(observation, np.uint8)
    actions, bad = wire.gather(data, wire.tail_of(data), GRAMMAR, ACTIONS_FIELD)
    if bad >= 0:
        raise _refuse(len(data), bad)
    return bytes(actions)


class Reader:
    """Reads one message after another into the same columns, making room as needed.

    columns: the latest message's.  data: its bytes.
    """

    def __init__(self) -> None:
        self.data = np.empty(0, np.uint8)
        self.columns = _allocate((512, 256, 64, 64))
        self._sink = _sink_of(self.columns)

    def read(self, message: bytes) -> Columns:
        """Returns the message's columns; they are overwritten by the next call.

        Raises ConverterError where the bytes are not a ResponseObservation.
        """
        self.data = np.frombuffer(message, np.uint8)
        tail = wire.tail_of(self.data)
        while True:
            bad = _read(self.data, tail, GRAMMAR, self.columns, self._sink)
            if bad == _READ:
                return self.columns
            if bad >= 0:
                raise _refuse(len(message), bad)
            self._make_room()

    def _make_room(self) -> None:
        counts = [int(count) for count in self.columns.counts]
        if max(counts) > MAX_RECORDS:
            raise errors.ConverterError(
                f"expected at most {MAX_RECORDS} units, passengers, effects or "
                f"upgrades in a message, found {max(counts)}"
            )
        units, passengers, effects, upgrades = (2 * count + 64 for count in counts)
        self.columns = _allocate((units, passengers, effects, upgrades))
        self._sink = _sink_of(self.columns)
