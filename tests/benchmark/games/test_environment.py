"""The environment keeps dm_env's contract, and plays the dataset's arrays."""

import dm_env
import numpy as np
import pytest
from absl.testing import absltest
from dm_env import test_utils

from starmill.benchmark.games.environment import Environment
from starmill.benchmark.opponents import contestants, random_agent
from starmill.schema import errors, specs
from starmill.schema.settings import UNPLUGGED

LOOPS_PER_MINUTE = 1344
MAP = "Amber Basin"


class EnvironmentContractTest(test_utils.EnvironmentTestMixin, absltest.TestCase):
    """dm_env's own tests; twenty actions of one loop each reach the end of these games."""

    def make_object_under_test(self):
        return Environment(opponent="very_easy", max_minutes=15 / LOOPS_PER_MINUTE)


def idle(delay):
    return random_agent.no_op(specs.action_specs(UNPLUGGED), delay=delay)


def test_a_game_step_by_step():
    with Environment(
        opponent="very_easy",
        map_name=MAP,
        races=("zerg", "random"),
        max_minutes=300 / LOOPS_PER_MINUTE,
    ) as env:
        player = random_agent.RandomAgent(UNPLUGGED)
        player.reset(1, "zerg")
        step = env.reset(seed=1)
        assert step[:3] == (dm_env.StepType.FIRST, None, None)
        first, loops, delays = step.observation, [0], []
        while not step.last():
            for key, spec in env.observation_spec().items():
                spec.validate(step.observation[key])
            assert set(step.observation) == set(env.observation_spec())
            action = player.act(step.observation)
            delays.append(int(action["delay"]))
            step = env.step(action)
            loops.append(int(step.observation["game_loop"]))
            assert int(step.observation["prev_delay"]) == loops[-1] - loops[-2]
            assert step.last() or (step.reward, step.discount) == (0, 1)
        assert all(np.diff(loops)[:-1] >= delays[:-1])
        # Stopped, not decided: a draw whose future still counts.
        assert (step.reward, step.discount, loops[-1]) == (0, 1, 300)
        assert env.save_replay()[:3] == b"MPQ"
        again = env.reset(seed=1).observation
        assert all(np.array_equal(first[key], again[key]) for key in first)


def test_an_agent_as_opponent_plays_between_the_steps():
    seen = []

    class Opponent(random_agent.RandomAgent):
        def act(self, observation):
            seen.append(observation)
            return super().act(observation)

    with Environment(
        opponent=Opponent(UNPLUGGED), max_minutes=200 / LOOPS_PER_MINUTE
    ) as env:
        step, count = env.reset(seed=2), 0
        while not step.last():
            step = env.step(idle(40))
            count += 1
    assert count == 5
    assert len(seen) > 8
    assert int(seen[0]["home_race_requested"]) == 2  # zerg


def test_games_without_a_seed_differ_from_each_other_and_recur():
    def starts(env, *seeds):
        return [
            env.reset(**seed).observation["camera_position"].tolist() for seed in seeds
        ]

    with Environment(max_minutes=1) as env:
        unseeded = starts(env, {}, {}, {}, {})
        seeded = starts(env, {"seed": 0}, {"seed": 1}, {}, {})
    assert unseeded == seeded
    assert len(set(map(tuple, unseeded))) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opponent": "rush"}, r"load_agent\('rush'\)"),
        ({"opponent": "hard+sneaky"}, "build: expected one of"),
        ({"races": ("terran", "orc")}, "races: expected two of"),
        ({"max_minutes": 0}, "max_minutes: expected above 0"),
        ({"game": "/nowhere"}, "no game in"),
    ],
)
def test_requests_that_make_no_sense_are_refused(options, message):
    with pytest.raises(errors.ConfigError, match=message):
        Environment(**options)


def test_an_unknown_map_is_refused_with_those_that_exist():
    with (
        Environment(map_name="Nowhere") as env,
        pytest.raises(
            errors.ConfigError, match="no map Nowhere; the game offers .*Amber"
        ),
    ):
        env.reset()


def test_a_replay_needs_a_game():
    with (
        Environment() as env,
        pytest.raises(errors.ConfigError, match="call reset first"),
    ):
        env.save_replay()


def test_a_trained_agent_plays():
    agent = contestants.load_agent("skirmish:bc")
    with Environment(
        opponent="very_easy", settings=agent.settings, max_minutes=0.1
    ) as env:
        step = env.reset(seed=1)
        agent.reset(seed=1, race="terran")
        while not step.last():
            step = env.step(agent.act(step.observation))
    assert int(step.observation["game_loop"]) == 134
