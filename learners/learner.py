"""The compiled part of training: a state, and updates of it. It is the same for every algorithm.

In: a `Run`, and batches as `rollouts.prepare` makes them. Out: new states and metrics. Batches are
split over the devices along their first axis; parameters are on all of them.
Must not know: datasets and files.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec

from starmill.learners import optimizer
from starmill.learners.algorithms.contract import Carry, Metrics
from starmill.learners.networks.parameters import Params
from starmill.learners.rollouts import Batch
from starmill.learners.runs import Run
from starmill.schema import errors


class State(NamedTuple):
    """What changes from update to update. Checkpoints store the fields in this order.

    Attributes:
        params: the network's parameters.
        optimizer: optax's state.
        carry: what the algorithm keeps between updates.
    """

    params: Params
    optimizer: Any
    carry: Carry


class Learner:
    """Updates the state of one run, on all devices or the given number of them."""

    def __init__(self, run: Run, devices: int | None = None) -> None:
        self.run = run
        size = run.algorithm.batch_size
        available = jax.devices()
        count = len(available) if devices is None else devices
        if not 1 <= count <= len(available) or size % count:
            raise errors.ConfigError(
                f"devices: expected 1 to {len(available)}, and a divisor of the batch "
                f"size {size}; found {count}"
            )
        mesh = jax.sharding.Mesh(np.asarray(available[:count]), ("batch",))
        self._everywhere = NamedSharding(mesh, PartitionSpec())
        self._split = NamedSharding(mesh, PartitionSpec("batch"))
        self._optimizer = optimizer.build(run.optim, run.frames_per_update)
        self._algorithm = run.record.algorithm
        jit = functools.partial(jax.jit, out_shardings=self._everywhere)
        self._update = jit(self._whole_update)
        self._add = jit(self._add_gradient)
        self._apply = jit(self._apply_gradient)

    def init(self, start: Params | None = None) -> State:
        """Returns the first state, with the parameters in `start` or fresh ones."""
        params, carry = self._algorithm.init(self.run.seed, self.run.algorithm, start)
        return self.put_state(State(params, self._optimizer.init(params), carry))

    def put_state(self, state: State) -> State:
        """Returns the state on all devices."""
        return jax.device_put(state, self._everywhere)

    def put(self, batch: Batch) -> Batch:
        """Returns a batch split over the devices."""
        return jax.device_put(batch, self._split)

    def update(
        self, state: State, batches: list[Batch], number: int
    ) -> tuple[State, Metrics]:
        """Returns the state after one update, and the metrics' mean over its batches.

        The update's number decides the random keys. `gradient_norm` is that of the mean
        gradient, before clipping.
        """
        keys = jax.random.split(
            jax.random.fold_in(jax.random.key(self.run.seed), number), len(batches)
        )
        if len(batches) == 1:
            return self._update(state, self.put(batches[0]), keys[0])
        shapes = jax.eval_shape(self._gradient, state, batches[0], keys[0])
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        total: Any = (zeros[0], zeros[2])
        for batch, key in zip(batches, keys, strict=True):
            state, total = self._add(state, total, self.put(batch), key)
        gradient, metrics = jax.tree.map(lambda leaf: leaf / len(batches), total)
        state, norm = self._apply(state, gradient)
        return state, {**metrics, "gradient_norm": norm}

    def _gradient(
        self, state: State, batch: Batch, key: jax.Array
    ) -> tuple[Params, Carry, Metrics]:
        def loss(params: Params) -> tuple[jax.Array, tuple[Carry, Metrics]]:
            return self._algorithm.loss(
                params, state.carry, batch, key, self.run.algorithm
            )

        gradient, (carry, metrics) = jax.grad(loss, has_aux=True)(state.params)
        return gradient, carry, metrics

    def _whole_update(
        self, state: State, batch: Batch, key: jax.Array
    ) -> tuple[State, Metrics]:
        gradient, carry, metrics = self._gradient(state, batch, key)
        state, norm = self._apply_gradient(state._replace(carry=carry), gradient)
        return state, {**metrics, "gradient_norm": norm}

    def _add_gradient(
        self, state: State, total: Any, batch: Batch, key: jax.Array
    ) -> tuple[State, Any]:
        gradient, carry, metrics = self._gradient(state, batch, key)
        total = jax.tree.map(jnp.add, total, (gradient, metrics))
        return state._replace(carry=carry), total

    def _apply_gradient(
        self, state: State, gradient: Params
    ) -> tuple[State, jax.Array]:
        squares = [jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(gradient)]
        steps, optimizer_state = self._optimizer.update(
            gradient, state.optimizer, state.params
        )
        params = optax.apply_updates(state.params, steps)
        return State(params, optimizer_state, state.carry), jnp.sqrt(sum(squares))


def split_host(devices: int) -> None:
    """Splits the CPU into this many JAX devices. Call it before anything else uses JAX.

    This makes training faster even on few cores, because much of XLA's CPU code runs on one
    thread per device. It has no effect on other kinds of devices.
    """
    jax.config.update("jax_num_cpu_devices", devices)
