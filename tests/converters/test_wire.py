"""Wire bytes to columns: protobuf's rules, and what is refused."""

import numpy as np
import pytest

from starmill.converters import columns, message_fields, protos, wire
from starmill.schema import errors
from tests import fuzz_converter

Unit = protos.raw_pb2.Unit
ResponseObservation = protos.sc2api_pb2.ResponseObservation
varint = fuzz_converter.varint


def _field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def _units(*units: bytes) -> bytes:
    """A ResponseObservation with these units: fields 3, 5 and 2 from outside in."""
    return _field(3, _field(5, b"".join(_field(2, unit) for unit in units)))


def _read(data: bytes) -> columns.Columns:
    return columns.Reader().read(data)


def test_an_empty_unit_has_the_defaults_of_the_message():
    message = _read(_units(b""))
    assert message.counts[message_fields.UNITS] == 1
    assert message.units[0, message_fields.DISPLAY_TYPE] == 1
    assert message.units[0, message_fields.ALLIANCE] == 1
    assert message.units[0, message_fields.CLOAK] == 0
    assert not message.unit_floats[0].any()


def test_the_last_value_of_a_scalar_wins():
    message = _read(_units(Unit(owner=3).SerializeToString() + b"\x28\x07"))
    assert message.units[0, message_fields.OWNER] == 7


def test_an_unknown_enum_value_leaves_the_field_alone():
    cloaked = Unit(cloak=2).SerializeToString()
    message = _read(_units(cloaked + varint(10 << 3) + varint(9)))
    assert message.units[0, message_fields.CLOAK] == 2
    message = _read(_units(varint(1 << 3) + varint(77)))
    assert message.units[0, message_fields.DISPLAY_TYPE] == 1


def test_parts_of_a_singular_message_merge():
    first = _field(6, protos.common_pb2.Point(x=1.5, y=2.5).SerializeToString())
    second = _field(6, protos.common_pb2.Point(y=9.0).SerializeToString())
    message = _read(_units(first + second))
    np.testing.assert_array_equal(
        message.unit_floats[0, message_fields.X : message_fields.Y + 1],
        np.float32([1.5, 9.0]),
    )


def test_repeated_numbers_come_packed_or_not():
    plain = Unit(buff_ids=[5, 300]).SerializeToString()
    packed = _field(27, varint(5) + varint(300))
    for data in (plain, packed):
        message = _read(_units(data))
        assert message.units[
            0, message_fields.BUFF_0 : message_fields.BUFF_1 + 1
        ].tolist() == [5, 300]


def test_a_wrong_wire_type_is_an_unknown_field():
    message = _read(_units(varint(5 << 3 | 5) + b"abcd" + varint(14 << 3) + varint(9)))
    assert message.units[0, message_fields.OWNER] == 0
    assert message.unit_floats[0, message_fields.HEALTH] == 0


def test_negative_and_wide_numbers_are_cut_to_the_field():
    unit = Unit(owner=-5, tag=2**64 - 2, unit_type=2**32 - 1)
    message = _read(_units(unit.SerializeToString() + b"\x50" + varint(2**32 + 3)))
    assert message.units[0, message_fields.OWNER] == -5
    assert message.units[0, message_fields.TAG] == -2
    assert message.units[0, message_fields.UNIT_TYPE] == 2**32 - 1
    assert message.units[0, message_fields.CLOAK] == 3


def test_presence_of_an_add_on_tag_is_noted_even_if_zero():
    message = _read(_units(Unit(add_on_tag=0).SerializeToString(), b""))
    assert message.units[:2, message_fields.HAS_ADD_ON_TAG].tolist() == [1, 0]


def test_groups_are_skipped_and_must_end():
    group = varint(99 << 3 | 3) + b"\x08\x01" + varint(99 << 3 | 4)
    assert _read(_units(group)).counts[message_fields.UNITS] == 1
    for bad in (group[:-1], group[:-2] + varint(98 << 3 | 4), varint(99 << 3 | 4)):
        with pytest.raises(errors.ConverterError):
            _read(_units(bad))


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",  # field 0
        b"\x0f",  # wire type 7
        b"\x08",  # a tag without a value
        b"\x1a\x05ab",  # shorter than it says
        b"\x1a" + varint(2**63),  # longer than anything
        b"\x08" + b"\xff" * 10 + b"\x01",  # a number of eleven bytes
        b"\x88\x80\x80\x80\x80\x01\x01",  # a tag of six bytes
        _field(3, _field(4, b"\x3d\x00")),  # rubbish in a part that is not read
        _field(
            3, _field(5, _field(1, _field(3, b"\x80")))
        ),  # a packed list that is cut
    ],
)
def test_what_protobuf_refuses_is_refused(data):
    with pytest.raises(fuzz_converter.DecodeError):
        ResponseObservation.FromString(data)
    with pytest.raises(errors.ConverterError, match="offset"):
        _read(data)


def test_room_is_made_for_more_units_than_there_was_room_for():
    message = _read(_units(*(Unit(tag=i).SerializeToString() for i in range(1500))))
    assert message.units[:1500, message_fields.TAG].tolist() == list(range(1500))


def test_a_message_with_absurdly_many_units_is_refused():
    data = _field(3, _field(5, b"\x12\x00" * (message_fields.MAX_RECORDS + 1)))
    with pytest.raises(errors.ConverterError, match="at most"):
        _read(data)


def test_reported_actions_are_the_bytes_of_a_request():
    observation = ResponseObservation()
    for loop in (3, 4):
        observation.actions.add(game_loop=loop).action_raw.camera_move.SetInParent()
    observation.observation.game_loop = 9
    result = columns.reported_actions(observation.SerializeToString())
    request = protos.sc2api_pb2.RequestAction.FromString(result)
    assert list(request.actions) == list(observation.actions)
    assert columns.reported_actions(b"") == b""
    with pytest.raises(errors.ConverterError):
        columns.reported_actions(b"\x0a\x05a")


def test_the_grammar_knows_every_message_below():
    numbers = wire.grammar(ResponseObservation.DESCRIPTOR)
    observation = numbers[0, 3] - 1
    assert observation > 0
    assert numbers[numbers[observation, 5] - 1, 2] > 0  # units
    assert numbers.shape[0] > 50


def test_damaged_messages_are_refused_or_agree_with_protobuf():
    assert fuzz_converter.run(1500, seed=1) is None


@pytest.mark.slow
def test_a_hundred_thousand_damaged_messages():
    assert fuzz_converter.run(100_000, seed=0) is None
