"""The published network's heads as a policy: they score, sample and embed actions.

In: a `PublishedLatent` of F frames. Out: what `policy.Policy` gives for our own network, by methods
of the same names, so that algorithms and agents take either network.

Three things differ from the published code, all of them in acting alone. A delay is drawn from 1
to 127, because class 0 never occurs. An argument that the drawn function does not use is not drawn
but holds what recorded actions hold there, which is what training embeds. On an episode's first
step the arguments are embedded as on any other step; the published network embeds none there, and
is not trained there.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from starmill.learners.networks import layers, scoring, temperatures
from starmill.learners.networks.published import network, sizes
from starmill.learners.networks.published.network import Conditions
from starmill.learners.networks.published.torso import Streams
from starmill.learners.networks.published.unit_tags_head import MASKED
from starmill.learners.networks.published.vector_encoder import arguments_used
from starmill.learners.networks.sampler import Sampler
from starmill.learners.networks.scoring import ARGUMENTS, Action, Logits, Scores
from starmill.learners.networks.temperatures import Temperature

_MID = 1  # a step_type within an episode


class PublishedLatent(NamedTuple):
    """What the torso makes of F frames, and what the frames allow.

    Attributes:
        vector: [F, D]. This is also MuZero's latent space.
        units: [F, U, d].
        planes: [F, H, W, C] of each level, finest first.
        conditions: which choices are allowed.
    """

    vector: jax.Array
    units: jax.Array
    planes: tuple[jax.Array, jax.Array, jax.Array]
    conditions: Conditions


class PublishedPolicy(Sampler[PublishedLatent]):
    """The heads of the seven arguments. It has no parameters of its own."""

    def __init__(self, published: network.Network) -> None:
        self._network = published

    def function_logits(self, vector: jax.Array) -> jax.Array:
        """Returns the logits of `function` from latents [..., D]."""
        return self._network.scalars["function"].logits(vector)

    def delay_logits(self, vector: jax.Array, function: jax.Array) -> jax.Array:
        """Returns the logits of `delay` given the function; index 0 is a delay of 1."""
        return self._delay_logits(vector, function)[..., 1:]

    def embed(
        self, vector: jax.Array, function: jax.Array, delay: jax.Array
    ) -> jax.Array:
        """Returns the latent with function and delay merged into it, [..., D]."""
        vector = self._given("function", vector, function)
        return self._given("delay", vector, delay)

    def function_delay_log_probs(
        self, vector: jax.Array, action: Action, legal: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the log-probabilities of the given function and delay, [...] each."""

        def pick(logits: jax.Array, index: jax.Array) -> jax.Array:
            normal = jax.nn.log_softmax(logits)
            index = jnp.clip(index, 0, logits.shape[-1] - 1)
            return jnp.take_along_axis(normal, index[..., None], axis=-1)[..., 0]

        logits = scoring.legal_only(self.function_logits(vector), legal)
        function = pick(logits, action["function"])
        delays = self._delay_logits(vector, action["function"])
        return function, pick(delays, action["delay"])

    def logits(self, latent: PublishedLatent, action: Action) -> Logits:
        """Returns every argument's logits given the arguments before it in `action`."""
        return Logits(**self._teach(latent, action).logits)

    def score(self, latent: PublishedLatent, action: Action) -> Scores:
        """Returns how likely the policy finds a given action.

        On an episode's first step no argument exists, as in the published loss.
        """
        output = self._teach(latent, action)
        tags = output.action["unit_tags"]
        rows = latent.units.shape[1]
        given = {
            **output.action,
            "unit_tags": jnp.where(tags == sizes.END, rows, tags),
        }
        return scoring.score(Logits(**output.logits), given, output.used)

    def sample_rest(
        self,
        latent: PublishedLatent,
        function: jax.Array,
        delay: jax.Array,
        key: jax.Array,
        temperature: Temperature = 1.0,
    ) -> Action:
        """Samples the other five arguments given function and delay [F].

        As in recorded actions, arguments that the function does not take are 0, and unused
        slots of unit_tags hold the end marker (0 for no_op).
        """
        keys = jax.random.split(key, 5)
        each = temperatures.of(temperature)
        tag_keys = jax.random.split(keys[2], sizes.SLOTS)
        heads, conditions = self._network, latent.conditions
        present = self.present(function)
        action: Action = {"function": function, "delay": delay}
        vector = self.embed(latent.vector, function, delay)
        for name, subkey, warmth in (
            ("queued", keys[0], each.queued),
            ("repeat", keys[1], each.repeat),
        ):
            drawn = layers.choose(subkey, heads.scalars[name].logits(vector), warmth)
            action[name] = jnp.where(present[name], drawn, 0)
            vector = heads.scalars[name].given(vector, action[name], present[name])
        tags, selected = heads.unit_tags.draw(
            vector,
            latent.units,
            conditions.selectable,
            present["unit_tags"],
            lambda slot, logits: layers.choose(tag_keys[slot], logits, each.unit_tags),
        )
        # A recorded no_op has 0 in all slots, and so names the first row.
        is_no_op = (function == 0)[:, None]
        first_row = jnp.arange(selected.shape[1]) == 0
        selected = jnp.where(is_no_op, first_row, selected)
        action["unit_tags"] = jnp.where(is_no_op, 0, tags)
        vector, units = heads.unit_tags.given(vector, latent.units, selected)
        for name, subkey, warmth, mask, logits in (
            (
                "target_unit_tag",
                keys[3],
                each.target_unit_tag,
                network.targetable(conditions, function),
                heads.target.logits(vector, units),
            ),
            (
                "world",
                keys[4],
                each.world,
                network.reachable(conditions, function),
                heads.world.logits(vector, latent.planes),
            ),
        ):
            masked = jnp.where(mask, logits, MASKED)
            drawn = layers.choose(subkey, masked, warmth)
            action[name] = jnp.where(present[name], drawn, 0)
        return {name: action[name] for name in ARGUMENTS}

    def present(self, function: jax.Array) -> dict[str, jax.Array]:
        """Returns which arguments each of these functions takes, bool [...] by name."""
        return arguments_used(function, jnp.full_like(function, _MID))

    def _teach(self, latent: PublishedLatent, action: Action) -> network.Output:
        streams = Streams(latent.vector, latent.units, latent.planes)
        return self._network.teach(streams, latent.conditions, action)

    def _delay_logits(self, vector: jax.Array, function: jax.Array) -> jax.Array:
        given = self._given("function", vector, function)
        return self._network.scalars["delay"].logits(given)

    def _given(self, name: str, vector: jax.Array, choice: jax.Array) -> jax.Array:
        used = jnp.ones(choice.shape, bool)
        return self._network.scalars[name].given(vector, choice, used)
