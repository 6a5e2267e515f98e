"""The published `dummy`: eleven numbers of the player decide every argument, each by itself.

In: an observation and a teacher's action. Out: `Output`, in which nothing is masked. It serves to
test what is around a network; nobody should train it.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.networks.published import layers, sizes
from starmill.learners.networks.published.network import SCALARS, Output, limited
from starmill.learners.networks.published.vector_encoder import Arrays, arguments_used

_WIDTH = 1024
# In the order of their creation, which the list of parameters has.
CLASSES = {
    **SCALARS,
    "unit_tags": sizes.UNITS + 1,
    "target_unit_tag": sizes.UNITS,
    "world": sizes.WORLD**2,
}


class Dummy(nnx.Module):
    """A linear layer, and one layer for each argument."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.player = layers.linear(sizes.PLAYER_NUMBERS, _WIDTH, rngs=rngs)
        self.heads = nnx.Dict(
            {
                name: layers.Layer(_WIDTH, count, rngs=rngs)
                for name, count in CLASSES.items()
            }
        )

    def __call__(
        self,
        observation: Arrays,
        previous: Arrays,
        step_type: jax.Array,
        action: Arrays,
    ) -> Output:
        """Returns the logits of every argument; the previous action has no effect."""
        latent = self.player(jnp.log1p(observation["player"].astype(jnp.float32)))
        logits = {name: self.heads[name](latent) for name in CLASSES}
        slots = (len(latent), sizes.SLOTS, CLASSES["unit_tags"])
        logits["unit_tags"] = jnp.broadcast_to(logits["unit_tags"][:, None], slots)
        action = limited(action)
        used = arguments_used(action["function"], step_type)
        return Output(logits, {}, action, used, latent)
