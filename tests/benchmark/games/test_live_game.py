"""Live games against the embedded engine: the same arrays as the dataset, the same game again."""

import dataclasses

import numpy as np
import pytest

from starmill.benchmark.games import live_game, throttle
from starmill.benchmark.games.built_in import BuiltIn
from starmill.benchmark.opponents import random_agent, specialists, styles
from starmill.converters import episode, timing
from starmill.converters.observation import Converter
from starmill.converters.protos import mark_flags_parsed, sc2api_pb2
from starmill.engines import playback
from starmill.engines.pool import SKIRMISH, Pool, PoolConfig
from starmill.engines.replays import replay_file
from starmill.schema import specs, vocab
from starmill.schema.settings import UNPLUGGED

SETTINGS = UNPLUGGED
MAP = "Skirmish/AmberBasin.SC2Map"


@pytest.fixture(scope="module")
def pool():
    games = Pool(PoolConfig(root=SKIRMISH, deadlines=live_game.DEADLINES))
    yield games
    games.close()


@pytest.fixture(scope="module")
def game(pool):
    return pool.installation.newest()


def is_no_op(action):
    """Returns whether the action sends nothing to the game."""
    return not 0 < int(action["function"]) < len(vocab.functions())


class Recorder:
    """Plays like another agent and remembers what it saw and did."""

    def __init__(self, player):
        self._player = player
        self.settings = player.settings
        self.seen, self.done = [], []

    def reset(self, seed, race):
        self._player.reset(seed, race)

    def act(self, observation):
        action = self._player.act(observation)
        self.seen.append(observation)
        self.done.append(action)
        return action


class Wanderer:
    """A player of every kind of action that the game accepts: camera, moves, training."""

    settings = SETTINGS

    def reset(self, seed, race):
        self._builder = specialists.Specialist(SETTINGS, styles.STYLES["economy"])
        self._builder.reset(seed, race)
        self._draw = np.random.default_rng(seed)
        self._turn = 0

    def act(self, observation):
        self._turn += 1
        action = self._builder.act(observation)
        if self._turn % 5 == 0:
            # Never two camera moves in a row: of those the dataset keeps the last only.
            action = random_agent.no_op(specs.action_specs(SETTINGS), delay=5)
            action["function"] = np.asarray(vocab.CAMERA_FUNCTION, np.int32)
            y, x = self._draw.integers(60, 180, 2)
            action["world"] = np.asarray(y * 256 + x, np.int32)
        elif is_no_op(action):
            action["function"] = np.asarray(
                vocab.function_named("Move_pt").id, np.int32
            )
            units = observation["raw_units"]
            own = np.flatnonzero(
                units[:, random_agent.COLUMN["alliance"]] == random_agent.OWN
            )
            movers = own[np.isin(units[own, 0], self._worker_types())][-3:]
            action["unit_tags"][: len(movers)] = movers
            y, x = self._draw.integers(40, 200, 2)
            action["world"] = np.asarray(y * 256 + x, np.int32)
        return action

    @staticmethod
    def _worker_types():
        names = ("Terran.SCV", "Zerg.Drone", "Protoss.Probe")
        return [vocab.ids("unit_types")[name] for name in names]


def generated(pool, game, replay, side):
    """The arrays that the dataset has of a replay's side, by the pipeline's own steps.

    Not through the worker, which refuses games without a result: these are stopped short.
    """
    frames = timing.action_frames(replay_file.open_replay(replay).game_events())[side]
    with pool.lease(game) as games:
        player = playback.Player(games[0])
        info = player.load(replay, side, SETTINGS)
        converter = Converter(SETTINGS, info.game_info, info.replay_info)
        steps = episode.convert_stream(converter, player.stream(frames), frames)
        return episode.stack(steps)


def play(pool, game, agents, *, races=("zerg", "terran"), seed=3, **setup):
    with pool.lease(game, len(agents)) as games:
        opponent = BuiltIn(difficulty="easy") if len(agents) == 1 else None
        wanted = live_game.GameSetup(
            map_path=MAP, seed=seed, races=races, opponent=opponent, **setup
        )
        return live_game.play(
            live_game.clients_of(games), wanted, agents, live_game.DEADLINES
        )[:3]


