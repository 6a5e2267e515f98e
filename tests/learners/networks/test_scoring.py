"""What logits say of an action: delays, entropies, and choices that do not exist."""

import jax.numpy as jnp
import numpy as np
import pytest

from starmill.learners.networks import layers, scoring
from tests.factories import small_agents

ACTION = {
    name: jnp.array([value], jnp.int32)
    for name, value in {
        "function": 1,
        "delay": 1,
        "queued": 0,
        "repeat": 1,
        "unit_tags": [0, 2, 2],
        "target_unit_tag": 0,
        "world": 3,
    }.items()
}


def test_long_delays_count_as_the_longest():
    np.testing.assert_array_equal(
        scoring.delay_index(jnp.array([0, 1, 127, 128, 900])), [0, 0, 126, 126, 126]
    )


def test_entropy_of_uniform_logits_is_their_logarithm():
    shape = (1, small_agents.SLOTS, 3)
    logits = scoring.Logits(
        function=jnp.zeros((1, 5)),
        delay=jnp.zeros((1, 127)),
        queued=jnp.zeros((1, 2)),
        repeat=jnp.array([[0.0, 0.0, layers.MASKED]]),
        unit_tags=jnp.zeros(shape),
        target_unit_tag=jnp.zeros((1, 2)),
        world=jnp.zeros((1, 9)),
    )
    present = {name: jnp.array([True]) for name in scoring.ARGUMENTS}
    result = scoring.score(logits, ACTION, present).entropy
    for name, size in (("function", 5), ("repeat", 2), ("world", 9)):
        assert result[name][0] == pytest.approx(np.log(size), rel=1e-5), name
    # Two slots were used: a unit and the end marker.
    assert result["unit_tags"][0] == pytest.approx(2 * np.log(3), rel=1e-5)


def test_slots_count_up_to_the_first_end_marker():
    tags = jnp.array([[4, 1, 9], [9, 9, 9], [0, 9, 9]])
    np.testing.assert_array_equal(
        scoring.used_slots(tags, 9), [[1, 1, 1], [1, 0, 0], [1, 1, 0]]
    )
