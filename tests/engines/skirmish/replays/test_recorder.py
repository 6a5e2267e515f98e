"""Replays: what was played is what is read, by us, by s2protocol, by sc2reader, by pysc2."""

import io
import json
import sys
import warnings

import mpyq
import pytest

from starmill.converters import protos
from starmill.engines.skirmish.replays import (
    reader,
    streams,
)
from starmill.engines.skirmish.server import replay_playback
from starmill.engines.skirmish.simulation import game
from tests.factories import games


@pytest.fixture(scope="module")
def played():
    return games.played()


def _archive(data):
    return mpyq.MPQArchive(io.BytesIO(data))


def test_inputs_come_back_as_they_were_played(played):
    recording = reader.read(played.replay)
    leave = recording.inputs.pop(played.loops)
    assert recording.inputs == played.inputs
    assert leave == [game.Leave(2)]
    kinds = {type(item) for items in played.inputs.values() for item in items}
    assert kinds >= {
        game.UnitCommand,
        game.Select,
        game.ControlGroup,
        game.CameraMove,
    }


def test_a_rerun_has_the_same_state_at_every_hundredth_loop_and_the_end(played):
    recording = reader.read(played.replay)
    again = replay_playback.ReplayPlayback(recording, 1)
    seen = {}
    while not again.ended:
        again.step(100)
        seen[again.game.loop] = again.game.state_digest()
    end = seen.pop(played.loops)
    assert {loop: seen[loop] for loop in seen} == {
        loop: played.digests[loop] for loop in seen
    }
    assert len(seen) == played.loops // 100 - 1
    assert end == recording.end_digest
    assert again.results == played.result == {1: "win", 2: "loss"}


def test_odd_steps_reach_the_same_state(played):
    recording = reader.read(played.replay)
    again = replay_playback.ReplayPlayback(recording, 2)
    for count in (0, 1, 7, 92, 1, 399):
        again.step(count)
    assert again.game.loop == 500
    assert again.game.state_digest() == played.digests[500]


def test_the_same_game_is_the_same_file():
    first = games.played.__wrapped__(loops=300)
    assert first.replay == games.played.__wrapped__(loops=300).replay
    assert first.replay != games.played.__wrapped__(loops=300, seed=6).replay


def test_a_version_changes_only_what_names_it():
    old = games.played.__wrapped__(loops=200, version="4.8.2")
    archive = _archive(old.replay)
    metadata = json.loads(archive.read_file("replay.gamemetadata.json"))
    assert metadata["GameVersion"] == "4.8.2.71663"
    assert metadata["BaseBuild"] == "Base71663"
    assert metadata["DataVersion"] == "FE90C92716FC6F8F04B74268EC369FA5"
    header = streams.PROTOCOL.decode_replay_header(
        archive.header["user_data_header"]["content"]
    )
    assert header["m_version"]["m_baseBuild"] == 71663


def test_the_metadata_say_whose_replay_it_is(played):
    archive = _archive(played.replay)
    metadata = json.loads(archive.read_file("replay.gamemetadata.json"))
    assert metadata["Engine"] == "skirmish"
    assert metadata["Title"] == "Skirmish Amber Basin"
    assert metadata["Duration"] == played.loops // 16
    first, second = metadata["Players"]
    assert (first["MMR"], first["Result"], first["SelectedRace"]) == (
        4100,
        "Win",
        "Terr",
    )
    assert (second["MMR"], second["Result"], second["AssignedRace"]) == (
        4200,
        "Loss",
        "Zerg",
    )
    assert first["APM"] > 0
    details = streams.PROTOCOL.decode_replay_details(
        archive.read_file("replay.details")
    )
    assert details["m_title"] == b"Skirmish Amber Basin"
    assert [player["m_result"] for player in details["m_playerList"]] == [1, 2]


def test_s2protocol_decodes_every_member(played):
    archive = _archive(played.replay)
    protocol = streams.PROTOCOL
    lobby = protocol.decode_replay_initdata(archive.read_file("replay.initData"))
    state = lobby["m_syncLobbyState"]
    assert state["m_gameDescription"]["m_gameOptions"]["m_amm"]
    assert [u["m_scaledRating"] for u in state["m_userInitialData"]] == [4100, 4200]
    tracker = list(
        protocol.decode_replay_tracker_events(
            archive.read_file("replay.tracker.events")
        )
    )
    names = {event["_event"].split(".S")[-1] for event in tracker}
    assert names >= {"PlayerSetupEvent", "PlayerStatsEvent", "UnitBornEvent"}
    loops = [event["_gameloop"] for event in tracker]
    assert loops == sorted(loops)
    assert (
        len(
            list(
                protocol.decode_replay_message_events(
                    archive.read_file("replay.message.events")
                )
            )
        )
        == 4
    )


def test_sc2reader_reads_it_whole(played):
    sc2reader = pytest.importorskip("sc2reader")
    replay = sc2reader.load_replay(io.BytesIO(played.replay), load_level=4)
    assert replay.release_string == "4.9.2.74741"
    assert replay.map_name == "Skirmish Amber Basin"
    assert [player.play_race for player in replay.players] == ["Terran", "Zerg"]
    assert [player.result for player in replay.players] == ["Win", "Loss"]
    assert replay.is_ladder
    assert replay.frames == played.loops
    commands = [e for e in replay.game_events if e.name.endswith("CommandEvent")]
    assert len(commands) > 20


def test_pysc2_finds_the_loops_that_were_played(played):
    protos.mark_flags_parsed()
    if sys.version_info >= (3, 12):
        pytest.skip("s2protocol's own look-up of versions needs Python 3.11 or older")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it imports `imp`
        from pysc2.lib.replay import sc2_replay, sc2_replay_utils

    skips = sc2_replay_utils.raw_action_skips(sc2_replay.SC2Replay(played.replay))
    for player in (1, 2):
        acted = [
            loop
            for loop, items in played.inputs.items()
            if any(
                i.player == player and isinstance(i, (game.UnitCommand, game.Autocast))
                for i in items
            )
        ]
        assert skips[player][-1] == played.loops
        # Camera moves are kept only before a command; every command is kept.
        assert set(acted) <= set(skips[player])
        extra = set(skips[player]) - set(acted) - {played.loops}
        cameras = {
            loop
            for loop, items in played.inputs.items()
            if any(isinstance(i, game.CameraMove) for i in items)
        }
        assert extra <= cameras