def check_dataset_holds(arrays, recorder, record, *, delay_loops=0):
    """Every step of the dataset at which the agent acted is what the agent saw.

    What the game refused is not in the replay, and so not in the dataset.
    record: how the agent played. delay_loops: between two processes, an action is played one
        loop after it was sent, and the dataset has a step there.
    """
    by_loop = {int(seen["game_loop"]): seen for seen in recorder.seen}
    acted = {
        int(seen["game_loop"])
        for seen, action in zip(recorder.seen, recorder.done, strict=True)
        if not is_no_op(action)
    }
    loops = arrays["game_loop"].tolist()
    # The dataset's last step is the end of the game, which nobody acts on.
    compared = [loop for loop in loops[:-1] if loop in by_loop]
    steps = {loop - delay_loops for loop in loops}
    refused = sum(sum(reasons.values()) for reasons in record.refused.values())
    assert len(acted - steps) <= refused
    if delay_loops:
        return len(acted & steps)
    for loop in compared:
        index = loops.index(loop)
        for key, live_array in by_loop[loop].items():
            if key in ("mmr", "prev_delay"):
                continue
            np.testing.assert_array_equal(
                arrays[key][index], live_array, f"{key} at loop {loop}"
            )
    return len(compared)


@pytest.mark.parametrize("race", ["terran", "zerg", "protoss"])
def test_the_dataset_holds_what_the_agent_saw(pool, game, race):
    recorder = Recorder(Wanderer())
    _, replay, (record,) = play(
        pool, game, [recorder], races=(race, "zerg"), seed=11, max_loops=800
    )
    arrays = generated(pool, game, replay, 1)
    assert check_dataset_holds(arrays, recorder, record) > 40
    # The actions that the replay tells of are those that the agent chose.
    by_loop = {
        int(seen["game_loop"]): action
        for seen, action in zip(recorder.seen, recorder.done, strict=True)
    }
    for index, loop in enumerate(arrays["game_loop"].tolist()[:-1]):
        if loop not in by_loop or loop == 0:
            continue
        action = by_loop[loop]
        assert arrays["action/function"][index] == action["function"]
        if int(action["function"]) == vocab.CAMERA_FUNCTION:
            assert arrays["action/world"][index] == action["world"]


def test_the_dataset_has_the_actions_of_both_agents_in_two_processes(pool, game):
    first, second = Recorder(Wanderer()), Recorder(Wanderer())
    ending, replay, records = play(
        pool, game, [first, second], races=("protoss", "terran"), max_loops=500
    )
    assert ending == live_game.Ending((0, 0), "limit", 500)
    players = zip((1, 2), (first, second), records, strict=True)
    for side, recorder, record in players:
        arrays = generated(pool, game, replay, side)
        assert check_dataset_holds(arrays, recorder, record, delay_loops=1) > 20


def test_the_same_seed_gives_the_same_game_and_another_another(pool, game):
    replays = []
    for seed in (5, 5, 6):
        player = random_agent.RandomAgent(SETTINGS)
        replays.append(play(pool, game, [player], seed=seed, max_loops=400)[1])
    assert replays[0] == replays[1] != replays[2]


class Spammer:
    """Moves its workers on every loop, if it may."""

    settings = SETTINGS

    def reset(self, seed, race):
        pass

    def act(self, observation):
        action = random_agent.no_op(specs.action_specs(SETTINGS), delay=1)
        units = observation["raw_units"]
        own = np.flatnonzero(
            units[:, random_agent.COLUMN["alliance"]] == random_agent.OWN
        )[:3]
        action["function"] = np.asarray(vocab.function_named("Move_pt").id, np.int32)
        action["unit_tags"][: len(own)] = own
        action["world"] = np.asarray(100 * 256 + 100, np.int32)
        return action


def test_the_throttle_holds_in_a_game(pool, game):
    recorder = Recorder(Spammer())
    play(
        pool,
        game,
        [recorder],
        max_loops=400,
        limit=throttle.Limit(actions=7, loops=50),
    )
    loops = np.array([int(seen["game_loop"]) for seen in recorder.seen])
    for start in range(400):
        assert ((loops >= start) & (loops < start + 50)).sum() <= 7
    assert len(loops) >= 7 * 400 // 50


