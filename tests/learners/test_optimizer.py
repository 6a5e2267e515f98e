"""Schedule, Adam and both clippings against plain loops."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from starmill.learners import optimizer
from starmill.schema import errors
from tests.reference import offline_rl


@pytest.mark.parametrize("ramp_in", [0, 300])
def test_schedule_is_the_corrected_cosine(ramp_in):
    config = optimizer.OptimizerConfig(learning_rate=2e-3, frames=1000, ramp_in=ramp_in)
    rate = optimizer.schedule(config, frames_per_update=50)
    for update in range(21):
        expected = offline_rl.cosine(update * 50, 2e-3, 1000, ramp_in)
        np.testing.assert_allclose(rate(update), expected, rtol=1e-5, atol=1e-10)
    assert float(rate(20)) == pytest.approx(0.0, abs=1e-9)
    assert float(rate(25)) == pytest.approx(0.0, abs=1e-9)


def test_schedule_of_the_papers_frames_fits_no_int32():
    config = optimizer.OptimizerConfig(
        learning_rate=5e-4, frames=10**10, ramp_in=3 * 10**9
    )
    rate = jax.jit(optimizer.schedule(config, frames_per_update=32_768))
    for update in (1, 50_000, 150_000, 300_000):
        expected = offline_rl.cosine(update * 32_768, 5e-4, 10**10, 3 * 10**9)
        np.testing.assert_allclose(rate(update), expected, rtol=1e-4)


@pytest.mark.parametrize("clip", optimizer.CLIPS)
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_equals_adam_by_hand(clip, decay):
    config = optimizer.OptimizerConfig(
        learning_rate=0.1,
        frames=100,
        clip=clip,
        clip_norm=0.7,
        weight_decay=decay,
    )
    rng = np.random.default_rng(0)
    gradients = [rng.normal(size=5) * 3 for _ in range(6)]
    gradients[3] = gradients[3] * 0.01  # short enough not to be clipped
    start = rng.normal(size=5)
    expected = offline_rl.adam(
        gradients,
        [offline_rl.cosine(10 * k, 0.1, 100, 0) for k in range(6)],
        0.9,
        0.98,
        1e-8,
        clip,
        0.7,
        decay,
        start,
    )
    tool = optimizer.build(config, frames_per_update=10)
    # Two leaves, because the norm to clip is over all of them.
    params = {"a": jnp.asarray(start[:2]), "b": jnp.asarray(start[2:])}
    state = tool.init(params)
    for gradient, wanted in zip(gradients, expected, strict=True):
        tree = {"a": jnp.asarray(gradient[:2]), "b": jnp.asarray(gradient[2:])}
        steps, state = tool.update(tree, state, params)
        params = optax.apply_updates(params, steps)
        result = np.concatenate([params["a"], params["b"]])
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


def test_problems_are_named_together():
    with pytest.raises(errors.ConfigError, match=r"clip: .*frames: .*ramp_in"):
        optimizer.OptimizerConfig(clip="both", frames=0, ramp_in=-1)
