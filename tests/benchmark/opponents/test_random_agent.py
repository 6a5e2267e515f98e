import numpy as np

from starmill.benchmark.opponents import random_agent
from starmill.schema import settings, specs


def observation(own=5, others=3):
    shapes = specs.episode_specs(settings.UNPLUGGED)
    arrays = {
        key: np.zeros(spec.shape, spec.dtype)
        for key, spec in shapes.items()
        if not key.startswith("action/")
    }
    units = arrays["raw_units"]
    units[: own + others, random_agent.COLUMN["unit_type"]] = 42
    units[:own, random_agent.COLUMN["alliance"]] = random_agent.OWN
    units[own : own + others, random_agent.COLUMN["alliance"]] = random_agent.ENEMY
    return arrays


def test_random_actions_satisfy_the_spec_and_command_own_units():
    player = random_agent.RandomAgent(settings.UNPLUGGED)
    player.reset(1, "zerg")
    wanted = specs.action_specs(settings.UNPLUGGED)
    functions = set()
    for _ in range(300):
        action = player.act(observation())
        assert specs.problems(action, wanted) == []
        for key, spec in wanted.items():
            array = action[key]
            assert (array >= spec.minimum).all()
            assert (array <= spec.maximum).all()
        commanded = action["unit_tags"][action["unit_tags"] < 512]
        assert 0 < len(commanded) <= 4
        assert (commanded < 5).all()
        functions.add(int(action["function"]))
    assert len(functions) > 200


def test_the_same_seed_plays_the_same():
    plays = []
    for seed in (1, 1, 2):
        player = random_agent.RandomAgent(settings.UNPLUGGED)
        player.reset(seed, "zerg")
        plays.append([int(player.act(observation())["world"]) for _ in range(20)])
    assert plays[0] == plays[1] != plays[2]


def test_the_no_op_selects_nothing():
    action_specs = specs.action_specs(settings.UNPLUGGED)
    action = random_agent.no_op(action_specs, delay=7)
    assert set(action) == set(action_specs)
    assert int(action["function"]) == 0
    assert int(action["delay"]) == 7
    assert (action["unit_tags"] == 512).all()
