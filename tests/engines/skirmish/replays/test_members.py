"""The archive and the encodings: real replays, taken apart and put together, are the same bytes."""

import io

import mpyq
import pytest

from starmill.engines.replays import archive_writer, bit_packed, protocols
from starmill.engines.skirmish import versions

REAL = ("a63c91985a28e732e16ba863659af674", "2d2620da8ffa9d8edafd323115b7e345")


@pytest.fixture(params=REAL)
def real(request, shared):
    data = (shared / f"replays/{request.param}.SC2Replay").read_bytes()
    return mpyq.MPQArchive(io.BytesIO(data))


def _user_events(events, suffix):
    return [
        (
            e["_gameloop"],
            e["_userid"]["m_userId"],
            e["_event"].removeprefix("NNet.Game.S").removesuffix(suffix),
            e,
        )
        for e in events
    ]


def test_real_game_events_encode_to_the_bytes_they_came_from(real):
    data = real.read_file("replay.game.events")
    events = list(bit_packed.protocol.decode_replay_game_events(data))
    assert len(events) > 1000
    assert bit_packed.game_events(_user_events(events, "Event")) == data


def test_real_messages_encode_to_the_bytes_they_came_from(real):
    data = real.read_file("replay.message.events")
    events = bit_packed.protocol.decode_replay_message_events(data)
    assert bit_packed.message_events(_user_events(events, "Message")) == data


def test_real_tracker_events_encode_to_the_bytes_they_came_from(real):
    data = real.read_file("replay.tracker.events")
    events = [
        (
            e["_gameloop"],
            e["_event"].removeprefix("NNet.Replay.Tracker.S").removesuffix("Event"),
            e,
        )
        for e in bit_packed.protocol.decode_replay_tracker_events(data)
    ]
    assert bit_packed.tracker_events(events) == data


def test_real_header_details_and_lobby_encode_to_the_bytes_they_came_from(real):
    header = real.header["user_data_header"]["content"]
    details = real.read_file("replay.details")
    init_data = real.read_file("replay.initData")
    protocol = bit_packed.protocol
    assert bit_packed.header(protocol.decode_replay_header(header)) == header
    assert bit_packed.details(protocol.decode_replay_details(details)) == details
    assert bit_packed.init_data(protocol.decode_replay_initdata(init_data)) == init_data


def test_attributes_encode_to_what_s2protocol_reads():
    data = bit_packed.attributes(
        [(16, 3009, "Amm"), (1, 3001, "Terr"), (2, 3001, "Zerg")]
    )
    read = bit_packed.protocol.decode_replay_attributes_events(data)["scopes"]
    assert read[16][3009][0]["value"] == b"Amm"
    assert read[1][3001][0]["value"] == b"Terr"
    assert read[2][3001][0]["value"] == b"Zerg"


@pytest.mark.parametrize("version", versions.VERSIONS, ids=lambda v: v.number)
def test_all_versions_share_one_protocol(version):
    other = protocols.load_module(version.base_build)
    assert other.typeinfos == bit_packed.protocol.typeinfos
    assert other.game_event_types == bit_packed.protocol.game_event_types
    assert other.tracker_event_types == bit_packed.protocol.tracker_event_types


def test_a_value_that_does_not_fit_is_refused():
    encoder = bit_packed.BitPackedEncoder()
    with pytest.raises(ValueError, match="does not fit in 3 bits"):
        encoder.bits(8, 3)


def test_an_archive_gives_its_members_back():
    members = {"small": b"abc", "empty-ish": b"\0", "large": b"replay" * 5000}
    archive = mpyq.MPQArchive(io.BytesIO(archive_writer.archive(members, b"front")))
    assert archive.header["user_data_header"]["content"] == b"front"
    assert [name.decode() for name in archive.files] == list(members)
    for name, content in members.items():
        assert archive.read_file(name) == content


def test_an_archive_of_many_members_has_room_for_all_names():
    members = {f"member-{i}": bytes([i]) * 10 for i in range(40)}
    archive = mpyq.MPQArchive(io.BytesIO(archive_writer.archive(members)))
    assert all(archive.read_file(name) == data for name, data in members.items())


def test_an_archive_is_the_same_every_time():
    members = {"replay.details": b"x" * 1000, "replay.game.events": bytes(range(256))}
    assert archive_writer.archive(members, b"u") == archive_writer.archive(
        members, b"u"
    )


def test_too_much_user_data_is_refused():
    with pytest.raises(ValueError, match="at most 496 bytes"):
        archive_writer.archive({}, bytes(497))
