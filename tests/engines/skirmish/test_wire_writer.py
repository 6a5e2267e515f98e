"""Pieces of the wire format parse to what the message classes would have held."""

from starmill.converters.protos import raw_pb2
from starmill.engines.skirmish import wire_writer


def test_varints_of_all_lengths():
    for value in (0, 1, 127, 128, 16383, 16384, 2**32, 2**64 - 1):
        unit = raw_pb2.Unit.FromString(b"\x18" + wire_writer.varint(value))
        assert unit.tag == value


def test_negative_numbers_are_64_bit_complements():
    unit = raw_pb2.Unit.FromString(b"\x28" + wire_writer.varint(-1))
    assert unit.owner == -1


def test_a_field_in_pieces_is_the_field():
    payload = [b"ab" * 50, b"", b"c" * 300]
    assert b"".join(wire_writer.pieces(7, payload)) == wire_writer.field(
        7, b"".join(payload)
    )
