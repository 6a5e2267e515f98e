"""Messages written from columns parse to what the message classes would have held."""

import numpy as np

from starmill.converters.protos import raw_pb2
from starmill.engines.skirmish import wire_writer


def test_columns_parse_to_the_messages_set_field_by_field():
    rng = np.random.default_rng(3)
    count = 50
    tags = rng.integers(0, 2**40, count)
    owners = rng.integers(1, 17, count)
    health = rng.uniform(0, 1500, count).astype(np.float32)
    has_health = rng.random(count) < 0.5
    xyz = rng.uniform(-200, 200, (3, count)).astype(np.float32)
    buffs = rng.integers(1, 300, (count, 4))
    buff_counts = rng.integers(0, 5, count)
    order_counts = rng.integers(0, 6, count)
    rows, slots = np.nonzero(np.arange(8) < order_counts[:, None])
    abilities = rng.integers(1, 4600, len(rows))
    progress = rng.random(len(rows)).astype(np.float32)

    columns = wire_writer.MessageColumns(count)
    columns.varints(3, tags)
    columns.varints(5, owners)
    columns.points(6, list(xyz))
    columns.floats(14, health, has_health)
    orders = wire_writer.MessageColumns(len(rows))
    orders.varints(1, abilities)
    orders.floats(4, progress, progress > 0.5)
    columns.repeated(22, rows, slots, orders)
    columns.repeated_varints(27, buffs, buff_counts)
    parsed = raw_pb2.ObservationRaw.FromString(columns.serialized(2))

    expected = raw_pb2.ObservationRaw()
    for i in range(count):
        unit = expected.units.add(tag=int(tags[i]), owner=int(owners[i]))
        unit.pos.x, unit.pos.y, unit.pos.z = (float(axis[i]) for axis in xyz)
        if has_health[i]:
            unit.health = float(health[i])
        unit.buff_ids.extend(int(b) for b in buffs[i][: buff_counts[i]])
    for row, ability, done in zip(rows, abilities, progress, strict=True):
        order = expected.units[row].orders.add(ability_id=int(ability))
        if done > 0.5:
            order.progress = float(done)
    assert parsed == expected


def test_negative_numbers_are_written_as_64_bit_complements():
    columns = wire_writer.MessageColumns(2)
    columns.varints(5, np.array([-1, 7]))
    parsed = raw_pb2.ObservationRaw.FromString(columns.serialized(2))
    assert [unit.owner for unit in parsed.units] == [-1, 7]


def test_no_messages_are_no_bytes():
    columns = wire_writer.MessageColumns(0)
    columns.varints(3, np.zeros(0))
    assert columns.serialized(2) == b""


def test_varints_of_all_lengths():
    for value in (0, 1, 127, 128, 16383, 16384, 2**32, 2**64 - 1):
        unit = raw_pb2.Unit.FromString(b"\x18" + wire_writer.varint(value))
        assert unit.tag == value
