"""Latents that are computed once: OAC on them is OAC with an encoder that stands still."""

import dataclasses

import jax
import numpy as np
import pytest

from starmill.learners import agent_file, columns, journal, rollouts, splits, training
from starmill.learners.algorithms import contract, oac
from starmill.learners.networks import latents
from starmill.schema import errors
from tests.factories import small_agents

FIELDS = {"kl_limit": 0.001, "frozen_encoder": True}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_agents.write_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def start(data, tmp_path_factory):
    """The folder of the clone that OAC improves."""
    folder = tmp_path_factory.mktemp("runs") / "bc"
    training.train(small_agents.run("bc"), data, folder, devices=1, stop_after=2)
    return folder


def test_losses_agree_with_those_of_the_whole_network(data):
    run = small_agents.run("oac")
    params, carry = oac.init(0, run.algorithm, None)
    part = data.filter(split="train")
    arrays = latents.encode(
        params,
        run.algorithm.network,
        data.settings,
        splits.every_step(part, 2),
        columns.starts(part),
    )
    look_up = columns.LookUp(columns.of_dataset(part, arrays), part)
    full = next(splits.batches(run, part))
    frozen = runs_batch(run, part, look_up)

    @jax.jit
    def loss(batch):
        return oac.loss(params, carry, batch, jax.random.key(0), run.algorithm)

    whole, (_, expected) = loss(rollouts.prepare(full, data.settings))
    ours, (_, metrics) = loss(frozen)
    # Latents are in half precision.
    np.testing.assert_allclose(ours, whole, rtol=2e-2, atol=1e-4)
    np.testing.assert_allclose(
        metrics["value_error"], expected["value_error"], rtol=0.01
    )
    assert float(expected["kl"]) == pytest.approx(0, abs=1e-5)


def runs_batch(run, part, look_up):
    """The batch that a run with a frozen encoder reads, from the same rows."""
    config = dataclasses.replace(run.algorithm, frozen_encoder=True)
    arrays = next(splits.batches(dataclasses.replace(run, algorithm=config), part))
    batch = rollouts.prepare({**arrays, **look_up.of(arrays)}, part.settings)
    assert "units" not in batch
    return batch


def test_a_run_trains_heads_alone_and_uses_given_values(data, start, tmp_path):
    values = columns.of_dataset(
        data, {contract.CRITIC_VALUES: np.full(data.steps, 0.25, "f4")}
    )
    path = tmp_path / "critic.npz"
    columns.write(path, values)
    run = small_agents.run("oac", critic=columns.digest(path), **FIELDS)
    options = {"devices": 1, "init": start}
    with pytest.raises(errors.ConfigError, match="no file"):
        training.train(run, data, tmp_path / "run", **options)
    training.train(run, data, tmp_path / "run", critic=path, **options)
    from_bc, from_oac = (
        agent_file.load_trained(folder).params for folder in (start, tmp_path / "run")
    )
    moved = {
        part: max(
            float(np.abs(np.asarray(a) - np.asarray(b)).max())
            for a, b in zip(
                jax.tree.leaves(from_bc[part]),
                jax.tree.leaves(from_oac[part]),
                strict=True,
            )
        )
        for part in from_bc
    }
    assert moved.pop("policy") > 0
    assert max(moved.values()) == 0
    (row, *_) = journal.read_rows(tmp_path / "run" / "metrics.csv")
    error = row["value_error"]
    assert 0.5 < error < 1.7
    assert {"kl", "clipped", "value_sign_accuracy"} <= set(row)


def test_divergence_beyond_the_limit_is_pulled_back():
    run = small_agents.run("oac", kl_limit=0.01, kl_weight=3.0)
    params, carry = oac.init(0, run.algorithm, None)
    other = jax.tree.map(lambda leaf: leaf + 0.3, params)
    batch = small_agents.batch(size=2, steps=4)

    def loss(params, config):
        return oac.loss(params, carry, batch, jax.random.key(0), config)

    free = dataclasses.replace(run.algorithm, kl_limit=0.0)
    both = jax.jit(lambda p: (loss(p, run.algorithm), loss(p, free)))(other)
    (bound, (_, metrics)), (unbound, _) = both
    kl = float(metrics["kl"])
    assert kl > 0.01
    np.testing.assert_allclose(bound - unbound, 3.0 * (kl - 0.01), rtol=1e-3)
