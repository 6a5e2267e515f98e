"""The head of the world argument: all cells, given cells and samples agree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from starmill.learners.networks import world_head

SIDE, FACTOR, DRAWS = 3, 2, 40_000
GRID = SIDE * FACTOR


@pytest.fixture(scope="module")
def head():
    return world_head.WorldHead(5, (4,), GRID * GRID, SIDE, 0, rngs=nnx.Rngs(1))


@pytest.fixture(scope="module")
def features(head):
    # Far from uniform, since any sampler would pass on a uniform distribution.
    return 4 * jax.random.normal(jax.random.key(2), (1, SIDE * SIDE, 4))


def test_a_given_cell_scores_as_in_the_table_of_all(head, features):
    table = head.logits(features)[0]
    assert float(jnp.exp(table).sum()) == pytest.approx(1, rel=1e-5)
    many = jnp.repeat(features, GRID * GRID, axis=0)
    one_by_one = head.log_prob(many, jnp.arange(GRID * GRID))
    np.testing.assert_allclose(one_by_one, table, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_samples_follow_the_tempered_table(head, features, temperature):
    expected = jax.nn.softmax(head.logits(features)[0] / temperature)
    keys = jax.random.split(jax.random.key(3), DRAWS)
    drawn = jax.vmap(lambda key: head.sample(features, key, temperature)[0])(keys)
    result = np.bincount(drawn, minlength=GRID * GRID) / DRAWS
    assert result.shape == (GRID * GRID,)
    # Five standard errors of the likeliest cells.
    np.testing.assert_allclose(result, expected, atol=5 * 0.5 / DRAWS**0.5)
    assert np.ptp(expected) > 0.05
