"""Sampled MuZero search when acting: a better function and delay from the latent model.

In: a `Model` as three functions over latents, and root latents [B, D]. Out: one action for each
root. The tree acts on K slots. Each node's embedding says what its slots mean, so plain mctx can
search an action space of any size (Hubert et al. 2021).
Paper: "MuZero Supervised with MCTS at inference time": 20 sampled actions.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx

from starmill.learners.networks import layers
from starmill.learners.networks.network import Network
from starmill.schema import errors

Actions = Any  # a pytree of arrays, [B, ...] or [B, K, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """How large a search is.

    Attributes:
        actions: K, the actions sampled at each node (paper: 20).
        simulations: of each search.
        depth: the tree's greatest depth; None to let the simulations alone limit it.
    """

    actions: int = 20
    simulations: int = 32
    depth: int | None = None

    def __post_init__(self) -> None:
        """Checks ranges."""
        if self.actions < 1 or self.simulations < 1:
            raise errors.ConfigError(
                "search: actions and simulations must be at least 1, found "
                f"{self.actions} and {self.simulations}"
            )


class Model(NamedTuple):
    """What a search knows of the game.

    Attributes:
        sample: (key, hidden, k) -> k actions [B, k, ...] from the proposal beta, and
            log(pi / beta) of each, [B, k].
        value: (hidden) -> [B].
        step: (hidden, action) -> the next hidden, the reward [B] and the discount [B].
    """

    sample: Callable[[jax.Array, jax.Array, int], tuple[Actions, jax.Array]]
    value: Callable[[jax.Array], jax.Array]
    step: Callable[[jax.Array, Actions], tuple[jax.Array, jax.Array, jax.Array]]


class Result(NamedTuple):
    """What a search finds.

    Attributes:
        action: the best action of each root, [B, ...].
        actions: the actions that were sampled at the root, [B, K, ...].
        weights: how likely the improved policy finds them, [B, K].
    """

    action: Actions
    actions: Actions
    weights: jax.Array


def search(
    key: jax.Array, hidden: jax.Array, model: Model, config: SearchConfig
) -> Result:
    """Returns the action that a sampled MuZero search prefers at each root."""
    root_key, search_key = jax.random.split(key)

    def expand(key: jax.Array, hidden: jax.Array) -> tuple[Actions, jax.Array]:
        actions, log_ratio = model.sample(key, hidden, config.actions)
        return actions, log_ratio - jnp.log(config.actions)

    actions, prior = expand(root_key, hidden)
    root = mctx.RootFnOutput(
        prior_logits=prior, value=model.value(hidden), embedding=(hidden, actions)
    )

    def recurrent(
        _: None, key: jax.Array, slot: jax.Array, embedding: Any
    ) -> tuple[mctx.RecurrentFnOutput, Any]:
        hidden, actions = embedding
        hidden, reward, discount = model.step(hidden, _pick(actions, slot))
        actions, prior = expand(key, hidden)
        output = mctx.RecurrentFnOutput(
            reward=reward,
            discount=discount,
            prior_logits=prior,
            value=model.value(hidden),
        )
        return output, (hidden, actions)

    output = mctx.gumbel_muzero_policy(
        None,
        search_key,
        root,
        recurrent,
        num_simulations=config.simulations,
        max_depth=config.depth,
        max_num_considered_actions=config.actions,
        # The slots are samples already, and noise on top would sample twice.
        gumbel_scale=0.0,
    )
    return Result(_pick(actions, output.action), actions, output.action_weights)


def network_model(network: Network, temperature: jax.Array | float) -> Model:
    """Returns the model of a network with a latent model; actions are (function, delay).

    Proposals are drawn at `temperature`. Rewards within a search are 0 and nothing is
    discounted, as in the targets that `muzero` trains on.
    """
    heads = network.policy

    def sample(key: jax.Array, hidden: jax.Array, k: int) -> tuple[Actions, jax.Array]:
        first, second = jax.random.split(key)
        logits = heads.function_logits(hidden)
        function = layers.choose_many(first, logits / temperature, k)
        ratio = jax.nn.log_softmax(logits) - jax.nn.log_softmax(logits / temperature)
        delays = heads.delay_logits(hidden[:, None], function)
        delay_ratio = jax.nn.log_softmax(delays)
        delay_ratio -= jax.nn.log_softmax(delays / temperature)
        delay = layers.choose_many(second, delays / temperature, 1)
        log_ratio = jnp.take_along_axis(ratio, function, axis=-1)
        log_ratio += jnp.take_along_axis(delay_ratio, delay, axis=-1)[..., 0]
        return (function, delay[..., 0] + 1), log_ratio

    def step(
        hidden: jax.Array, action: Actions
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        hidden = network.dynamics(heads.embed(hidden, *action))
        return hidden, jnp.zeros(len(hidden)), jnp.ones(len(hidden))

    return Model(sample, network.value, step)


def _pick(actions: Actions, slot: jax.Array) -> Actions:
    return jax.tree.map(lambda leaf: leaf[jnp.arange(len(slot)), slot], actions)
