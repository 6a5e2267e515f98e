"""Gymnasium's own checks of the wrapper, and how games end in it."""

import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from starmill.benchmark.games.environment import Environment
from starmill.benchmark.games.gymnasium_environment import GymnasiumEnvironment

LOOPS_PER_MINUTE = 1344


@pytest.fixture
def env():
    wrapped = GymnasiumEnvironment(
        Environment(opponent="very_easy", max_minutes=200 / LOOPS_PER_MINUTE)
    )
    yield wrapped
    wrapped.close()


# Bounds of int32 arrays are those of the type: there are no others.
@pytest.mark.filterwarnings("ignore:.*A Box observation space:UserWarning")
def test_gymnasiums_own_checks_pass(env):
    # With a spec, the checks compare games of one seed.
    env.spec = EnvSpec("Skirmish-v0", nondeterministic=False)
    check_env(env, skip_render_check=True, skip_close_check=True)


def test_a_game_that_its_limit_cuts_short_is_truncated(env):
    env.reset(seed=1)
    action = {**env.action_space.sample(), "function": 0, "delay": 100}
    _, reward, terminated, truncated, _ = env.step(action)
    assert (reward, terminated, truncated) == (0, False, False)
    observation, reward, terminated, truncated, _ = env.step(action)
    assert (reward, terminated, truncated) == (0, False, True)
    assert observation in env.observation_space
