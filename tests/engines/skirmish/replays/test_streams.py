"""Members of real replays, decoded by s2protocol and encoded again, are the same bytes."""

import io

import mpyq
import pytest

from starmill.engines.replays import protocols
from starmill.engines.skirmish import versions
from starmill.engines.skirmish.replays import streams

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
    events = list(streams.PROTOCOL.decode_replay_game_events(data))
    assert len(events) > 1000
    assert streams.game_events(_user_events(events, "Event")) == data


def test_real_messages_encode_to_the_bytes_they_came_from(real):
    data = real.read_file("replay.message.events")
    events = streams.PROTOCOL.decode_replay_message_events(data)
    assert streams.message_events(_user_events(events, "Message")) == data


def test_real_tracker_events_encode_to_the_bytes_they_came_from(real):
    data = real.read_file("replay.tracker.events")
    events = [
        (
            e["_gameloop"],
            e["_event"].removeprefix("NNet.Replay.Tracker.S").removesuffix("Event"),
            e,
        )
        for e in streams.PROTOCOL.decode_replay_tracker_events(data)
    ]
    assert streams.tracker_events(events) == data


def test_real_header_details_and_lobby_encode_to_the_bytes_they_came_from(real):
    header = real.header["user_data_header"]["content"]
    details = real.read_file("replay.details")
    init_data = real.read_file("replay.initData")
    protocol = streams.PROTOCOL
    assert streams.header(protocol.decode_replay_header(header)) == header
    assert streams.details(protocol.decode_replay_details(details)) == details
    assert streams.init_data(protocol.decode_replay_initdata(init_data)) == init_data


def test_attributes_encode_to_what_s2protocol_reads():
    data = streams.attributes([(16, 3009, "Amm"), (1, 3001, "Terr"), (2, 3001, "Zerg")])
    read = streams.PROTOCOL.decode_replay_attributes_events(data)["scopes"]
    assert read[16][3009][0]["value"] == b"Amm"
    assert read[1][3001][0]["value"] == b"Terr"
    assert read[2][3001][0]["value"] == b"Zerg"


@pytest.mark.parametrize("version", versions.VERSIONS, ids=lambda v: v.number)
def test_all_versions_share_one_protocol(version):
    other = protocols.load_module(version.base_build)
    assert other.typeinfos == streams.PROTOCOL.typeinfos
    assert other.game_event_types == streams.PROTOCOL.game_event_types
    assert other.tracker_event_types == streams.PROTOCOL.tracker_event_types
