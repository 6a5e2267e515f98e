"""The memory of the vector stream: none, an LSTM, or a transformer over past steps.

In: latents of consecutive steps [K, B, D], which of them start an episode [K, B], and the state
after the steps before, whose arrays have B first. Out: the latents with memory added, and the
new state. The names of the attributes are the paths of arrays in checkpoints.
Paper: its reference agents have no memory; its section on memory compares the three.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.networks import layers

State = dict[str, jax.Array]
KINDS = ("none", "lstm", "transformer")


class NoMemory(nnx.Module):
    """Returns latents unchanged."""

    def initial(self, batch_size: int) -> State:
        """Returns the empty state."""
        return {}

    def __call__(
        self, x: jax.Array, first: jax.Array, state: State
    ) -> tuple[jax.Array, State]:
        """Returns its input."""
        return x, state


class LSTMMemory(nnx.Module):
    """One LSTM layer whose output is added to the stream. It is reset where an episode starts."""

    def __init__(self, size: int, *, rngs: nnx.Rngs) -> None:
        self.size = size
        self.gates = nnx.Linear(2 * size, 4 * size, rngs=rngs)

    def initial(self, batch_size: int) -> State:
        """Returns zero hidden and cell states, [B, D] each."""
        zero = jnp.zeros((batch_size, self.size), jnp.float32)
        return {"hidden": zero, "cell": zero}

    def __call__(
        self, x: jax.Array, first: jax.Array, state: State
    ) -> tuple[jax.Array, State]:
        """Returns x plus the LSTM's output, and the state after the last step."""

        def step(state: State, inputs: Any) -> tuple[State, jax.Array]:
            value, start = inputs
            state = jax.tree.map(lambda s: jnp.where(start[:, None], 0.0, s), state)
            gates = self.gates(jnp.concatenate([value, state["hidden"]], axis=-1))
            enter, forget, out, new = jnp.split(gates, 4, axis=-1)
            # The added 1 makes a fresh LSTM remember (Jozefowicz et al. 2015).
            cell = jax.nn.sigmoid(forget + 1.0) * state["cell"]
            cell += jax.nn.sigmoid(enter) * jnp.tanh(new)
            hidden = jax.nn.sigmoid(out) * jnp.tanh(cell)
            return {"hidden": hidden, "cell": cell}, hidden

        state, hidden = jax.lax.scan(step, state, (x, first))
        return x + hidden, state


class TransformerMemory(nnx.Module):
    """One transformer block over each step and the `length` steps before it in its episode.

    The state keeps latents, not keys, and no gradient flows into it (Transformer-XL).
    """

    def __init__(self, size: int, heads: int, length: int, *, rngs: nnx.Rngs) -> None:
        self.size, self.length = size, length
        self.norm = nnx.LayerNorm(size, rngs=rngs)
        self.attention = layers.Attention(size, heads, rngs=rngs)
        self.mlp = layers.Residual(size, 2 * size, rngs=rngs)
        self.age = nnx.Embed(length + 1, size, rngs=rngs)

    def initial(self, batch_size: int) -> State:
        """Returns an empty state: latents [B, L, D], and which of them are valid [B, L]."""
        shape = (batch_size, self.length)
        return {
            "past": jnp.zeros((*shape, self.size), jnp.float32),
            "valid": jnp.zeros(shape, bool),
        }

    def __call__(
        self, x: jax.Array, first: jax.Array, state: State
    ) -> tuple[jax.Array, State]:
        """Returns x plus its attention over the past, and the last L latents."""
        steps = len(x)
        past = jax.lax.stop_gradient(state["past"]).swapaxes(0, 1)
        was_valid = state["valid"].T
        line = jnp.concatenate([past, x])  # [L + K, B, D]
        valid = jnp.concatenate([was_valid, jnp.ones_like(first)])
        # Numbers the episodes of each row, so that steps of earlier ones can be masked.
        starts = jnp.concatenate([jnp.zeros_like(was_valid), first])
        episode = jnp.cumsum(starts, axis=0)
        index = jnp.arange(len(line))
        age = index[-steps:, None] - index[None, :]  # [K, L + K]
        near = (age >= 0) & (age <= self.length)
        same = episode[-steps:, None] == episode[None, :]  # [K, L + K, B]
        mask = (near[..., None] & same & valid[None]).transpose(2, 0, 1)
        query = self.norm(x).transpose(1, 0, 2)
        keys = self.norm(line).transpose(1, 0, 2)

        def one(query: jax.Array, mask: jax.Array, age: jax.Array) -> jax.Array:
            aged_keys = keys + self.age(jnp.clip(age, 0, self.length))
            return self.attention(query[:, None], aged_keys, mask[:, None])[:, 0]

        mixed = jax.vmap(one, in_axes=(1, 1, 0), out_axes=1)(query, mask, age)
        out = self.mlp(x + mixed.transpose(1, 0, 2))
        in_last_episode = valid & (episode == episode[-1])
        return out, {
            "past": line[-self.length :].swapaxes(0, 1),
            "valid": in_last_episode[-self.length :].T,
        }


Memory = NoMemory | LSTMMemory | TransformerMemory


def remember(
    memory: Memory, vector: jax.Array, step_type: jax.Array, state: State | None
) -> tuple[jax.Array, State]:
    """Returns latents [B * K, D] with memory added, and the state after them.

    `step_type` is [B, K]. `state` is the memory before the rollouts; None for an empty one.
    """
    if isinstance(memory, NoMemory):
        return vector, {} if state is None else state
    size, steps = step_type.shape
    line = vector.reshape(size, steps, -1).swapaxes(0, 1)
    state = memory.initial(size) if state is None else state
    remembered, state = memory(line, (step_type == 0).T, state)
    return remembered.swapaxes(0, 1).reshape(size * steps, -1), state


def build(kind: str, size: int, length: int, *, rngs: nnx.Rngs) -> Memory:
    """Returns the memory of a kind in KINDS."""
    if kind == "lstm":
        return LSTMMemory(size, rngs=rngs)
    if kind == "transformer":
        return TransformerMemory(size, 2, length, rngs=rngs)
    return NoMemory()
