"""A whole action, drawn in two parts: function and delay first, the other arguments given these.

In: a policy's logits of function and delay, and its way to draw the rest. Out: actions. All policies
share this order, so that an agent may take the parts from two networks.
"""

from typing import Generic, Protocol, TypeVar

import jax

from starmill.learners.networks import layers, scoring, temperatures
from starmill.learners.networks.scoring import Action
from starmill.learners.networks.temperatures import Temperature


class HasVector(Protocol):
    """What every network's latent has."""

    @property
    def vector(self) -> jax.Array:
        """Returns the latent of the whole observation, [F, D]."""


LatentT = TypeVar("LatentT", bound=HasVector)


class Sampler(Generic[LatentT]):
    """What a policy inherits; it defines the three methods that raise here."""

    def function_logits(self, vector: jax.Array) -> jax.Array:
        """Returns the logits of functions for latents [..., D]."""
        raise NotImplementedError

    def delay_logits(self, vector: jax.Array, function: jax.Array) -> jax.Array:
        """Returns the logits of delays given functions [...]; index i is delay i + 1."""
        raise NotImplementedError

    def sample_rest(
        self,
        latent: LatentT,
        function: jax.Array,
        delay: jax.Array,
        key: jax.Array,
        temperature: Temperature = 1.0,
    ) -> Action:
        """Samples the other five arguments given function and delay [F].

        As in recorded actions, arguments that the function does not take are 0, and unused
        slots of unit_tags hold the end marker (0 for no_op).
        """
        raise NotImplementedError

    def sample_function_delay(
        self,
        vector: jax.Array,
        key: jax.Array,
        temperature: Temperature,
        legal: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array]:
        """Samples function and delay from latents [..., D]; both int32 [...].

        `legal` [..., functions] says which functions may be drawn; None for all.
        """
        first, second = jax.random.split(key)
        each = temperatures.of(temperature)
        logits = scoring.legal_only(self.function_logits(vector), legal)
        function = layers.choose(first, logits, each.function)
        index = layers.choose(second, self.delay_logits(vector, function), each.delay)
        return function, index + 1

    def sample(
        self, latent: LatentT, key: jax.Array, temperature: Temperature = 1.0
    ) -> Action:
        """Samples a whole action, int32 arrays [F] (unit_tags [F, S])."""
        first, second = jax.random.split(key)
        function, delay = self.sample_function_delay(
            latent.vector, first, temperature, scoring.legal_functions(latent)
        )
        return self.sample_rest(latent, function, delay, second, temperature)
