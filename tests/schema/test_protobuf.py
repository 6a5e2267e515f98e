"""The hand-written wire format agrees with the protobuf library, in both directions."""

import pytest
from google.protobuf.message import DecodeError

from starmill.converters.protos import raw_pb2, sc2api_pb2
from starmill.schema import protobuf


@pytest.mark.parametrize(
    "value", [0, 1, 127, 128, 16383, 16384, 2**32, 2**63, 2**64 - 1]
)
def test_varints_of_all_lengths(value):
    data = protobuf.varint_field(3, value)
    assert raw_pb2.Unit.FromString(data).tag == value
    assert [field.value for field in protobuf.fields(data)] == [value]


def test_negative_numbers_are_64_bit_complements():
    assert raw_pb2.Unit.FromString(protobuf.varint_field(5, -1)).owner == -1


def test_every_writer_writes_what_the_library_writes():
    tag = sc2api_pb2.PlayerInfo(player_id=300, player_name="né", race_requested=2)
    expected = tag.SerializeToString(deterministic=True)
    assert expected == (
        protobuf.varint_field(1, 300)
        + protobuf.varint_field(3, 2)
        + protobuf.bytes_field(6, "né".encode())
    )
    unit = raw_pb2.Unit(health=1.5)
    assert unit.SerializeToString() == protobuf.float_field(14, 1.5)
    double = protobuf.double_field(1, -2.25)
    assert double == b"\x09" + bytes.fromhex("00000000000002c0")


def test_a_field_in_parts_is_the_field():
    content = [b"ab" * 50, b"", b"c" * 300]
    parts = protobuf.bytes_field_parts(7, content)
    assert b"".join(parts) == protobuf.bytes_field(7, b"".join(content))


def test_fields_are_those_that_protobuf_sees():
    observation = sc2api_pb2.ResponseObservation()
    observation.observation.game_loop = 300
    message = sc2api_pb2.Response(observation=observation, id=70_000, error=["no"])
    data = message.SerializeToString()
    fields = list(protobuf.fields(data))
    assert [(field.number, field.value) for field in fields] == [
        (10, -1),
        (97, 70_000),
        (98, -1),
    ]
    content = data[fields[0].start : fields[0].end]
    assert content == observation.SerializeToString()
    assert [field.tag_start for field in fields][1:] == [
        field.end for field in fields[:-1]
    ]


@pytest.mark.parametrize(
    "data",
    [b"\x0a\x05abc", b"\x0b", b"\x80" * 11, b"\x09abc", b"\x0d\x01"],
    ids=["short bytes", "group", "endless number", "short double", "short float"],
)
def test_bytes_that_are_no_message_are_refused(data):
    with pytest.raises(DecodeError):
        list(protobuf.fields(data))
