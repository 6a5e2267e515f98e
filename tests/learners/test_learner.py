"""Updates: accumulated batches, devices, and the gradient's norm."""

import dataclasses
import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from starmill.learners.learner import Learner
from starmill.schema import errors
from tests.conftest import ROOT
from tests.factories import small_agents


def test_accumulated_batches_are_one_large_batch():
    """The mean gradient of two halves is the gradient of the whole batch."""
    whole = Learner(small_agents.run("bc", batch_size=8), 1)
    halves = Learner(small_agents.run("bc", batch_size=4, accumulate=2), 1)
    batch = small_agents.batch(size=8, steps=4)
    parts = [
        {name: value[half] for name, value in batch.items()}
        for half in (slice(0, 4), slice(4, 8))
    ]
    one, metrics = whole.update(whole.init(), whole.put([batch]), 1)
    two, summed = halves.update(halves.init(), halves.put(parts), 1)
    assert metrics.keys() == summed.keys()
    for name in ("loss", "gradient_norm"):
        np.testing.assert_allclose(metrics[name], summed[name], rtol=1e-4)
    # After one update, Adam's mean is the clipped gradient. Parameters cannot be compared: where
    # a gradient is 0 except for rounding, its sign decides the step.
    ours, theirs = one.optimizer[1].mu, two.optimizer[1].mu
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert max(float(abs(leaf).max()) for leaf in jax.tree.leaves(ours)) > 0.05


@pytest.mark.slow
def test_four_devices_give_the_same_loss_as_one():
    """Runs in another process, because the number of devices is fixed when JAX starts."""
    script = """
import dataclasses
import json
import jax
jax.config.update("jax_disable_most_optimizations", True)
from starmill.learners.learner import Learner
from tests.factories import small_agents
batch = small_agents.batch(size=4, steps=4)
found = {}
for agent in ("bc", "e-oac"):
    for devices in (1, 4):
        learner = Learner(small_agents.run(agent, learning_rate=0.01), devices)
        state, losses = learner.init(), []
        for number in (1, 2, 3):
            state, metrics = learner.update(state, learner.put([batch]), number)
            losses.append(float(metrics["loss"]))
        found[f"{agent}{devices}"] = losses
print(json.dumps([len(jax.devices()), found]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
        capture_output=True,
        text=True,
        check=True,
    )
    devices, content = json.loads(done.stdout.splitlines()[-1])
    assert devices == 4
    for name in ("bc", "e-oac"):
        np.testing.assert_allclose(content[f"{name}1"], content[f"{name}4"], rtol=1e-4)
        assert len(set(content[f"{name}1"])) == 3  # it did train


def test_devices_must_divide_the_batch():
    with pytest.raises(errors.ConfigError, match="divisor of the batch size"):
        Learner(small_agents.run("bc"), 99)


def test_groups_of_batches_are_one_update():
    """Adding up three groups of two gives the update of one group of six, norm included."""
    changes = {"batch_size": 2, "accumulate": 6, "eps": 1e-2}
    learner = Learner(small_agents.run("bc", **changes), 1)
    batches = [small_agents.batch(seed, size=2, steps=4) for seed in range(6)]
    one, metrics = learner.update(learner.init(), learner.put(batches), 1)
    state, total, rows = learner.init(), None, []
    for first in (0, 2, 4):
        group = learner.put(batches[first : first + 2])
        state, total, row = learner.add(state, total, group, 1, first)
        rows.append(row)
    two = learner.apply(state, total)
    np.testing.assert_allclose(
        rows[-1]["gradient_norm"], metrics["gradient_norm"], rtol=1e-4
    )
    mean = np.mean([float(row["loss"]) for row in rows])
    np.testing.assert_allclose(mean, metrics["loss"], rtol=1e-5)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_a_state_that_was_used_up_is_gone():
    """Two states would not fit where one just does."""
    learner = Learner(small_agents.run("bc"), 1)
    group = learner.put([small_agents.batch(size=4, steps=4)])
    first, _ = learner.update(learner.init(), group, 1)
    learner.update(first, group, 2)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(first.params))


def _loss_and_gradient(**changes):
    """The loss of one fixed batch, and its gradient as one vector."""
    run = small_agents.run("bc")
    config = dataclasses.replace(
        run.algorithm, network=dataclasses.replace(run.algorithm.network, **changes)
    )
    learner = Learner(dataclasses.replace(run, algorithm=config), 1)
    state = learner.init()
    group = learner.put([small_agents.batch(size=4, steps=4)])
    _, total, metrics = learner.add(state, None, group, 1, 0)
    leaves = [np.ravel(leaf) for leaf in jax.tree.leaves(total)]
    assert all(leaf.dtype == np.float32 for leaf in leaves)
    return float(metrics["loss"]), np.concatenate(leaves)


def test_half_the_bits_give_nearly_the_same_loss():
    """To 0.5%, with gradients in the same direction; bfloat16 has 8 bits of precision."""
    loss, gradient = _loss_and_gradient()
    near, near_gradient = _loss_and_gradient(compute="bfloat16")
    assert near != loss  # it did compute in another precision
    np.testing.assert_allclose(near, loss, rtol=5e-3)
    norms = np.linalg.norm(gradient) * np.linalg.norm(near_gradient)
    assert gradient @ near_gradient > 0.99 * norms


def test_what_is_computed_again_is_the_same():
    loss, gradient = _loss_and_gradient()
    again, again_gradient = _loss_and_gradient(remat=True)
    np.testing.assert_allclose(again, loss, rtol=1e-6)
    np.testing.assert_allclose(again_gradient, gradient, rtol=1e-3, atol=1e-4)
