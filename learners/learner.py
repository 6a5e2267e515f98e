"""The compiled part of training: a state, and updates of it. It is the same for every algorithm.

In: a `Run`, and batches as `rollouts.prepare` makes them. Out: new states and metrics. An update's
batches come in groups of equally many. A group is one call of compiled code, which adds up the
gradients of its batches in a scan. Batches are split over all devices of all processes along their
first axis; the state is whole on every device.
Must not know: datasets and files.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from starmill.learners import optimizer
from starmill.learners.algorithms.contract import Carry, Metrics
from starmill.learners.networks import parameters
from starmill.learners.networks.parameters import Params
from starmill.learners.rollouts import Batch
from starmill.learners.runs import Run
from starmill.schema import errors

AXIS = "batch"


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
    """Updates the state of one run, on all devices or the given number of them.

    Attributes:
        run: what is trained.
        rows: rows of each batch that this process supplies.
        first_row: the first of them.
    """

    def __init__(self, run: Run, devices: int | None = None) -> None:
        self.run = run
        size = run.algorithm.batch_size
        available = jax.devices()
        count = len(available) if devices is None else devices
        if jax.process_count() > 1 and count != len(available):
            raise errors.ConfigError(
                f"devices: {jax.process_count()} processes use all of their "
                f"{len(available)} devices, found {count}"
            )
        if not 1 <= count <= len(available) or size % count:
            raise errors.ConfigError(
                f"devices: expected 1 to {len(available)}, and a divisor of the batch "
                f"size {size}; found {count}"
            )
        # `jax.devices` lists those of process 0 first, then those of process 1, and so on.
        mesh = Mesh(np.asarray(available[:count]), (AXIS,))
        self.rows = size // jax.process_count()
        self.first_row = self.rows * jax.process_index()
        self._everywhere = NamedSharding(mesh, PartitionSpec())
        self._split = NamedSharding(mesh, PartitionSpec(AXIS))
        self._split_group = NamedSharding(mesh, PartitionSpec(None, AXIS))
        self._optimizer = optimizer.build(run.optim, run.frames_per_update)
        self._algorithm = run.record.algorithm
        jit = functools.partial(jax.jit, out_shardings=self._everywhere)
        # Donated arrays are reused, so a state is in memory once.
        self._update = jit(self._whole_update, donate_argnames="state")
        self._add = jit(self._add_group, donate_argnames=("carry", "total"))
        self._apply = jit(self._apply_total, donate_argnames="state")
        self._zeros = jit(functools.partial(jax.tree.map, jnp.zeros_like))
        self._most = jit(jnp.max)

    def init(self, start: Params | None = None) -> State:
        """Returns the first state, with the parameters in `start` or fresh ones."""
        return self.put_state(self._first_state(start))

    def shapes(self) -> State:
        """Returns the shapes and dtypes of a state."""
        return jax.eval_shape(lambda: self._first_state(None))

    def put_state(self, state: State) -> State:
        """Returns a state, which all processes have, on all devices."""

        def put(leaf: Any) -> jax.Array:
            # A copy, so that donating the state leaves the caller's arrays alone.
            array = np.array(leaf)
            return jax.make_array_from_process_local_data(
                self._everywhere, array, array.shape
            )

        return jax.tree.map(put, state)

    def put(self, group: list[Batch]) -> Batch:
        """Returns this process's rows of a group's batches on its devices: [G, B, ...].

        A group of one has no leading axis. The transfer may still be running on return.
        """
        if len(group) == 1:
            batch, split = group[0], self._split
        else:
            batch = jax.tree.map(lambda *leaves: np.stack(leaves), *group)
            split = self._split_group
        return jax.tree.map(
            lambda leaf: jax.make_array_from_process_local_data(split, leaf), batch
        )

    def most(self, number: int) -> jax.Array:
        """Returns the greatest of the numbers that the processes give. It may not be ready."""
        local = np.full(len(self._split.addressable_devices), number, np.int32)
        return self._most(jax.make_array_from_process_local_data(self._split, local))

    def update(self, state: State, group: Batch, number: int) -> tuple[State, Metrics]:
        """Returns the state after one update, whose batches are one group, and its metrics.

        The group is from `put`. The state that was given is used up. The update's number decides the random keys.
        Metrics are means over the batches; `gradient_norm` is that of the mean gradient,
        before clipping.
        """
        return self._update(state, group, np.int32(number))

    def add(
        self, state: State, total: Params | None, group: Batch, number: int, first: int
    ) -> tuple[State, Params, Metrics]:
        """Adds a group's gradients to a total, for updates of several groups.

        Args:
            state: its carry is used up, and new in the state that is returned.
            total: the sum over the update's earlier groups, which is used up; None if there
                is none.
            group: from `put`.
            number: the update's.
            first: the number of the group's first batch in the update.

        Returns:
            the state, the total, and the group's metrics. Their `gradient_norm` is that of the
            mean gradient so far.
        """
        if total is None:
            total = self._zeros(state.params)
        carry, total, metrics = self._add(
            state.params, state.carry, total, group, np.int32(number), np.int32(first)
        )
        return state._replace(carry=carry), total, metrics

    def apply(self, state: State, total: Params) -> State:
        """Returns the state after an update whose gradients were added up; uses up the state."""
        return self._apply(state, total)

    def lower(self, group: Batch) -> Any:
        """Returns an update of one group as JAX lowers it, for its cost and memory.

        The group may consist of shapes, [B, ...] of the whole batch.
        """
        number = jax.ShapeDtypeStruct((), jnp.int32)
        return self._update.lower(self.shapes(), group, number)

    def _first_state(self, start: Params | None) -> State:
        params, carry = self._algorithm.init(self.run.seed, self.run.algorithm, start)
        return State(params, self._optimizer.init(params), carry)

    def _gradient(
        self, params: Params, carry: Carry, batch: Batch, key: jax.Array
    ) -> tuple[Params, Carry, Metrics]:
        def loss(params: Params) -> tuple[jax.Array, tuple[Carry, Metrics]]:
            return self._algorithm.loss(params, carry, batch, key, self.run.algorithm)

        gradient, (carry, metrics) = jax.grad(loss, has_aux=True)(params)
        return gradient, carry, metrics

    def _sum(
        self,
        params: Params,
        carry: Carry,
        total: Params,
        group: Batch,
        keys: jax.Array,
    ) -> tuple[Carry, Params, Metrics]:
        """Returns the carry, the total and the mean metrics after the batches of a group."""

        def one(done: Any, inputs: Any) -> tuple[Any, Metrics]:
            carry, total = done
            gradient, carry, metrics = self._gradient(params, carry, *inputs)
            return (carry, jax.tree.map(jnp.add, total, gradient)), metrics

        (carry, total), metrics = jax.lax.scan(one, (carry, total), (group, keys))
        return carry, total, jax.tree.map(lambda leaf: leaf.mean(0), metrics)

    def _whole_update(
        self, state: State, group: Batch, number: jax.Array
    ) -> tuple[State, Metrics]:
        keys = self._keys(number)
        if len(keys) == 1:
            gradient, carry, metrics = self._gradient(
                state.params, state.carry, group, keys[0]
            )
        else:
            zeros = jax.tree.map(jnp.zeros_like, state.params)
            carry, total, metrics = self._sum(
                state.params, state.carry, zeros, group, keys
            )
            gradient = self._mean(total, len(keys))
        norm = _norm(gradient)
        state = self._step(state._replace(carry=carry), gradient)
        return state, {**metrics, "gradient_norm": norm}

    def _add_group(
        self,
        params: Params,
        carry: Carry,
        total: Params,
        group: Batch,
        number: jax.Array,
        first: jax.Array,
    ) -> tuple[Carry, Params, Metrics]:
        rank = group["step_type"].ndim
        if rank == 2:  # a group of one
            group = jax.tree.map(lambda leaf: leaf[None], group)
        size = len(group["step_type"])
        keys = jax.lax.dynamic_slice_in_dim(self._keys(number), first, size)
        carry, total, metrics = self._sum(params, carry, total, group, keys)
        norm = _norm(total) / (first + size)
        return carry, total, {**metrics, "gradient_norm": norm}

    def _apply_total(self, state: State, total: Params) -> State:
        return self._step(state, self._mean(total, self.run.algorithm.accumulate))

    def _step(self, state: State, gradient: Params) -> State:
        steps, optimizer_state = self._optimizer.update(
            gradient, state.optimizer, state.params
        )
        # Decay would change counts, too.
        params = optax.apply_updates(state.params, parameters.trained_only(steps))
        return State(params, optimizer_state, state.carry)

    def _mean(self, total: Params, count: int) -> Params:
        return jax.tree.map(lambda leaf: leaf / count, total)

    def _keys(self, number: jax.Array) -> jax.Array:
        key = jax.random.fold_in(jax.random.key(self.run.seed), number)
        return jax.random.split(key, self.run.algorithm.accumulate)


def _norm(tree: Params) -> jax.Array:
    squares = [jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)]
    return jnp.sqrt(sum(squares))


def split_host(devices: int) -> None:
    """Splits the CPU into this many JAX devices. Call it before anything else uses JAX.

    This makes training faster even on few cores, because much of XLA's CPU code runs on one
    thread per device. It has no effect on other kinds of devices.
    """
    jax.config.update("jax_num_cpu_devices", devices)
