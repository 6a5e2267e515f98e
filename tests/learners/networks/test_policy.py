"""The structured action: masks, probabilities by enumeration, sampling against scoring."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from starmill.learners import rollouts
from starmill.learners.networks import parameters, policy, scoring, temperatures
from starmill.schema import settings, vocab
from tests.factories import small_agents

PARAMS = parameters.init(3, small_agents.NETWORK, small_agents.SETTINGS)


# Every call is padded to this many frames, so that each function is compiled once.
FRAMES = 1600


def _network(params):
    return parameters.merge(params, small_agents.NETWORK, small_agents.SETTINGS)


@jax.jit
def _encode(params, frames):
    return _network(params).encode(frames)


@jax.jit
def _evaluate(params, latent, action):
    heads = _network(params).policy
    return heads.logits(latent, action), heads.score(latent, action)


@jax.jit
def _sample(params, latent, key, temperature):
    return _network(params).policy.sample(latent, key, temperature)


def _padded(tree):
    def pad(leaf):
        leaf = np.asarray(leaf)
        return np.concatenate([leaf, np.repeat(leaf[:1], FRAMES - len(leaf), axis=0)])

    return jax.tree.map(pad, tree)


def _both(params, latent, action):
    count = len(action["function"])
    result = _evaluate(params, _padded(latent), _padded(action))
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:count], result)


def _logits(params, latent, action):
    return _both(params, latent, action)[0]


def _score(params, latent, action):
    return _both(params, latent, action)[1]


@pytest.fixture(scope="module")
def frames():
    return rollouts.flatten(small_agents.batch(seed=1, size=2, steps=4))


@pytest.fixture(scope="module")
def latent(frames):
    return _encode(PARAMS, frames)


def _repeat(latent, index, count):
    """Returns one frame of a latent, repeated."""
    return jax.tree.map(
        lambda leaf: np.repeat(np.asarray(leaf)[index : index + 1], count, axis=0),
        latent,
    )


def _stack(actions):
    return {
        name: np.stack([np.asarray(a[name], np.int32) for a in actions])
        for name in scoring.ARGUMENTS
    }


def _selections(rows):
    """Yields every list of distinct rows, ended by the marker or by the last slot."""
    for length in range(small_agents.SLOTS + 1):
        for choice in itertools.permutations(range(rows), length):
            yield [*choice] + [small_agents.UNITS] * (small_agents.SLOTS - length)


def _all_actions(function, delay, rows):
    takes = vocab.functions()[function].args
    queued = range(2) if "queued" in takes else [0]
    repeat = range(3) if "queued" in takes else [0]
    empty = [[small_agents.UNITS if function else 0] * small_agents.SLOTS]
    tags = list(_selections(rows)) if "unit_tags" in takes else empty
    targets = range(rows) if "target_unit_tag" in takes else [0]
    worlds = range(small_agents.SIDE**2) if "world" in takes else [0]
    for values in itertools.product(queued, repeat, tags, targets, worlds):
        yield dict(zip(scoring.ARGUMENTS, (function, delay, *values), strict=True))


def test_table_says_which_arguments_exist():
    table = policy.argument_table(settings.UNPLUGGED)
    assert table.shape == (556, 7)
    expected = {
        "no_op": "1100000",
        "camera_move": "1100001",
        "cmd": "1111100",
        "cmd_pt": "1111101",
        "cmd_unit": "1111110",
        "autocast": "1100100",
    }
    for function in vocab.functions()[:556]:
        names = "".join("01"[int(bit)] for bit in table[function.id])
        assert names == expected[function.kind], function.name


@pytest.mark.parametrize("kind", ["no_op", "cmd_unit"])
def test_probabilities_of_all_actions_sum_to_one(latent, frames, kind):
    index = int(np.argmin(frames["unit_count"]))
    rows = int(frames["unit_count"][index])
    function = small_agents.kinds()[kind]
    actions = list(_all_actions(function, 17, rows))
    scores = _score(PARAMS, _repeat(latent, index, len(actions)), _stack(actions))
    rest = sum(
        value
        for name, value in scores.log_prob.items()
        if name not in ("function", "delay")
    )
    assert float(np.exp(rest).sum()) == pytest.approx(1.0, rel=1e-4)
    first = [
        {**actions[0], "function": f, "delay": d}
        for f in range(small_agents.FUNCTIONS)
        for d in range(1, 128)
    ]
    scores = _score(PARAMS, _repeat(latent, index, len(first)), _stack(first))
    both = scores.log_prob["function"] + scores.log_prob["delay"]
    assert np.exp(both).sum() == pytest.approx(1.0, rel=1e-4)


def test_world_probabilities_sum_to_one_and_agree_with_the_logits(latent):
    function = small_agents.kinds()["cmd_pt"]
    base = next(_all_actions(function, 3, 2))
    actions = [{**base, "world": cell} for cell in range(small_agents.SIDE**2)]
    repeated = _repeat(latent, 0, len(actions))
    scores = _score(PARAMS, repeated, _stack(actions))
    assert np.exp(scores.log_prob["world"]).sum() == pytest.approx(1.0, rel=1e-4)
    full = _logits(PARAMS, repeated, _stack(actions)).world
    np.testing.assert_allclose(
        scores.log_prob["world"], np.diag(full), rtol=1e-4, atol=1e-5
    )


def test_joint_probability_is_the_product_of_prefix_conditionals(latent, frames):
    """Brute force: each factor comes from logits given only the arguments before it."""
    index = int(np.argmax(frames["unit_count"]))
    rows = int(frames["unit_count"][index])
    action = {
        "function": small_agents.kinds()["cmd_unit"],
        "delay": 127,
        "queued": 1,
        "repeat": 2,
        "unit_tags": [1, rows - 1, small_agents.UNITS],
        "target_unit_tag": 0,
        "world": 0,
    }
    blank = {
        "function": 0,
        "delay": 1,
        "queued": 0,
        "repeat": 0,
        "unit_tags": [small_agents.UNITS] * small_agents.SLOTS,
        "target_unit_tag": 0,
        "world": 0,
    }

    def factor(name, prefix, choice, slot=None):
        logits = getattr(
            _logits(PARAMS, _repeat(latent, index, 1), _stack([prefix])), name
        )
        values = np.asarray(logits, np.float64)[0]
        values = values if slot is None else values[slot]
        return np.exp(values - np.logaddexp.reduce(values))[choice]

    expected, prefix = {}, dict(blank)
    for name in scoring.ARGUMENTS[:4]:
        choice = action[name] - 1 if name == "delay" else action[name]
        expected[name] = factor(name, prefix, choice)
        prefix[name] = action[name]
    expected["unit_tags"] = 1.0
    for slot, tag in enumerate(action["unit_tags"]):
        choice = latent.valid.shape[-1] if tag == small_agents.UNITS else tag
        expected["unit_tags"] *= factor("unit_tags", prefix, choice, slot)
        prefix["unit_tags"] = [
            *action["unit_tags"][: slot + 1],
            *blank["unit_tags"][slot + 1 :],
        ]
    expected["target_unit_tag"] = factor("target_unit_tag", prefix, 0)
    scores = _score(PARAMS, _repeat(latent, index, 1), _stack([action]))
    for name, value in expected.items():
        assert np.exp(scores.log_prob[name][0]) == pytest.approx(value, rel=1e-4), name
    assert scores.log_prob["world"][0] == 0
    assert scores.slots[0] == 3


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_sampled_actions_are_possible_and_score_as_their_logits_say(
    latent, frames, temperature
):
    count = FRAMES
    table = policy.argument_table(small_agents.SETTINGS)
    for index in (0, 3):
        many = _repeat(latent, index, count)
        action = _sample(PARAMS, many, jax.random.key(5), temperature)
        scores = _score(PARAMS, many, action)
        for name, impossible in scores.impossible.items():
            assert not np.any(impossible), name
        rows = int(frames["unit_count"][index])
        takes = table[np.asarray(action["function"])]
        tags = np.asarray(action["unit_tags"])
        for row in range(count):
            choice = [tag for tag in tags[row] if tag != small_agents.UNITS]
            if not takes[row, 4]:
                assert set(tags[row]) == {
                    small_agents.UNITS if action["function"][row] else 0
                }
                continue
            assert len(set(choice)) == len(choice)
            assert all(tag < rows for tag in choice)
            # Nothing after the end marker.
            assert list(tags[row][: len(choice)]) == choice
        assert np.asarray(action["delay"]).min() >= 1
        absent = ~takes[:, 6]
        assert not np.any(np.asarray(action["world"])[absent])


def test_samples_follow_the_probabilities(latent):
    """Frequencies of `function` and of the first chosen unit, against the logits."""
    count = FRAMES
    many = _repeat(latent, 2, count)
    action = _sample(PARAMS, many, jax.random.key(0), 1.0)
    logits = _logits(PARAMS, many, action)
    share = np.bincount(action["function"], minlength=small_agents.FUNCTIONS) / count
    expected = np.asarray(jax.nn.softmax(logits.function[0]))
    np.testing.assert_allclose(share, expected, atol=0.05)
    takes = policy.argument_table(small_agents.SETTINGS)[
        np.asarray(action["function"])
    ][:, 4]
    probabilities = np.asarray(jax.nn.softmax(logits.unit_tags[:, 0]))[takes].mean(0)
    first = np.asarray(action["unit_tags"])[takes, 0]
    result = np.bincount(
        np.minimum(first, len(probabilities) - 1), minlength=len(probabilities)
    )
    np.testing.assert_allclose(result / takes.sum(), probabilities, atol=0.05)


def test_low_temperature_takes_the_likeliest(latent):
    many = _padded(latent)
    action = _sample(PARAMS, many, jax.random.key(1), 1e-4)
    logits = _logits(PARAMS, many, action)
    np.testing.assert_array_equal(action["function"], logits.function.argmax(-1))
    np.testing.assert_array_equal(action["delay"], logits.delay.argmax(-1) + 1)


def test_masked_arguments_carry_no_gradient(latent):
    """For a function without units, nothing reaches the pointer heads or the world's."""
    action = _stack(
        [next(_all_actions(small_agents.kinds()["no_op"], 2, 2))] * len(latent.valid)
    )

    def total(params):
        scores = _network(params).policy.score(latent, action)
        return sum(x.sum() for x in scores.log_prob.values())

    gradient = jax.jit(jax.grad(total))(PARAMS)["policy"]
    untouched = ("tag_", "target_", "world")
    for name, tree in gradient.items():
        norm = sum(float(jnp.abs(leaf).sum()) for leaf in jax.tree.leaves(tree))
        if name.startswith(untouched):
            assert norm == 0, name
    heads = {
        n: jnp.abs(t["second"]["kernel"]).sum() for n, t in gradient["heads"].items()
    }
    assert heads["function"] > 0
    assert heads["delay"] > 0
    assert heads["queued"] == 0
    assert heads["repeat"] == 0


