"""Features of steps: levels, leads over the usual at a time, and what is too rare."""

import numpy as np

from starmill.learners.critic import features


def _steps():
    """One input is a count, one grows with time, one is rare, and one never changes."""
    rng = np.random.default_rng(0)
    loop = np.sort(rng.integers(0, 12_000, 1200)).astype(np.int32)
    inputs = np.zeros((1200, 4), np.float32)
    inputs[:, 0] = rng.integers(0, 4, 1200)
    inputs[:, 1] = loop / 1000 + rng.choice([-0.5, 0.5], 1200)
    inputs[::100, 2] = 1
    inputs[:, 3] = 5
    return inputs, loop


def _features():
    return features.fit(*_steps(), rare=0.02)


def test_a_feature_says_that_its_input_is_above_its_level():
    inputs, loop = _steps()
    fitted = _features()
    own = fitted.column < inputs.shape[1]
    table = fitted.of(inputs, loop)
    assert table.dtype == bool
    for number in np.flatnonzero(own):
        expected = [row[fitted.column[number]] > fitted.level[number] for row in inputs]
        np.testing.assert_array_equal(table[:, number], expected)
    np.testing.assert_array_equal(fitted.level[fitted.column == 0], [0, 1, 2])


def test_a_lead_is_over_the_mean_of_its_span_of_time():
    inputs, loop = _steps()
    fitted = _features()
    table = fitted.of(inputs, loop)
    number = np.flatnonzero((fitted.column == 4 + 1) & (fitted.level == 0))[0]
    for row in range(0, len(loop), 50):
        span = sum(loop[row] >= end for end in fitted.ends)
        starts = [-np.inf, *fitted.ends]
        stops = [*fitted.ends, np.inf]
        same = (loop >= starts[span]) & (loop < stops[span])
        lead = inputs[row, 1] - inputs[same, 1].astype(np.float64).mean()
        assert table[row, number] == (lead > 0)
    # Whoever is ahead for the time has it at every time, and nobody else.
    ahead = inputs[:, 1] - loop / 1000 > 0
    assert (table[:, number] == ahead).mean() > 0.95


def test_features_that_few_steps_have_or_lack_are_left_out():
    inputs, loop = _steps()
    fitted = _features()
    share = fitted.of(inputs, loop).mean(0)
    assert ((share > 0.02) & (share < 0.98)).all()
    assert not set(fitted.column.tolist()) & {2, 3}
    with_rare = features.fit(inputs, loop, rare=0.005)
    assert 2 in with_rare.column


def test_steps_of_new_games_have_the_same_features():
    inputs, loop = _steps()
    fitted = _features()
    later = fitted.of(inputs[-7:], loop[-7:] + 90_000)
    assert later.shape == (7, len(fitted.level))
    assert fitted.of(inputs[:0], loop[:0]).shape == (0, len(fitted.level))
