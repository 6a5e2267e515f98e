"""Step weights: shares by hand, what a loss makes of them, and what is refused."""

import dataclasses

import jax
import numpy as np
import pytest

from starmill.learners import runs
from starmill.learners.algorithms import bc
from starmill.learners.counts import step_weights
from starmill.schema import errors, vocab
from tests.factories import small_agents

NAMES = [function.name for function in vocab.functions()]


def test_no_function_has_more_than_its_share_and_the_rest_keeps_its_weight():
    counts = np.array([700, 0, 200, 60, 20, 12, 8])
    weights = step_weights.balanced(counts, 0.3)
    table = step_weights.table(weights, len(counts))
    # 700 and 200 are above 30%. The other 100 steps are then 40% of 250.
    assert weights == {NAMES[0]: round(75 / 700, 4), NAMES[2]: 75 / 200}
    shares = counts * table / (counts * table).sum()
    np.testing.assert_allclose(shares[[0, 2]], 0.3, atol=1e-4)
    assert (shares <= 0.3 + 1e-4).all()
    assert (table[[1, 3, 4, 5, 6]] == 1).all()


def test_shares_hold_for_any_counts():
    rng = np.random.default_rng(0)
    for _ in range(50):
        counts = rng.integers(1, 10 ** rng.integers(1, 5), 20)
        share = float(rng.uniform(0.05, 0.5))
        table = step_weights.table(step_weights.balanced(counts, share), 20)
        weighed = counts * table
        assert (weighed <= share * weighed.sum() * 1.01).all()
        assert (table <= 1).all()


def test_with_as_many_functions_as_shares_all_weigh_the_same():
    counts = np.array([50, 10, 40])
    table = step_weights.table(step_weights.balanced(counts, 1 / 3), 3)
    np.testing.assert_allclose(counts * table, 10, atol=0.01)


@pytest.mark.parametrize("share", [0.0, 1.5, 0.2])
def test_impossible_shares_are_refused(share):
    with pytest.raises(errors.ConfigError, match="at least 1/3"):
        step_weights.balanced(np.array([5, 0, 6, 7]), share)


def test_steps_are_counted_by_function_without_last_ones(tmp_path):
    data = small_agents.write_dataset(tmp_path)
    expected = np.zeros(small_agents.FUNCTIONS, int)
    for episode in data:
        for function in episode.read()["action/function"][:-1]:
            expected[function] += 1
    np.testing.assert_array_equal(step_weights.count(data), expected)


@pytest.mark.parametrize("weights", [{"Nothing": 1.0}, {NAMES[1]: -1.0}])
def test_unknown_functions_and_negative_weights_are_refused(weights):
    with pytest.raises(errors.ConfigError, match=next(iter(weights))):
        small_agents.run("bc", step_weights=weights)


def test_the_loss_is_weighed_by_function():
    """The gradient of a batch in which one function counts is that of its frames alone."""
    run = small_agents.run("bc", value_weight=0.0, weight_penalty=0.0)
    batch = small_agents.batch(size=4, steps=4)
    function = int(batch["action/function"][0, 1])
    params, carry = bc.init(0, run.algorithm, None)

    def policy_loss(weights):
        config = dataclasses.replace(run.algorithm, step_weights=weights)
        loss = jax.jit(lambda: bc.loss(params, carry, batch, jax.random.key(0), config))
        return float(loss()[0])

    others = {NAMES[f]: 0.0 for f in range(small_agents.FUNCTIONS) if f != function}
    whole, half = policy_loss({}), policy_loss({NAMES[function]: 0.5})
    alone = policy_loss(others)
    assert 0 < alone < whole
    assert half == pytest.approx(whole - alone / 2, rel=1e-5)


def test_runs_keep_their_weights():
    run = small_agents.run("bc", step_weights={NAMES[3]: 0.25})
    assert runs.from_json(run.to_json()) == run
    older = run.to_json()
    del older["algorithm"]["step_weights"]
    assert runs.from_json(older).algorithm.step_weights == {}
