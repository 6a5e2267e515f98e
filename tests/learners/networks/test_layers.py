"""Sampling: the distribution is softmax's, and what is masked is never drawn."""

import jax
import numpy as np
import pytest

from starmill.learners.networks import layers


def softmax(logits):
    powers = np.exp(np.asarray(logits, np.float64) - np.max(logits))
    return powers / powers.sum()


@pytest.mark.parametrize("seed", range(3))
def test_many_draws_are_as_frequent_as_the_softmax_says(seed):
    logits = np.random.default_rng(seed).normal(0, 2, (2, 12)).astype(np.float32)
    count = 20_000
    drawn = np.asarray(layers.choose_many(jax.random.key(seed), logits, count))
    assert drawn.shape == (2, count)
    for row, values in zip(drawn, logits, strict=True):
        chance = softmax(values)
        error = np.sqrt(chance * (1 - chance) / count) + 1e-9
        seen = np.bincount(row, minlength=12) / count
        assert (np.abs(seen - chance) < 4.5 * error).all()


def test_masked_choices_are_never_drawn_wherever_they_stand():
    logits = np.full(9, layers.MASKED, np.float32)
    logits[[3, 5]] = [0.0, 1.0]
    drawn = np.asarray(layers.choose_many(jax.random.key(0), logits, 5000))
    assert set(drawn.tolist()) == {3, 5}


def test_draws_of_one_call_are_independent():
    """Pairs of neighbours are as frequent as their product."""
    logits = np.zeros(2, np.float32)
    drawn = np.asarray(layers.choose_many(jax.random.key(7), logits, 20_000))
    pairs = np.bincount(2 * drawn[::2] + drawn[1::2], minlength=4) / 10_000
    assert np.abs(pairs - 0.25).max() < 4.5 * np.sqrt(0.25 * 0.75 / 10_000)
