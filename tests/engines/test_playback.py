"""Observation streams: as recorded from the reference, and the same for both at once."""

import json
import random
import threading
from pathlib import Path

import pytest

from starmill.converters import timing
from starmill.converters.protos import sc2api_pb2
from starmill.engines import game_process, playback
from starmill.schema import errors, settings


class FakeClient:
    """A replay without a game: it has a length, and loops on which the player acted."""

    def __init__(self, acted, end=10**9, *, undecided=False) -> None:
        self.acted, self.end, self.undecided = sorted(acted), end, undecided
        self.loop, self.reported = 0, 0
        self.requests: list[tuple[str, int]] = []
        self.offset = 0

    def send_step(self, count: int) -> None:
        assert self.loop < self.end, "a step after the end"
        self.requests.append(("step", count))
        self.loop = min(self.loop + count, self.end)

    def send_observation(self) -> None:
        self.requests.append(("observation", self.loop))

    def receive(self) -> bytes:
        if self.requests[-1][0] == "step":
            return b""
        return self.observation().SerializeToString()

    def observation(self) -> sc2api_pb2.ResponseObservation:
        message = sc2api_pb2.ResponseObservation()
        message.observation.game_loop = self.loop + self.offset
        for loop in self.acted:
            if self.reported <= loop < self.loop:
                message.actions.add().game_loop = loop
        self.reported = self.loop
        if self.loop >= self.end:
            result = sc2api_pb2.Undecided if self.undecided else sc2api_pb2.Victory
            message.player_result.add(player_id=1, result=result)
        return message


class FakeGame:
    """As much of a process as playback looks at."""

    def __init__(self, client: FakeClient, rss_bytes: int = 0) -> None:
        self.client = client
        self._rss_bytes = rss_bytes
        self.executable = game_process.Executable(
            game_version="4.9.2",
            base_build=74741,
            data_version=None,
            binary="",
            data_dir="",
        )

    def rss_bytes(self) -> int:
        return self._rss_bytes


def seen(stream):
    """[(loop, [loops of the reported actions])] of a stream."""
    out = []
    for loop, observed in stream:
        message = sc2api_pb2.ResponseObservation.FromString(observed.player)
        assert message.observation.game_loop == loop
        out.append((loop, [action.game_loop for action in message.actions]))
    return out


def player(client: FakeClient, **options) -> playback.Player:
    return playback.Player(FakeGame(client), **options)


def golden_cases(shared: Path):
    return json.loads((shared / "golden/replay_stream/cases.json").read_text())


def test_streams_are_those_that_were_recorded(shared):
    checked = 0
    for case in golden_cases(shared):
        if "stream" not in case:
            continue
        acted = [loop for _, actions in case["stream"] for loop in actions]
        client = FakeClient(acted)
        mine = seen(player(client).stream(case["skips"]))
        theirs = [(loop, actions) for loop, actions in case["stream"]]
        if len(theirs) > 1 and theirs[1][0] == 0:
            del theirs[0]  # loop 0 observed twice: the second replaces the first
        assert mine == theirs
        checked += 1
    assert checked > 5


def test_each_step_is_sent_once_and_no_step_of_zero_is():
    client = FakeClient({0, 5, 6, 20})
    list(player(client).stream([0, 5, 6, 20]))
    steps = [count for kind, count in client.requests if kind == "step"]
    assert steps == [5, 1, 1, 13]
    assert sum(steps) == 20


def test_while_an_observation_is_looked_at_the_game_plays_on():
    client = FakeClient({4, 9})
    stream = player(client).stream([4, 9])
    next(stream)
    assert client.requests == [("observation", 0), ("step", 4)]
    stream.close()


def test_a_player_who_never_acts_is_observed_on_every_loop_until_the_end():
    client = FakeClient({}, end=7)
    assert [loop for loop, _ in player(client).stream([])] == list(range(8))


def test_the_end_of_the_game_ends_the_stream():
    client = FakeClient({3, 90}, end=90)
    assert [loop for loop, _ in player(client).stream([3, 90, 95])] == [0, 3, 4, 90]


def test_a_decided_end_shortly_before_the_last_action_is_the_games_own():
    frames = [3, 100, 100 + playback.EARLY_END_LOOPS]
    assert seen(player(FakeClient(frames, end=100)).stream(frames))[-1][0] == 100
    later = [3, 100, 101 + playback.EARLY_END_LOOPS]
    with pytest.raises(errors.EngineDesync, match="before the last recorded"):
        list(player(FakeClient(later, end=100)).stream(later))


def test_an_undecided_early_end_is_no_end():
    client = FakeClient({3, 90}, end=80, undecided=True)
    with pytest.raises(errors.EngineDesync, match="before the last recorded"):
        list(player(client).stream([3, 90]))


def test_a_step_that_ends_on_another_loop_is_noticed():
    client = FakeClient({3, 9})
    stream = player(client).stream([3, 9])
    next(stream)
    client.offset = 1
    with pytest.raises(errors.EngineDesync, match="another loop"):
        next(stream)