def random_call(raw_functions, draw, count):
    """One of pysc2's raw function calls, to a random unit and place."""
    names = ("Smart_pt", "Move_pt", "Attack_pt", "Stop_quick", "Train_Drone_quick")
    where = [int(value) for value in draw.integers(10, 120, 2)]
    kind = int(draw.integers(len(names) + 1))
    if kind == len(names):
        return raw_functions.raw_move_camera(where)
    unit = [int(draw.integers(count))]
    if names[kind].endswith("_quick"):
        return raw_functions[names[kind]]("now", unit)
    return raw_functions[names[kind]]("now", unit, where)


def play_pysc2(game, monkeypatch, steps):
    """Plays at random through SC2Env; returns arrays by step, and requests by loop."""
    mark_flags_parsed()
    from pysc2.env import sc2_env
    from pysc2.lib import actions, remote_controller

    sent: dict[int, list[sc2api_pb2.RequestAction]] = {}
    theirs: list[dict] = []
    original = remote_controller.RemoteController.actions

    def spy(self, request):
        copy = sc2api_pb2.RequestAction()
        copy.CopyFrom(request)
        sent.setdefault(int(theirs[-1]["game_loop"][0]), []).append(copy)
        return original(self, request)

    monkeypatch.setattr(remote_controller.RemoteController, "actions", spy)
    draw = np.random.default_rng(4)
    with sc2_env.SC2Env(
        map_name="Acropolis",
        version=game.game_version,
        random_seed=9,
        step_mul=8,
        visualize=False,
        players=[
            sc2_env.Agent(sc2_env.Race.zerg),
            sc2_env.Bot(sc2_env.Race.terran, sc2_env.Difficulty.easy),
        ],
        agent_interface_format=sc2_env.AgentInterfaceFormat(
            feature_dimensions=sc2_env.Dimensions(screen=84, minimap=128),
            action_space=sc2_env.ActionSpace.RAW,
            use_raw_units=True,
            use_raw_actions=True,
            raw_resolution=128,
            show_cloaked=True,
            show_burrowed_shadows=True,
            show_placeholders=True,
        ),
    ) as env:
        seen = env.reset()
        info = env._controllers[0].game_info()
        converter = Converter(
            dataclasses.replace(SETTINGS, supervised=False), info.SerializeToString()
        )
        for _ in range(steps):
            theirs.append(converter.convert(env._obs[0].SerializeToString()))
            units = len(seen[0].observation.raw_units)
            seen = env.step([random_call(actions.RAW_FUNCTIONS, draw, units)])
    return theirs, sent


@pytest.mark.filterwarnings("ignore")  # pysc2 and what it imports are of another time
def test_pysc2s_environment_and_ours_see_the_same(pool, game, monkeypatch):
    monkeypatch.setenv("SC2PATH", str(pool.installation.root))
    theirs, sent = play_pysc2(game, monkeypatch, 50)
    assert len(sent) > 30
    with pool.lease(game) as games:
        (client,) = live_game.clients_of(games)
        setup = live_game.GameSetup(
            map_path="Ladder2019Season3/AcropolisLE.SC2Map",
            seed=9,
            races=("zerg", "terran"),
            opponent=BuiltIn(difficulty="easy"),
        )
        ours = live_game.LiveGame([client], setup, [SETTINGS], live_game.DEADLINES)
        waiting = random_agent.no_op(specs.action_specs(SETTINGS), delay=8)
        for expected in theirs:
            seen = ours.observe(0)
            assert int(seen["game_loop"]) == int(expected["game_loop"][0])
            for key, array in expected.items():
                np.testing.assert_array_equal(
                    seen[key], array.reshape(seen[key].shape), f"{key} {ours.loop}"
                )
            for request in sent.get(ours.loop, ()):
                client.call(sc2api_pb2.Request(action=request), 60)
            ours.act(0, waiting)
            ours.advance()
        ours.leave()
