"""The published network as algorithms use it: with trimmed rows, corners, a value and sampling."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from starmill.learners import presets, rollouts
from starmill.learners.algorithms import bc, contract
from starmill.learners.networks import parameters, published_network
from starmill.learners.networks.published import sizes, unit_tags_head
from starmill.learners.networks.published.unit_encoder import COLUMNS
from starmill.schema import errors
from starmill.schema.settings import UNPLUGGED
from tests.factories import small_agents
from tests.reference import published_network as slow

CONFIG = presets.NETWORKS["lite"]
FRAMES, ROWS = 6, 256


@functools.cache
def _step():
    """Random steps with no more than ROWS units, one of which has exactly that many."""
    step = slow.random_step(3, FRAMES, units=(ROWS, ROWS))
    observation, previous, step_type, action = step
    observation["raw_units"][1:, 100:] = 0
    action["function"][:] = [2, 3, 215, 186, 0, 1]
    action["function"][3] = 168  # a camera move
    own = observation["raw_units"][..., COLUMNS.index("alliance")] == 1
    for frame in range(FRAMES):
        rows = np.flatnonzero(own[frame])[: frame + 1]
        action["unit_tags"][frame] = sizes.END
        action["unit_tags"][frame, : len(rows)] = rows
        action["target_unit_tag"][frame] = rows[0]
        action["world"][frame] = 110 * 256 + 70
    action["unit_tags"][4] = 0
    action["unit_tags"][2, :3] = [5, 250, 5]  # an empty row, and one chosen twice
    return observation, previous, step_type, action


def _batch():
    """The same steps as a batch [FRAMES, 1], as losses take it."""
    observation, previous, step_type, action = _step()
    arrays = {
        **observation,
        **{f"action/{name}": value for name, value in action.items()},
        **{f"prev_{name}": value for name, value in previous.items()},
        "step_type": step_type,
        "outcome": np.ones(FRAMES, np.int32),
        "valid": np.ones(FRAMES, bool),
    }
    batch = rollouts.trim_units({k: v[:, None] for k, v in arrays.items()}, UNPLUGGED)
    assert batch["units"].shape[2] == ROWS
    assert "camera" not in batch
    return batch


@functools.cache
def _params():
    """Parameters that are not near zero anywhere."""
    rng = np.random.default_rng(1)
    shapes = parameters.shapes(CONFIG, UNPLUGGED)
    return jax.tree.map(
        lambda leaf: (
            jnp.asarray(0.1 * rng.standard_normal(leaf.shape), jnp.float32)
            + (0.5 if leaf.ndim == 1 else 0.0)
        ),
        shapes,
    )


@functools.cache
def _forward():
    config = bc.Config(network=CONFIG, weight_penalty=0.0)

    @jax.jit
    def run(params, batch, key):
        forward = contract.forward(params, batch, config)
        loss = bc.policy_loss(forward.scores, forward.weight, config)
        policy, latent = forward.network.policy, forward.latent
        pair = policy.function_delay_log_probs(latent.vector, forward.action)
        drawn = policy.sample(latent, key)
        # A latent model's children: several actions for each latent.
        several = jnp.tile(forward.action["function"][:, None], (1, 3))
        delays = policy.delay_logits(latent.vector[:, None], several)
        value = forward.network.value(latent.vector)
        return loss, forward.scores, pair, drawn, delays, value

    return jax.device_get(run(_params(), _batch(), jax.random.key(0)))


def test_the_loss_is_that_of_the_plain_transcription():
    loss, scores, *_ = _forward()
    expected = jax.jit(slow.loss)(_params()["published"], *_step())
    # The transcription has a selected row of zeros in its sums; ours leaves it out.
    np.testing.assert_allclose(np.delete(loss, 2), np.delete(expected, 2), rtol=1e-5)
    np.testing.assert_allclose(loss[2], expected[2], rtol=0.05)
    assert loss[0] == loss[-1] == 0  # first and last step
    assert scores.impossible["unit_tags"][2] == 1
    assert scores.present["function"].tolist() == [0, 1, 1, 1, 1, 1]


def test_function_and_delay_alone_have_the_same_probabilities():
    _, scores, (function, delay), _, delays, value = _forward()
    inner = slice(1, None)  # without the first step
    np.testing.assert_allclose(
        function[inner], scores.log_prob["function"][inner], atol=1e-5
    )
    np.testing.assert_allclose(delay[inner], scores.log_prob["delay"][inner], atol=1e-5)
    assert delays.shape == (FRAMES, 3, sizes.DELAYS - 1)
    np.testing.assert_allclose(delays[:, 0], delays[:, 2], rtol=1e-5)
    assert value.shape == (FRAMES,)


def test_drawn_actions_are_ones_that_the_masks_allow():
    *_, drawn, _, _ = _forward()
    rows = _step()[0]["raw_units"]
    free = np.asarray(
        unit_tags_head.selectable({n: rows[..., i] for i, n in enumerate(COLUMNS)})
    )
    assert all(value.dtype == np.int32 for value in drawn.values())
    assert (drawn["delay"] >= 1).all()
    for frame in range(FRAMES):
        tags = drawn["unit_tags"][frame]
        choice = tags[tags != sizes.END]
        if drawn["function"][frame] == 0:
            assert not tags.any()
            continue
        assert len(set(choice.tolist())) == len(choice)
        assert free[frame, choice].all()
        # Nothing but the end follows the end.
        assert (np.diff((tags == sizes.END).astype(int)) >= 0).all()


def test_what_a_network_adds_has_parameters_of_its_own():
    plain = parameters.count(parameters.shapes(CONFIG, UNPLUGGED)["published"])
    assert plain == 1_485_092
    more = dataclasses.replace(
        CONFIG, latent_model=True, action_values=True, condition_return=True
    )
    names = set(parameters.shapes(more, UNPLUGGED))
    assert names == {
        "action_value_head",
        "dynamics",
        "published",
        "target_return",
        "value_head",
    }


def test_other_settings_and_names_are_refused():
    with pytest.raises(errors.ConfigError, match=r"these differ: .*camera"):
        parameters.init(0, CONFIG, small_agents.SETTINGS)
    with pytest.raises(errors.ConfigError, match=r"memory: .*architecture: "):
        published_network.PublishedConfig(architecture="huge", memory="diary")
