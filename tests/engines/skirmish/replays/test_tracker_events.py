"""Tracker events tell what a second run of the same game shows."""

import collections
import io

import mpyq
import pytest

from starmill.engines.skirmish.replays import reader, streams, tracker_events
from starmill.engines.skirmish.simulation import game, records, rules
from tests.factories import arena, short_games


@pytest.fixture(scope="module")
def replay():
    return short_games.short_game(4, loops=700)


@pytest.fixture(scope="module")
def recording(replay):
    return reader.read(replay)


@pytest.fixture(scope="module")
def events(replay):
    archive = mpyq.MPQArchive(io.BytesIO(replay))
    data = archive.read_file("replay.tracker.events")
    decoded = collections.defaultdict(list)
    for event in streams.PROTOCOL.decode_replay_tracker_events(data):
        name = event["_event"].removeprefix("NNet.Replay.Tracker.S")
        decoded[name.removesuffix("Event")].append(event)
    return decoded


def _again(recording, until):
    """Plays the recorded inputs up to a loop and returns the game."""
    again = recording.new_game()
    while again.loop < until:
        again.step(recording.inputs.get(again.loop, []))
    return again


def _tag(event):
    return event["m_unitTagIndex"] << records.TAG_SHIFT | event["m_unitTagRecycle"]


def test_units_that_began_and_did_not_die_are_alive_at_the_end(recording, events):
    began = {_tag(event) for event in events["UnitBorn"] + events["UnitInit"]}
    died = {_tag(event) for event in events["UnitDied"]}
    units = _again(recording, recording.loops).world.units
    alive = set(units["tag"][units["alive"] == 1].tolist())
    assert died <= began
    assert began - died == alive


def test_units_have_their_names_owners_and_places(recording, events):
    start = [event for event in events["UnitBorn"] if event["_gameloop"] == 0]
    count = collections.Counter(
        (event["m_controlPlayerId"], event["m_unitTypeName"]) for event in start
    )
    workers = {1: b"SCV", 2: b"Drone", 3: b"Probe"}
    halls = {1: b"CommandCenter", 2: b"Hatchery", 3: b"Nexus"}
    for player, setup in enumerate(recording.players, start=1):
        assert count[player, workers[setup.race]] == 12
        assert count[player, halls[setup.race]] == 1
        (hall,) = [
            e
            for e in start
            if e["m_unitTypeName"] == halls[setup.race]
            and e["m_controlPlayerId"] == player
        ]
        x, y = recording.game_map.starts[setup.start]
        assert (hall["m_x"], hall["m_y"]) == (int(x), int(y))
    assert count[0, b"MineralField"] > 0


def test_statistics_come_every_160_loops_and_at_the_end(recording, events):
    loops = sorted({event["_gameloop"] for event in events["PlayerStats"]})
    regular = list(range(160, recording.loops + 1, tracker_events.STATS_PERIOD))
    assert loops == sorted({*regular, recording.loops})
    again = _again(recording, 480)
    for event in events["PlayerStats"]:
        if event["_gameloop"] == 480:
            state = again.world.players[event["m_playerId"]]
            stats = event["m_stats"]
            assert stats["m_scoreValueMineralsCurrent"] == state["minerals"]
            assert stats["m_scoreValueFoodMade"] == state["food_cap"] * 4096
            assert stats["m_scoreValueFoodUsed"] == state["food_used_halves"] * 2048


def test_watching_more_often_changes_nothing():
    trackers = []
    for period in (1, 160):
        fresh = arena.new_game()
        tracker = tracker_events.Tracker(fresh)
        while fresh.loop < 640:
            fresh.step([])
            if fresh.loop % period == 0:
                tracker.watch()
        trackers.append(tracker.events())
    assert trackers[0] == trackers[1]


def test_deaths_name_the_killer():
    fresh = arena.new_game()
    x, y = arena.OPEN
    marines = [arena.put(fresh, "Marine", 1, x + i, y) for i in range(4)]
    victim = arena.put(fresh, "Zergling", 2, x + 1, y + 3)
    tag = arena.tag(fresh, victim)
    arena.look(fresh)
    tracker = tracker_events.Tracker(fresh)
    tags = tuple(arena.tag(fresh, row) for row in marines)
    fresh.step([game.UnitCommand(1, rules.ability_id("Attack_Attack"), tags, tag)])
    for _ in range(400):
        fresh.step([])
    tracker.watch()
    (died,) = [
        fields
        for _, name, fields in tracker.events()
        if name == "UnitDied" and _tag(fields) == tag
    ]
    assert died["m_killerPlayerId"] == 1
    killer = (
        died["m_killerUnitTagIndex"] << records.TAG_SHIFT
        | died["m_killerUnitTagRecycle"]
    )
    assert killer in tags
