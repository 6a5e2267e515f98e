"""Memory: step by step as in one call, forgotten between episodes, and an LSTM in numpy."""

import jax
import numpy as np
import pytest
from flax import nnx

from starmill.learners.networks import memory


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_memory_in_pieces_is_memory_at_once(kind):
    module = memory.build(kind, 6, 4, rngs=nnx.Rngs(0))
    rng = np.random.default_rng(1)
    x = rng.normal(size=(7, 2, 6)).astype(np.float32)
    first = np.zeros((7, 2), bool)
    first[0] = True
    first[4, 1] = True
    run = jax.jit(lambda x, first, state: module(x, first, state))
    whole, _ = run(x, first, module.initial(2))
    state, parts = module.initial(2), []
    for t in range(7):
        part, state = run(x[t : t + 1], first[t : t + 1], state)
        parts.append(part)
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=2e-4, atol=2e-5)
    # The row that starts an episode forgets the change; the other row does not.
    x[3, :, 0] += 1.0
    changed, _ = run(x, first, module.initial(2))
    np.testing.assert_allclose(changed[4:, 1], whole[4:, 1], rtol=2e-4, atol=2e-5)
    assert not np.allclose(changed[4, 0], whole[4, 0], atol=1e-4)


def test_the_lstm_is_the_textbooks():
    """One row in numpy, with the gates in the order enter, forget, out, new."""
    size, steps = 3, 5
    module = memory.build("lstm", size, 0, rngs=nnx.Rngs(2))
    x = np.random.default_rng(3).normal(size=(steps, 1, size)).astype(np.float32)
    first = np.zeros((steps, 1), bool)
    first[3] = True
    outputs, state = module(x, first, module.initial(1))
    kernel, bias = np.asarray(module.gates.kernel), np.asarray(module.gates.bias)

    def sigmoid(value):
        return 1 / (1 + np.exp(-value))

    hidden = cell = np.zeros(size)
    for t in range(steps):
        if first[t, 0]:
            hidden = cell = np.zeros(size)
        gates = np.concatenate([x[t, 0], hidden]) @ kernel + bias
        enter, forget, out, new = np.split(gates, 4)
        cell = sigmoid(forget + 1) * cell + sigmoid(enter) * np.tanh(new)
        hidden = sigmoid(out) * np.tanh(cell)
        np.testing.assert_allclose(outputs[t, 0], x[t, 0] + hidden, rtol=1e-4)
    np.testing.assert_allclose(state["cell"][0], cell, rtol=1e-4)


def test_the_transformer_forgets_what_is_too_old():
    length = 2
    module = memory.build("transformer", 4, length, rngs=nnx.Rngs(1))
    x = np.random.default_rng(0).normal(size=(6, 1, 4)).astype(np.float32)
    first = np.zeros((6, 1), bool)
    run = jax.jit(lambda x: module(x, first, module.initial(1))[0])
    before = run(x)
    x[1, 0, 0] += 1.0
    after = run(x)
    changed = ~np.isclose(before, after, atol=1e-6).all(-1)[:, 0]
    np.testing.assert_array_equal(changed, [0, 1, 1, 1, 0, 0])
