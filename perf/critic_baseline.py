"""The critic beside boosted trees and a linear model, on the same games and folds, in one run.

    .venv/bin/python -m perf.critic_baseline DATASET [--seed N]

In: a dataset's training games. Out: a table of errors by minute of the game. The trees learn from all
other folds at once, and need no fold to stop on; their numbers were chosen on other games.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from starmill.learners.critic import calibration, cross_fit, inputs
from starmill.learners.critic.inputs import Steps
from starmill.schema.loader import dataset


def trees() -> Any:
    """Returns boosted trees that were held back for some hundred games."""
    return HistGradientBoostingRegressor(
        max_iter=80,
        learning_rate=0.05,
        max_leaf_nodes=8,
        min_samples_leaf=200,
        l2_regularization=10,
        random_state=0,
    )


def ridge() -> Any:
    """Returns a linear model."""
    return make_pipeline(StandardScaler(), Ridge(3000))


def cross_fitted(
    steps: Steps, fold: NDArray[np.int64], make: Callable[[], Any], seed: int
) -> NDArray[np.float32]:
    """Returns the values of all steps, of models of scikit-learn that did not see their games."""
    rows, where = cross_fit.chosen_steps(steps, seed), fold[steps.game]
    values = np.zeros(len(where), np.float32)
    for held in range(int(fold.max()) + 1):
        learn, unseen = rows[where[rows] != held], where == held
        model = make().fit(steps.inputs[learn], steps.outcome[learn])
        values[unseen] = np.clip(model.predict(steps.inputs[unseen]), -1, 1)
    return values


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    data = dataset.open_dataset(args.dataset).filter(split="train")
    steps = inputs.read(data)
    games = sorted(set(data.table.column("replay_id").to_pylist()))
    fold = cross_fit.folds(games)
    print(f"{len(games)} games, {len(steps.loop):,} steps of {data.reference}")
    # As many steps of each episode are compared as are learned from.
    rows = cross_fit.chosen_steps(steps, args.seed)
    measured = {}
    for name, values_of in (
        ("critic", lambda: cross_fit.cross_fit(steps, fold, seed=args.seed).values),
        ("boosted trees", lambda: cross_fitted(steps, fold, trees, args.seed)),
        ("ridge", lambda: cross_fitted(steps, fold, ridge, args.seed)),
    ):
        began = time.process_time()
        values = values_of()
        measured[name] = calibration.measure(
            values[rows], steps.outcome[rows], steps.loop[rows]
        )
        print(f"{name}: {time.process_time() - began:.0f} CPU seconds")
    print("\n".join(calibration.table_lines(measured)))


if __name__ == "__main__":
    main()
