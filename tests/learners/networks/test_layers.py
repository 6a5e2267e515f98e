"""Layers against numpy: sampling, attention, pooling and the space of cells."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

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


def test_pooling_and_gathering_squares():
    plane = np.arange(16.0).reshape(1, 4, 4)
    pooled = layers.mean_pool([plane, 2 * plane], 2)
    np.testing.assert_allclose(pooled[0, :, :, 0], [[2.5, 4.5], [10.5, 12.5]])
    np.testing.assert_allclose(pooled[0, :, :, 1], [[5, 9], [21, 25]])
    squares = layers.space_to_depth(plane[..., None], 2)
    np.testing.assert_array_equal(squares[0, 0, 1], [2, 3, 6, 7])
    np.testing.assert_array_equal(
        layers.upsample(jnp.array([[[[1.0], [2.0]]]]), 2)[0, :, :, 0],
        [[1, 1, 2, 2], [1, 1, 2, 2]],
    )


def test_attention_is_softmax_of_products():
    module = layers.Attention(4, 2, rngs=nnx.Rngs(0))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 3, 4)).astype(np.float32)
    mask = np.array([[[True, True, False]]])
    query = x[0] @ module.query.kernel + module.query.bias
    both = x[0] @ module.key_value.kernel + module.key_value.bias
    mixed = np.zeros((3, 4))
    for head in range(2):
        part = slice(2 * head, 2 * head + 2)
        for i in range(3):
            weight = [
                np.exp(query[i, part] @ both[j, part] / np.sqrt(2)) for j in (0, 1)
            ]
            for j in (0, 1):
                mixed[i, part] += weight[j] / sum(weight) * both[j, 4:][part]
    expected = mixed @ module.out.kernel + module.out.bias
    np.testing.assert_allclose(module(x, x, mask)[0], expected, rtol=1e-4, atol=1e-5)


def test_units_look_at_each_other_through_points():
    block = layers.TransformerBlock(4, 1, 4, points=2, rngs=nnx.Rngs(0))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 3, 4)).astype(np.float32)
    mask = np.array([[[True, True, False]]])

    def attend(module, queries, seen):
        both = seen @ module.key_value.kernel + module.key_value.bias
        logits = (queries @ module.query.kernel + module.query.bias) @ both[:, :4].T / 2
        weight = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        return weight @ both[:, 4:] @ module.out.kernel + module.out.bias

    normal = np.asarray(block.norm(x))[0]
    points = np.asarray(block.points.embedding[...])
    points = points + attend(block.gather, points, normal[:2])
    expected = block.mlp(x[0] + attend(block.attention, normal, points))
    np.testing.assert_allclose(block(x, mask)[0], expected, rtol=1e-4, atol=1e-5)
