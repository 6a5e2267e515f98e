"""An `Environment` behind Gymnasium's interface.

In and out: the same arrays as `environment.Environment`. Gymnasium is optional: only this
module imports it.
"""

from typing import Any

import gymnasium
import numpy as np
from dm_env import specs as dm_specs
from gymnasium import spaces

from starmill.benchmark.games.environment import Environment
from starmill.schema.episode import Arrays


class GymnasiumEnvironment(gymnasium.Env[dict[str, Any], dict[str, Any]]):
    """Wraps an environment, and closes it when closed.

    A game that its time limit cut short is truncated; every other ending terminates it.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.observation_space = _observation_space(environment.observation_spec())
        self.action_space = _action_space(environment.action_spec())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Arrays, dict[str, Any]]:
        """Starts a game; see `Environment.reset`. There are no options."""
        super().reset(seed=seed)
        return self._environment.reset(seed=seed).observation, {}

    def step(self, action: Arrays) -> tuple[Arrays, float, bool, bool, dict[str, Any]]:
        """Acts; returns observation, reward, terminated, truncated and an empty dict."""
        step = self._environment.step(action)
        truncated = step.last() and step.discount > 0
        terminated = step.last() and not truncated
        return step.observation, step.reward, terminated, truncated, {}

    def close(self) -> None:
        """Closes the environment."""
        self._environment.close()


def _observation_space(described: dict[str, dm_specs.Array]) -> spaces.Dict:
    boxes: dict[str, gymnasium.Space[Any]] = {}
    for key, spec in described.items():
        low, high = np.iinfo(spec.dtype).min, np.iinfo(spec.dtype).max
        if isinstance(spec, dm_specs.BoundedArray):
            low, high = spec.minimum.item(), spec.maximum.item()
        boxes[key] = spaces.Box(low, high, spec.shape, spec.dtype)
    return spaces.Dict(boxes)


def _action_space(described: dict[str, dm_specs.BoundedArray]) -> spaces.Dict:
    choices: dict[str, gymnasium.Space[Any]] = {}
    for key, spec in described.items():
        low, high = spec.minimum.item(), spec.maximum.item()
        if spec.shape:
            count = np.full(spec.shape, high - low + 1)
            choices[key] = spaces.MultiDiscrete(
                count, spec.dtype, start=np.full(spec.shape, low)
            )
        else:
            choices[key] = spaces.Discrete(high - low + 1, start=low)
    return spaces.Dict(choices)
