"""Weights of steps in training, by function, so that chores do not drown out decisions.

In: how often each function is used. Out: a weight of each function, at most 1. Most steps of a game
are a few chores (gathering, rallying, moving the camera). A clone that matches their frequency
spends its capacity and its actions on them.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from starmill.schema import errors, vocab
from starmill.schema.episode import LAST
from starmill.schema.loader.dataset import Dataset

# Weights are written to the run's config, where digits beyond these would only be noise.
_DIGITS = 4


def count(data: Dataset) -> NDArray[np.int64]:
    """Returns how many steps use each function, [functions]; last steps are not trained on."""
    total = np.zeros(data.settings.num_action_types, np.int64)
    for episode in data:
        arrays = episode.read(keys=["action/function", "step_type"])
        used = arrays["action/function"][arrays["step_type"] != LAST]
        total += np.bincount(used, minlength=len(total))
    return total


def balanced(counts: NDArray[np.int64], share: float) -> dict[str, float]:
    """Returns weights by name under which no function has more than a share of all weight.

    Functions below the share keep a weight of 1 and are not listed. ConfigError if so few functions
    are used that some must have more.
    """
    used = int((counts > 0).sum())
    if not 0 < share <= 1 or share * used < 1:
        raise errors.ConfigError(
            f"balance {share}: expected a share of at most 1, and of at least 1/{used}, since "
            f"{used} functions are used"
        )
    descending = np.sort(counts)[::-1]
    rest = counts.sum()
    # With the k most frequent functions at the limit, all others have 1 - k * share of the weight.
    limit = 0.0
    for limited in range(used):
        # This ends: once the others together have at most a share, none of them exceeds the limit.
        limit = share * rest / (1 - limited * share)
        if descending[limited] <= limit:
            break
        rest -= descending[limited]
    names = [function.name for function in vocab.functions()]
    return {
        names[number]: round(float(limit / counts[number]), _DIGITS)
        for number in np.flatnonzero(counts > limit)
    }


def table(weights: Mapping[str, float], functions: int) -> NDArray[np.float32]:
    """Returns the weight of each function by id, [functions]; 1 for those that are not listed."""
    out = np.ones(functions, np.float32)
    for name, weight in weights.items():
        number = vocab.function_named(name).id
        if not 0 <= weight < np.inf:
            raise errors.ConfigError(
                f"step_weights: expected a weight of {name} of 0 or more, found {weight!r}"
            )
        # Settings with fewer functions than the game have no such steps.
        if number < functions:
            out[number] = weight
    return out
