"""A published architecture with the paper's additions: a value, memory, Q and a latent model.

In: frames [F, ...] as `rollouts` gives them. Out: a `PublishedLatent`, from which the policy
chooses actions and the value head predicts the outcome. It has the methods of `network.Network`, so
algorithms take either. The names of the attributes are the paths of arrays in checkpoints; those
below `published` are the published network's.
Paper: "the exact hyperparameters and details" are those of its published code; the value head is
from section "Behavior cloning", the latent model from "MuZero latent model".
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners import rollouts
from starmill.learners.networks import memory
from starmill.learners.networks.additions import Additions
from starmill.learners.networks.published import layers, network, sizes
from starmill.learners.networks.published.sizes import Sizes
from starmill.learners.networks.published_policy import PublishedLatent, PublishedPolicy
from starmill.learners.networks.streams import RETURNS
from starmill.learners.rollouts import Batch
from starmill.schema import errors, specs
from starmill.schema.settings import UNPLUGGED, ConverterSettings

ARCHITECTURES = {"lite": sizes.LITE, "full": sizes.FULL}
# The inputs by which a frame knows the previous action, and the arguments they are.
_PREVIOUS = {f"prev_{name}": name for name in network.SCALARS}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedConfig(Additions):
    """Which published architecture it is; its sizes are fixed.

    Attributes:
        architecture: "lite" or "full".
        memory: as in `Additions`; the published network has none.
        memory_length: as in `Additions`.
        condition_return: as in `Additions`.
        action_values: as in `Additions`.
        latent_model: as in `Additions`.
        compute: as in `Additions`.
        remat: as in `Additions`.
    """

    architecture: str

    def _problems(self) -> list[str]:
        problems = super()._problems()
        if self.architecture not in ARCHITECTURES:
            problems.append(
                f"architecture: expected one of {list(ARCHITECTURES)}, "
                f"found {self.architecture!r}"
            )
        return problems

    @property
    def sizes(self) -> Sizes:
        """Returns the architecture's sizes."""
        return ARCHITECTURES[self.architecture]


class LatentModel(nnx.Module):
    """MuZero's L: the latent after an action, given the latent that holds it already.

    Departs: the paper embeds the full action at the root, and function and delay below it. Here
    both have the heads' embeddings of function and delay, so that training and search agree.
    """

    def __init__(self, size: int, *, rngs: nnx.Rngs) -> None:
        self.resnet = layers.Resnet(size, 2, hidden=2 * size, rngs=rngs)

    def __call__(self, embedded: jax.Array) -> jax.Array:
        """Returns the next latent, given one to which function and delay were added."""
        return self.resnet(embedded)


class PublishedNetwork(nnx.Module):
    """The published network, memory, value, and the parts that some algorithms add."""

    def __init__(
        self,
        config: PublishedConfig,
        settings: ConverterSettings,
        *,
        rngs: nnx.Rngs,
    ) -> None:
        _check(config, settings)
        self.config = config
        size = config.sizes.vector
        self.published = network.Network(config.sizes, rngs=rngs)
        self.memory = memory.build(config.memory, size, config.memory_length, rngs=rngs)
        self.value_head = layers.Layers(size, size, 1, rngs=rngs)
        if config.condition_return:
            self.target_return = layers.embedding(RETURNS, size, rngs=rngs)
        if config.action_values:
            count = settings.num_action_types
            self.action_value_head = layers.Layers(size, size, count, rngs=rngs)
        if config.latent_model:
            self.dynamics = LatentModel(size, rngs=rngs)

    @property
    def policy(self) -> PublishedPolicy:
        """Returns the heads of the seven arguments."""
        return PublishedPolicy(self.published)

    def encode(self, frames: Batch) -> PublishedLatent:
        """Returns the latent of frames, each on its own; memory is not applied."""
        observation = {**frames, "raw_units": frames["units"]}
        previous = {name: frames[key] for key, name in _PREVIOUS.items()}
        step_type = frames["step_type"]
        extra = None
        if self.config.condition_return:
            extra = self.target_return(frames["target_return"])
        streams = self.published.encode(observation, previous, step_type, extra)
        conditions = network.conditions(observation, step_type)
        # The heads compute in single precision whatever the streams were encoded in.
        vector, units, planes = jax.tree.map(
            lambda leaf: leaf.astype(jnp.float32), tuple(streams)
        )
        return PublishedLatent(vector, units, planes, conditions)

    def unroll(
        self, batch: Batch, state: memory.State | None = None
    ) -> tuple[PublishedLatent, memory.State]:
        """Returns the latent of rollouts [B, K, ...] as frames [B * K, ...], with memory.

        `state` is the memory before the rollout. Without one, it is what the steps in
        `batch["past"]` leave in an empty memory; no gradient flows into them. The memory after
        the rollout is returned too.
        """
        latent = self.encode(rollouts.flatten(batch))
        if state is None and "past" in batch and self.config.memory != "none":
            empty = self.memory.initial(len(batch["game_loop"]))
            _, state = self.unroll(batch["past"], empty)
            state = jax.lax.stop_gradient(state)
        vector, state = memory.remember(
            self.memory, latent.vector, batch["step_type"], state
        )
        return latent._replace(vector=vector), state

    def value(self, vector: jax.Array) -> jax.Array:
        """Returns the expected outcome of latents [..., D], shape [...]."""
        return self.value_head(vector)[..., 0]

    def action_values(self, vector: jax.Array) -> jax.Array:
        """Returns Q(s, function), [..., functions]."""
        return self.action_value_head(vector)


def _check(config: PublishedConfig, settings: ConverterSettings) -> None:
    expected, given = specs.episode_specs(UNPLUGGED), specs.episode_specs(settings)
    wrong = [
        name
        for name in sorted({*expected, *given})
        if name not in expected
        or name not in given
        or expected[name].shape != given[name].shape
        or expected[name].maximum != given[name].maximum
    ]
    if wrong:
        raise errors.ConfigError(
            f"network: {config.architecture} is a published architecture and takes the "
            f"arrays of the paper's converter settings; these differ: {wrong[:8]}. Use "
            "--preset tiny for other settings"
        )