def test_a_stub_is_no_observation():
    stub = sc2api_pb2.ResponseObservation()
    stub.observation.game_loop = 2**32 - 1
    stub.player_result.add(player_id=1, result=sc2api_pb2.Victory)
    with pytest.raises(errors.EngineDesync, match="stub"):
        playback.parse_observation(stub.SerializeToString())


@pytest.mark.parametrize("data", [b"", b"\x1a\x00", b"\x1a\x7f", b"\xff"])
def test_what_is_no_observation_is_a_crash(data):
    with pytest.raises(errors.EngineCrashed):
        playback.parse_observation(data)


def test_a_game_that_grows_too_large_is_given_up():
    game = FakeGame(FakeClient({}, end=500), rss_bytes=100)
    with pytest.raises(errors.EngineCrashed, match="memory"):
        list(playback.Player(game, max_rss_bytes=99).stream([]))


def test_a_game_lasts_a_million_loops_at_most():
    client = FakeClient({}, end=10**9)
    loops = [loop for loop, _ in player(client, max_loops=50).stream([])]
    assert loops[-1] == 49


def both(frames, ends=(10**9, 10**9), acted=None):
    acted = acted or frames
    clients = [FakeClient(acted.get(p, []), ends[p - 1]) for p in (1, 2)]
    pair = playback.Pair((player(clients[0]), player(clients[1])), frames)
    streams: dict[int, object] = {}

    def consume(player_id: int) -> None:
        items = []
        try:
            for loop, observed in pair.stream(player_id):
                other = sc2api_pb2.ResponseObservation.FromString(observed.opponent)
                assert other.observation.game_loop == loop
                items.append((loop, observed))
            streams[player_id] = seen(items)
        except errors.StarmillError as error:
            streams[player_id] = error

    threads = [threading.Thread(target=consume, args=(p,)) for p in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return streams, clients


@pytest.mark.parametrize("seed", range(30))
def test_playing_both_together_gives_each_the_stream_it_has_alone(seed):
    rng = random.Random(seed)
    end = rng.choice([10**9, 120])
    frames = {
        p: sorted(rng.sample(range(rng.choice([0, 1]), 120), rng.randint(1, 40)))
        for p in (1, 2)
    }
    for p in (1, 2):
        frames[p].append(125)
    # Actions also where there is no frame: camera moves that the plan leaves out.
    acted = {p: sorted({*frames[p], *rng.sample(range(120), 10)}) for p in (1, 2)}
    streams, clients = both(frames, (end, end), acted)
    for p in (1, 2):
        alone = seen(player(FakeClient(acted[p], end)).stream(frames[p]))
        assert streams[p] == alone
    stepped = [sum(n for kind, n in c.requests if kind == "step") for c in clients]
    assert stepped[0] == stepped[1] <= 125


def test_together_an_idle_player_does_not_pile_up_the_others_observations():
    frames = {1: list(range(1, 400)), 2: []}
    streams, _ = both(frames, (400, 400))
    assert len(streams[1]) == 400
    assert [loop for loop, _ in streams[2]] == list(range(401))


def test_together_a_failure_reaches_both():
    frames = {1: [5, 50], 2: [6, 50]}
    streams, _ = both(frames, (10**9, 20))
    assert isinstance(streams[1], errors.EngineDesync)
    assert isinstance(streams[2], errors.EngineDesync)


def test_together_one_can_leave_and_the_other_goes_on():
    frames = {1: list(range(1, 200)), 2: [3, 150, 199]}
    clients = [FakeClient(frames[p]) for p in (1, 2)]
    pair = playback.Pair((player(clients[0]), player(clients[1])), frames)
    first = pair.stream(1)
    next(first)
    first.close()
    alone = seen(player(FakeClient(frames[2])).stream(frames[2]))
    assert seen(pair.stream(2)) == alone


def test_the_game_is_asked_for_what_the_reference_asks_for():
    options = playback.interface_options(settings.UNPLUGGED)
    assert options.raw and options.score and options.show_cloaked
    assert options.show_burrowed_shadows and options.show_placeholders
    assert options.raw_affects_selection
    assert options.HasField("raw_crop_to_playable_area")
    layer = options.feature_layer
    assert (layer.width, layer.minimap_resolution.x, layer.resolution.y) == (24, 128, 1)
    assert not options.HasField("render")


def test_reported_actions_stay_fields_of_an_observation():
    message = sc2api_pb2.ResponseObservation()
    message.observation.game_loop = 9
    for loop in (3, 4):
        message.actions.add().game_loop = loop
    kept = playback.reported_actions(message.SerializeToString())
    again = sc2api_pb2.ResponseObservation.FromString(kept)
    assert [action.game_loop for action in again.actions] == [3, 4]
    assert not again.HasField("observation")


def test_plans_and_targets_agree():
    frames = [0, 4, 5, 9, 30]
    targets = list(playback._targets(frames))
    assert targets == [4, 5, 6, 9, 10, 30]
    assert sum(timing.step_plan(frames)) == targets[-1]