def test_impossible_choices_are_counted_and_carry_nothing(latent, frames):
    index = int(np.argmin(frames["unit_count"]))
    rows = int(frames["unit_count"][index])
    assert rows < small_agents.UNITS
    action = next(_all_actions(small_agents.kinds()["cmd_unit"], 2, 2))
    wrong = {**action, "target_unit_tag": small_agents.UNITS - 1}
    scores = _score(PARAMS, _repeat(latent, index, 2), _stack([action, wrong]))
    np.testing.assert_array_equal(scores.impossible["target_unit_tag"], [0, 1])
    assert scores.log_prob["target_unit_tag"][1] == 0
    assert scores.log_prob["target_unit_tag"][0] < 0


def test_each_argument_is_sampled_at_its_own_temperature(latent):
    """The function varies while everything after it is the likeliest choice given it."""
    cold = temperatures.of(1e-4)._replace(function=1.0)
    many = jax.tree.map(lambda leaf: jnp.repeat(leaf[:1], 40, axis=0), latent)

    @jax.jit
    def sample(key):
        return _network(PARAMS).policy.sample(many, key, cold)

    first, second = (sample(jax.random.key(number)) for number in (1, 2))
    assert len(np.unique(first["function"])) > 2
    answers = {}
    for action in (first, second):
        for row, function in enumerate(np.asarray(action["function"])):
            rest = tuple(
                np.asarray(action[name][row]).tobytes()
                for name in scoring.ARGUMENTS
                if name != "function"
            )
            assert answers.setdefault(int(function), rest) == rest


def test_one_temperature_is_that_of_all_arguments():
    assert set(temperatures.of(0.5)) == {0.5}
    assert tuple(scoring.ARGUMENTS) == temperatures.ARGUMENTS
    assert temperatures.with_changes(0.7, {}) == 0.7
    changed = temperatures.with_changes(0.7, {"world": 0.1})
    assert (changed.world, changed.delay) == (0.1, 0.7)
