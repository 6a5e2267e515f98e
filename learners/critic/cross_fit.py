"""Values of steps from models that were not trained on the step's game.

In: `Steps`. Out: `Values`. Games are dealt into folds. The values of a fold's games are the mean of models
that were trained on all other folds. How long to train is measured beforehand: each of the other folds is
left out in turn and predicted. Such values cannot contain memorised noise of the game itself.
"""

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.learners.critic import features
from starmill.learners.critic.features import Features
from starmill.learners.critic.inputs import Steps
from starmill.learners.critic.model import Model, ModelConfig, errors_of_looks, fit
from starmill.schema import errors

FOLDS = 5
# Steps of each episode to train on: their neighbours add little.
PER_EPISODE = 40
# Models whose predictions are averaged. They differ in their random numbers.
MEMBERS = 4
# Steps whose features are computed together: each has thousands.
_TOGETHER = 8192


class Values(NamedTuple):
    """What cross-fitting gives.

    Attributes:
        values: float32 [S], the expected outcome of each step.
        features: of the steps, which the models take.
        looks: by fold, the number of looks after which its models were stopped.
        models: by fold, the models that gave its values.
    """

    values: NDArray[np.float32]
    features: Features
    looks: list[int]
    models: list[list[Model]]


def folds(replay_ids: list[str], count: int = FOLDS) -> NDArray[np.int64]:
    """Returns each game's fold, which depends on its id alone."""
    digests = [hashlib.sha256(f"critic 1:{name}".encode()) for name in replay_ids]
    places = [int.from_bytes(digest.digest()[:8], "big") for digest in digests]
    return np.array([place % count for place in places])


def chosen_steps(steps: Steps, seed: int) -> NDArray[np.int64]:
    """Returns the rows to train on: at most PER_EPISODE of each episode."""
    rng = np.random.default_rng(seed)
    rows = []
    for start, end in zip(steps.starts[:-1], steps.starts[1:], strict=True):
        count = min(PER_EPISODE, end - start)
        rows.append(start + np.sort(rng.choice(end - start, count, replace=False)))
    return np.concatenate(rows)


def cross_fit(
    steps: Steps,
    fold: NDArray[np.int64],
    config: ModelConfig | None = None,
    *,
    seed: int = 0,
) -> Values:
    """Returns the values of all steps; `fold` [games] is the fold of each game."""
    config = config or ModelConfig()
    count = int(fold.max()) + 1
    rows = chosen_steps(steps, seed)
    where = fold[steps.game]
    sizes = [int((where[rows] == k).sum()) for k in range(count)]
    if count < 3 or min(sizes) == 0:
        raise errors.ConfigError(
            f"critic: expected games in each of at least 3 folds, found steps {sizes}"
        )
    # The same features for all models, so that their updates are compiled once.
    # They depend on no outcomes.
    step_features = features.fit(steps.inputs[rows], steps.loop[rows], config.rare)
    inputs = step_features.of(steps.inputs[rows], steps.loop[rows])
    values = np.zeros(len(where), np.float32)
    looks, models = [], []

    def part(
        keep: NDArray[np.bool_],
    ) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        return inputs[keep], steps.outcome[rows[keep]]

    dealt = where[rows]
    for held in range(count):
        curves = [
            errors_of_looks(
                part((dealt != held) & (dealt != stop)),
                part(dealt == stop),
                config,
                seed,
            )
            for stop in range(count)
            if stop != held
        ]
        looks.append(int(np.mean(curves, axis=0).argmin()) + 1)
        members = [
            fit(part(dealt != held), config, seed * MEMBERS + member, looks[-1])
            for member in range(MEMBERS)
        ]
        unseen = np.flatnonzero(where == held)
        for start in range(0, len(unseen), _TOGETHER):
            now = unseen[start : start + _TOGETHER]
            seen = step_features.of(steps.inputs[now], steps.loop[now])
            values[now] = np.mean([model.values(seen) for model in members], axis=0)
        models.append(members)
    return Values(values, step_features, looks, models)
