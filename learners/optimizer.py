"""The optimizer: Adam, its schedule, and clipping before or after it.

In: an `OptimizerConfig`, which counts in frames as the paper does. Out: an optax transformation, and
the learning rate of each update. After k frames it is

    rate(k) = rate0 / 2 * (cos(pi k / frames) + 1) * min(1, k / ramp_in)

Departs: the paper prints the schedule as rate0 / 2 cos(...) + 0.5, which does not end at 0.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from starmill.schema import errors

CLIPS = ("before", "after", "none")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """How parameters move. Defaults are those of the paper's behaviour cloning.

    Attributes:
        learning_rate: the schedule's highest rate (rate0).
        frames: over which the cosine falls to 0. Training stops there.
        ramp_in: frames of linear warm-up; 0 for none.
        b1: Adam's decay of the gradient's mean.
        b2: Adam's decay of its square's mean.
        eps: Adam's epsilon.
        clip: "before" Adam, on the gradient; "after" Adam, on its step before the rate is
            applied; or "none".
        clip_norm: the global norm to clip to.
        weight_decay: decoupled (AdamW). Behaviour cloning has a penalty in its loss instead.
    """

    learning_rate: float = 5e-4
    frames: int = 10**10
    ramp_in: int = 0
    b1: float = 0.9
    b2: float = 0.98
    eps: float = 1e-8
    clip: str = "before"
    clip_norm: float = 10.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        """Checks ranges."""
        problems = []
        if self.clip not in CLIPS:
            problems.append(f"clip: expected one of {CLIPS}, found {self.clip!r}")
        if self.frames < 1:
            problems.append(f"frames: expected at least 1, found {self.frames}")
        if self.ramp_in < 0:
            problems.append(f"ramp_in: expected 0 or more, found {self.ramp_in}")
        for name in ("learning_rate", "clip_norm"):
            if not getattr(self, name) > 0:
                problems.append(
                    f"{name}: must be positive, found {getattr(self, name)}"
                )
        if problems:
            raise errors.ConfigError("optim: " + "; ".join(problems))


def schedule(
    config: OptimizerConfig, frames_per_update: int
) -> Callable[[jax.Array | int], jax.Array]:
    """Returns the learning rate as a function of the update, counted from 0."""

    def rate(update: jax.Array | int) -> jax.Array:
        # Floats throughout: the paper's 1e10 frames do not fit in JAX's int32.
        seen = jnp.asarray(update, jnp.float32) * float(frames_per_update)
        done = jnp.clip(seen / float(config.frames), 0.0, 1.0)
        value = config.learning_rate / 2 * (jnp.cos(jnp.pi * done) + 1)
        if not config.ramp_in:
            return value
        return value * jnp.minimum(1.0, seen / float(config.ramp_in))

    return rate


def build(
    config: OptimizerConfig, frames_per_update: int
) -> optax.GradientTransformation:
    """Returns the transformation from gradients to what is added to the parameters."""
    adam = optax.scale_by_adam(config.b1, config.b2, config.eps)
    clip = optax.clip_by_global_norm(config.clip_norm)
    chain = {
        "before": [clip, adam],
        "after": [adam, clip],
        "none": [adam],
    }[config.clip]
    if config.weight_decay:
        chain.append(optax.add_decayed_weights(config.weight_decay))
    rate = schedule(config, frames_per_update)
    return optax.chain(*chain, optax.scale_by_learning_rate(rate))
