"""Sampled MuZero search when acting: a better function and delay from the latent model.

In: a `Model` as three functions over latents, and root latents [B, D]. Out: one action for each
root. The tree acts on K slots. Each node's embedding says what its slots mean, so plain mctx can
search an action space of any size (Hubert et al. 2021).

The search decides between functions; each comes with one delay. Samples of the same function are one
slot whose prior is their number, so that the priors are those of the policy that acts without a
search. Values are weighed on the fixed scale from a loss to a win:

    improved policy = softmax(log prior + scale * (Q - LOSS) / (WIN - LOSS))

where `scale` is mctx's, 5 before any visit. A difference in Q of 1, half of what can be at stake, thus
weighs as much as a prior 12 times as high, and differences that are noise weigh nothing. The action
is a sample of this policy. Where Q does not differ, it is a sample of the policy itself.
Paper: "MuZero Supervised with MCTS at inference time": 20 sampled actions.
Departs: mctx rescales the Q of each node to [0, 1] from the lowest to the highest, which makes any
difference decisive; and it takes the best action, which turns a policy into its likeliest action.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx

from starmill.learners.networks import layers, scoring, temperatures
from starmill.learners.networks.parameters import AnyNetwork
from starmill.learners.networks.temperatures import Temperature
from starmill.schema import errors

Actions = Any  # a pytree of arrays, [B, ...] or [B, K, ...]
# Outcomes, between which all values lie. Predicted ones are cut to this range.
LOSS, WIN = -1.0, 1.0
# mctx's weight of a value on a scale of length 1, for each of 50 visits and more.
_VALUE_SCALE = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """How large a search is.

    Attributes:
        actions: K, the actions sampled at each node (paper: 20).
        simulations: of each search.
        depth: the tree's greatest depth; None to let the simulations alone limit it.
        noise: 1 to sample the improved policy, 0 to take its likeliest action.
    """

    actions: int = 20
    simulations: int = 32
    depth: int | None = None
    noise: float = 1.0

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
        sample: (key, hidden, k) -> k actions [B, k, ...] from the policy, and a label of
            each, int32 [B, k]. Actions of the same label are merged into the first of them.
        value: (hidden) -> [B], from LOSS to WIN.
        step: (hidden, action) -> the next hidden, the reward [B] and the discount [B].
    """

    sample: Callable[[jax.Array, Any, int], tuple[Actions, jax.Array]]
    value: Callable[[Any], jax.Array]
    step: Callable[[Any, Actions], tuple[Any, jax.Array, jax.Array]]


class Hidden(NamedTuple):
    """What a network's model knows of B states.

    Attributes:
        vector: latents, [B, D].
        legal: bool [B, functions], which functions may be used; None for all. It is known of
            roots; after an action, all may.
    """

    vector: jax.Array
    legal: jax.Array | None = None


class Result(NamedTuple):
    """What a search finds.

    Attributes:
        action: the best action of each root, [B, ...].
        actions: the actions that were sampled at the root, [B, K, ...].
        priors: how likely the policy finds each, [B, K]: the share of its label in the samples,
            and 0 for slots that were merged into another.
        weights: how likely the improved policy finds each, [B, K].
    """

    action: Actions
    actions: Actions
    priors: jax.Array
    weights: jax.Array


def search(key: jax.Array, hidden: Any, model: Model, config: SearchConfig) -> Result:
    """Returns the action that a sampled MuZero search prefers at each root."""
    root_key, search_key = jax.random.split(key)

    def expand(key: jax.Array, hidden: Any) -> tuple[Actions, jax.Array]:
        actions, labels = model.sample(key, hidden, config.actions)
        return actions, merged_priors(labels)

    def value(hidden: Any) -> jax.Array:
        return jnp.clip(model.value(hidden), LOSS, WIN)

    actions, priors = expand(root_key, hidden)
    root = mctx.RootFnOutput(
        prior_logits=_logits(priors), value=value(hidden), embedding=(hidden, actions)
    )

    def recurrent(
        _: None, key: jax.Array, slot: jax.Array, embedding: Any
    ) -> tuple[mctx.RecurrentFnOutput, Any]:
        hidden, actions = embedding
        hidden, reward, discount = model.step(hidden, _pick(actions, slot))
        actions, priors = expand(key, hidden)
        output = mctx.RecurrentFnOutput(
            reward=reward,
            discount=discount,
            prior_logits=_logits(priors),
            value=value(hidden),
        )
        return output, (hidden, actions)

    output = mctx.gumbel_muzero_policy(
        None,
        search_key,
        root,
        recurrent,
        num_simulations=config.simulations,
        invalid_actions=priors == 0,
        max_depth=config.depth,
        qtransform=functools.partial(
            mctx.qtransform_completed_by_mix_value,
            rescale_values=False,
            value_scale=_VALUE_SCALE / (WIN - LOSS),
        ),
        max_num_considered_actions=config.actions,
        gumbel_scale=config.noise,
    )
    return Result(_pick(actions, output.action), actions, priors, output.action_weights)


def merged_priors(labels: jax.Array) -> jax.Array:
    """Returns each label's share of the samples [B, K] in its first slot; 0 in the others."""
    same = labels[:, :, None] == labels[:, None, :]
    before = jnp.tril(jnp.ones(same.shape[1:], bool), k=-1)
    is_first = ~(same & before).any(-1)
    return jnp.where(is_first, same.mean(-1), 0.0)


def _logits(priors: jax.Array) -> jax.Array:
    return jnp.where(priors > 0, jnp.log(jnp.maximum(priors, 1e-9)), layers.MASKED)


def network_model(network: AnyNetwork, temperature: Temperature) -> Model:
    """Returns the model of a network with a latent model; actions are (function, delay).

    The policy is the one that acts without a search, at the same temperature. Rewards within a
    search are 0 and nothing is discounted, as in the targets that `muzero` trains on.
    """
    heads, each = network.policy, temperatures.of(temperature)

    def sample(key: jax.Array, hidden: Hidden, k: int) -> tuple[Actions, jax.Array]:
        first, second = jax.random.split(key)
        vector = hidden.vector
        logits = scoring.legal_only(heads.function_logits(vector), hidden.legal)
        function = layers.choose_many(first, logits / each.function, k)
        delays = heads.delay_logits(vector[:, None], function)
        delay = layers.choose_many(second, delays / each.delay, 1)
        return (function, delay[..., 0] + 1), function

    def step(hidden: Hidden, action: Actions) -> tuple[Hidden, jax.Array, jax.Array]:
        vector = network.dynamics(heads.embed(hidden.vector, *action))
        legal = None if hidden.legal is None else jnp.ones_like(hidden.legal)
        return Hidden(vector, legal), jnp.zeros(len(vector)), jnp.ones(len(vector))

    def value(hidden: Hidden) -> jax.Array:
        return network.value(hidden.vector)

    return Model(sample, value, step)


def _pick(actions: Actions, slot: jax.Array) -> Actions:
    return jax.tree.map(lambda leaf: leaf[jnp.arange(len(slot)), slot], actions)
