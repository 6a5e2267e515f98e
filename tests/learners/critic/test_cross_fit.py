"""Values come from models that did not see the game, whatever is in it."""

import numpy as np
import pytest

from starmill.learners.critic import cross_fit
from starmill.learners.critic.inputs import Steps
from starmill.learners.critic.model import ModelConfig
from starmill.schema import errors

CONFIG = ModelConfig(hidden=4, updates=5, looks=4, batch_size=32, learning_rate=1e-2)
GAMES, LENGTH = 12, 50


def _steps(outcomes):
    """Games of which each has an input of its own, and one input that tells the outcome."""
    rng = np.random.default_rng(1)
    game = np.repeat(np.arange(GAMES), LENGTH).astype(np.int32)
    inputs = np.zeros((len(game), GAMES + 1), np.float32)
    inputs[np.arange(len(game)), game] = 1
    inputs[:, -1] = outcomes[game] + rng.normal(size=len(game))
    return Steps(
        inputs=inputs,
        outcome=outcomes[game].astype(np.float32),
        loop=np.tile(np.arange(LENGTH), GAMES).astype(np.int32),
        episode=game,
        game=game,
        starts=np.arange(GAMES + 1) * LENGTH,
    )


OUTCOMES = np.array([1, -1] * (GAMES // 2))
FOLD = np.arange(GAMES) % 3


def test_the_outcome_of_a_game_does_not_change_its_values():
    before = cross_fit.cross_fit(_steps(OUTCOMES), FOLD, CONFIG).values
    changed = _steps(OUTCOMES)
    outcome = changed.outcome.copy()
    outcome[changed.game == 4] *= -1
    after = cross_fit.cross_fit(changed._replace(outcome=outcome), FOLD, CONFIG).values
    same_fold = FOLD[changed.game] == FOLD[4]
    np.testing.assert_array_equal(before[same_fold], after[same_fold])
    assert np.abs(before[~same_fold] - after[~same_fold]).max() > 1e-4


def test_values_know_something():
    steps = _steps(OUTCOMES)
    result = cross_fit.cross_fit(steps, FOLD, CONFIG)
    assert len(result.looks) == len(result.models) == 3
    right = np.sign(result.values) == steps.outcome
    assert right.mean() > 0.65


def test_folds_depend_on_the_id_alone():
    names = [f"{number:064x}" for number in range(200)]
    fold = cross_fit.folds(names)
    np.testing.assert_array_equal(cross_fit.folds(names[::-1]), fold[::-1])
    assert np.bincount(fold, minlength=5).min() > 20


def test_steps_to_learn_from_are_few_of_each_episode():
    rows = cross_fit.chosen_steps(_steps(OUTCOMES), seed=0)
    counts = np.bincount(rows // LENGTH)
    assert (counts == cross_fit.PER_EPISODE).all()
    assert len(set(rows.tolist())) == len(rows)


def test_empty_folds_are_refused():
    with pytest.raises(errors.ConfigError, match="at least 3 folds"):
        cross_fit.cross_fit(_steps(OUTCOMES), FOLD % 2, CONFIG)
