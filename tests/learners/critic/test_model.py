"""The critic's model learns a rule, ignores rare inputs, and stops where other games say."""

import numpy as np
import pytest

from starmill.learners.critic import model
from starmill.learners.critic.model import ModelConfig
from starmill.schema import errors

CONFIG = ModelConfig(
    hidden=8, updates=20, looks=20, batch_size=64, learning_rate=1e-2, drop=0.2
)


def _steps(seed, count=600):
    """The first two inputs decide, the third is noise, the fourth is rare and tells a lie."""
    rng = np.random.default_rng(seed)
    inputs = rng.random((count, 4)).astype(np.float32)
    outcome = np.where(inputs[:, 0] > inputs[:, 1], 1, -1).astype(np.float32)
    inputs[:, 3] = 0
    return inputs, outcome


def test_it_learns_who_is_ahead():
    curve = model.errors_of_looks(_steps(0), _steps(1), CONFIG, seed=0)
    assert curve.shape == (CONFIG.looks,)
    assert curve[0] > curve[-1] + 0.1
    assert curve[-1] < 0.35
    values = model.fit(_steps(0), CONFIG, seed=0, looks=20).values(_steps(2)[0])
    assert (np.sign(values) == _steps(2)[1]).mean() > 0.9
    assert np.abs(values).max() <= 1


def test_a_model_at_a_look_is_the_one_that_was_judged():
    curve = model.errors_of_looks(_steps(0), _steps(1), CONFIG, seed=4)
    fitted = model.fit(_steps(0), CONFIG, seed=4, looks=3)
    inputs, outcome = _steps(1)
    error = np.square(fitted.values(inputs) - outcome).mean()
    assert error == pytest.approx(curve[2])


def test_inputs_that_few_steps_have_are_left_out():
    inputs, outcome = _steps(0)
    inputs[:6, 3] = 1
    fitted = model.fit((inputs, outcome), CONFIG, seed=0, looks=1)
    assert fitted.scale[3] == 0
    assert (fitted.scale[:3] > 0).all()
    changed = inputs.copy()
    changed[:, 3] = 5
    np.testing.assert_array_equal(fitted.values(inputs), fitted.values(changed))


def test_sizes_and_shares_are_checked():
    with pytest.raises(errors.ConfigError, match="hidden: expected at least 1"):
        ModelConfig(hidden=0)
    with pytest.raises(errors.ConfigError, match="drop"):
        ModelConfig(drop=1.0)
