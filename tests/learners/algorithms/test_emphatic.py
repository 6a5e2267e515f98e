"""Emphatic traces against the formula on a whole stream."""

import numpy as np
import pytest

from starmill.learners.algorithms import emphatic
from tests.reference import offline_rl


@pytest.mark.parametrize("cuts", [(24,), (8, 8, 8), (5, 1, 11, 7)])
def test_minibatch_borders_make_no_difference(cuts):
    n, rows = 4, 2
    factors = np.random.default_rng(0).uniform(0.3, 1.2, (24, rows)).astype(np.float32)
    factors[9, 0] = 0.0  # an episode ends there
    state = emphatic.initial(n, rows)
    collected, at = [], 0
    for length in cuts:
        traces, state = emphatic.emphatic(factors[at : at + length], state)
        collected.append(np.asarray(traces))
        at += length
    for row in range(rows):
        expected = offline_rl.emphatic_traces(factors[:, row].astype(float), n)
        np.testing.assert_allclose(
            np.concatenate(collected)[:, row], expected, rtol=1e-5
        )


def test_a_new_episode_starts_at_one():
    n = 3
    factors = np.ones((12, 1), np.float32)
    factors[5] = 0.0
    traces, _ = emphatic.emphatic(factors, emphatic.initial(n, 1))
    # Steps 6 to 8 are the first three of the new episode.
    np.testing.assert_array_equal(traces[:, 0], [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2])
