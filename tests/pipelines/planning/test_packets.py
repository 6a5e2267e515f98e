"""Packets: one read each, and damage is named."""

import pytest

from starmill.pipelines.planning import packets
from starmill.schema import errors, storage
from tests.factories import range_reads
from tests.pipelines.test_plan import all_packets, make, row


def test_a_packet_is_one_read_of_its_bytes(tmp_path, monkeypatch):
    build_plan, out = make([row(n) for n in range(20)], tmp_path, replays_per_shard=10)
    packet = all_packets(build_plan, out)[3]
    reads = range_reads.record(monkeypatch)
    (item,) = packets.read(out, packet.file, packet.begin, packet.end)
    assert reads == [("00000.packets", packet.begin, packet.end)]
    assert item.shard == packet.shard


def test_a_damaged_packet_is_an_error_that_names_the_list(tmp_path):
    build_plan, out = make([row(n) for n in range(4)], tmp_path)
    packet = all_packets(build_plan, out)[0]
    data = bytearray(storage.read(f"{out}/00000.packets"))
    data[packet.begin + 30] ^= 1
    storage.write(f"{out}/00000.packets", bytes(data))
    with pytest.raises(errors.FormatError, match="the work list is damaged"):
        packets.read(out, packet.file, packet.begin, packet.end)


@pytest.mark.parametrize(
    "name", [f"plan-{'a' * 16}/00001.packets", f"plan-{'a' * 16}.parquet"]
)
def test_names_of_lists_are_recognised(name):
    assert packets.is_name(name)
    assert not packets.is_name("x" + name)
