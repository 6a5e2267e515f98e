"""A small network from a step's inputs to the expected outcome, kept from memorising games.

In: inputs and outcomes of training steps. Out: a fitted `Model`, and its error on other games at regular
"looks" during training, which says when to stop. Five things keep it from memorising: it is small, it
ignores inputs that few steps have, inputs and hidden units are dropped at random, weights decay, and
training stops early.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from starmill.schema import errors

Weights = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """How a model is fitted.

    Attributes:
        hidden: units of the hidden layer.
        drop: the share of the inputs, and of the hidden units, dropped in each update.
        decay: of the weights, decoupled from the gradient.
        learning_rate: of Adam.
        batch_size: steps in an update.
        updates: updates between two looks at the error on other games.
        looks: the largest number of looks.
        rare: features that at most this share of the steps have, or lack, are ignored.
    """

    hidden: int = 32
    drop: float = 0.3
    decay: float = 0.1
    learning_rate: float = 1e-3
    batch_size: int = 256
    updates: int = 20
    looks: int = 12
    rare: float = 0.02

    def __post_init__(self) -> None:
        """Checks ranges."""
        problems = [
            f"{field.name}: expected at least 1, found {value}"
            for field in dataclasses.fields(self)
            if field.type is int and (value := getattr(self, field.name)) < 1
        ]
        if not 0 <= self.drop < 1:
            problems.append(f"drop: expected 0 or more and below 1, found {self.drop}")
        if problems:
            raise errors.ConfigError("critic: " + "; ".join(problems))


class Model(NamedTuple):
    """A fitted model.

    Attributes:
        mean: float32 [I], of the training inputs.
        scale: float32 [I], 1 / their deviation; 0 for inputs that never change.
        weights: of the two layers.
    """

    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    weights: dict[str, NDArray[np.float32]]

    def values(self, inputs: NDArray[Any]) -> NDArray[np.float32]:
        """Returns the expected outcome of each row [S], between -1 and 1."""
        x = np.clip((inputs - self.mean) * self.scale, -_FAR, _FAR)
        hidden = np.maximum(x @ self.weights["first"] + self.weights["first_bias"], 0)
        out = hidden @ self.weights["second"] + self.weights["second_bias"]
        return np.clip(out, -1, 1).astype(np.float32)


# Deviations beyond which an input counts as this far: types that few games have.
_FAR = 4.0


def errors_of_looks(
    train: tuple[NDArray[Any], NDArray[np.float32]],
    others: tuple[NDArray[Any], NDArray[np.float32]],
    config: ModelConfig,
    seed: int,
) -> NDArray[np.float64]:
    """Returns the mean squared error on other games at each look, [looks].

    Both are inputs [S, I], numbers or booleans, and outcomes [S].
    """
    squares = [
        np.square(model.values(others[0]) - others[1]).mean()
        for model in _looks(train, config, seed)
    ]
    return np.array(squares, np.float64)


def fit(
    train: tuple[NDArray[Any], NDArray[np.float32]],
    config: ModelConfig,
    seed: int,
    looks: int,
) -> Model:
    """Returns the model at a look, counted from 1."""
    *_, model = itertools.islice(_looks(train, config, seed), looks)
    return model


def _looks(
    train: tuple[NDArray[Any], NDArray[np.float32]],
    config: ModelConfig,
    seed: int,
) -> Iterator[Model]:
    """Yields the model at each look."""
    inputs, outcomes = train
    mean, deviation = inputs.mean(0), inputs.std(0)
    usual = (deviation > 0) & ((inputs > 0).mean(0) > config.rare)
    scale = np.where(usual, 1 / np.maximum(deviation, 1e-3), 0)
    rng = np.random.default_rng([seed, len(inputs)])
    weights: Weights = {
        "first": jnp.asarray(_normal(rng, inputs.shape[1], config.hidden)),
        "first_bias": jnp.zeros(config.hidden),
        "second": jnp.zeros(config.hidden),
        "second_bias": jnp.asarray(outcomes.mean()),
    }
    state = _optimizer(config).init(weights)
    key = jax.random.key(seed)
    for look in range(config.looks):
        rows = rng.integers(0, len(inputs), (config.updates, config.batch_size))
        scaled = np.clip((inputs[rows] - mean) * scale, -_FAR, _FAR)
        weights, state = _updates(
            weights,
            state,
            scaled.astype(np.float32),
            outcomes[rows],
            jax.random.fold_in(key, look),
            config,
        )
        arrays = {name: np.asarray(value) for name, value in weights.items()}
        yield Model(mean.astype(np.float32), scale.astype(np.float32), arrays)


def _normal(rng: np.random.Generator, inputs: int, hidden: int) -> NDArray[np.float32]:
    values = rng.standard_normal((inputs, hidden), np.float32)
    return values / np.float32(np.sqrt(max(1, inputs)))


@functools.cache
def _optimizer(config: ModelConfig) -> optax.GradientTransformation:
    return optax.adamw(config.learning_rate, weight_decay=config.decay)


@functools.partial(jax.jit, static_argnames="config")
def _updates(
    weights: Weights,
    state: optax.OptState,
    inputs: jax.Array,
    outcomes: jax.Array,
    key: jax.Array,
    config: ModelConfig,
) -> tuple[Weights, optax.OptState]:
    """Returns the weights after updates on batches [updates, B, I]."""

    def loss(weights: Weights, x: jax.Array, z: jax.Array, key: jax.Array) -> jax.Array:
        first, second = jax.random.split(key)
        x = _drop(first, x, config.drop)
        hidden = jax.nn.relu(x @ weights["first"] + weights["first_bias"])
        hidden = _drop(second, hidden, config.drop)
        value = hidden @ weights["second"] + weights["second_bias"]
        return jnp.square(value - z).mean()

    def step(
        now: tuple[Weights, optax.OptState], one: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[tuple[Weights, optax.OptState], None]:
        weights, state = now
        gradient = jax.grad(loss)(weights, *one)
        change, state = _optimizer(config).update(gradient, state, weights)
        return (optax.apply_updates(weights, change), state), None

    keys = jax.random.split(key, len(inputs))
    (weights, state), _ = jax.lax.scan(step, (weights, state), (inputs, outcomes, keys))
    return weights, state


def _drop(key: jax.Array, x: jax.Array, share: float) -> jax.Array:
    kept = jax.random.bernoulli(key, 1 - share, x.shape)
    return jnp.where(kept, x / (1 - share), 0)
