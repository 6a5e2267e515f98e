"""An agent that plays at random, and the action that does nothing.

In: an observation as the dataset holds it. Out: a random action.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.schema import specs
from starmill.schema.episode import Arrays
from starmill.schema.settings import ConverterSettings

# raw_units' alliance: 1 own, 2 ally, 3 neutral, 4 enemy.
OWN, NEUTRAL, ENEMY = 1, 3, 4
COLUMN = {name: i for i, (name, _) in enumerate(specs.UNIT_COLUMNS)}


class RandomAgent:
    """Gives random commands to random units of its own: the weakest player of a ranking.

    It draws functions uniformly from those that the settings allow, so the game refuses most
    of its commands.
    """

    def __init__(
        self, settings: ConverterSettings, *, max_delay_loops: int = 24
    ) -> None:
        self._settings = settings
        self._specs = specs.action_specs(settings)
        self._max_delay_loops = max_delay_loops
        self._generator = np.random.default_rng(0)

    @property
    def settings(self) -> ConverterSettings:
        """Returns the settings of the observations that it expects."""
        return self._settings

    def reset(self, seed: int, race: str) -> None:
        """Begins a game; the race does not matter."""
        self._generator = np.random.default_rng(seed)

    def act(self, observation: Arrays) -> Arrays:
        """Returns a random function with random arguments."""
        draw = self._generator
        rows = np.flatnonzero(observation["raw_units"][:, COLUMN["alliance"]] == OWN)
        units = draw.permutation(rows)[: int(draw.integers(1, 5))]
        present = max(int((observation["raw_units"][:, 0] > 0).sum()), 1)
        action = no_op(self._specs, delay=int(draw.integers(1, self._max_delay_loops)))
        action["function"] = _scalar(draw.integers(0, self._settings.num_action_types))
        action["queued"] = _scalar(draw.integers(0, 2))
        action["unit_tags"][: len(units)] = units
        action["target_unit_tag"] = _scalar(draw.integers(0, present))
        action["world"] = _scalar(
            draw.integers(0, int(self._specs["world"].maximum or 0) + 1)  # type: ignore[arg-type]  # scalar spec
        )
        return action


def no_op(action_specs: dict[str, specs.ArraySpec], *, delay: int) -> Arrays:
    """Returns the action that does nothing for `delay` loops, with every argument present."""
    action = {
        key: np.zeros(spec.shape, spec.dtype) for key, spec in action_specs.items()
    }
    end = action_specs["target_unit_tag"].maximum
    action["unit_tags"][:] = (end if isinstance(end, int) else 0) + 1
    action["delay"] = _scalar(delay)
    return action


def _scalar(value: Any) -> NDArray[np.int32]:
    return np.asarray(value, np.int32)
