"""Masks of the functions, units and ground that players used in the training games.

In: tables of counts (`learners.counts`) and frames. Out: masks for the policy's logits. The tables are
stored beside the parameters, so that checkpoints and agents contain them; they are never trained. A mask
that would forbid everything forbids nothing.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.counts import states
from starmill.learners.networks.compact.unit_stream import Facts
from starmill.learners.rollouts import Batch
from starmill.schema import specs
from starmill.schema.settings import ConverterSettings


class Standing(NamedTuple):
    """What decides which actions are legal in F frames.

    Attributes:
        functions: bool [F, functions], which may be used.
        commanded: int32 [F, U], the state of each unit as one that is commanded.
        energies: int32 [F, U], likewise of its energy.
        targets: int32 [F, U], its state as a target.
    """

    functions: jax.Array
    commanded: jax.Array
    energies: jax.Array
    targets: jax.Array


class Spacing(NamedTuple):
    """How far from units target points are, in cells along the farther axis.

    Attributes:
        apart: [F, U], at least so far from each unit.
        near: [F, U], less than so far from one of these units; where all are 0, anywhere.
    """

    apart: jax.Array
    near: jax.Array


class LegalActions(nnx.Module):
    """The tables, and the masks that follow from them."""

    def __init__(
        self,
        settings: ConverterSettings,
        planes: int,
        takes: tuple[tuple[bool, ...], tuple[bool, ...]],
    ) -> None:
        """Makes empty tables; `takes` are the functions that command units, and that target them."""
        self.settings, self.takes = settings, takes
        shapes = states.shapes(settings.num_action_types, planes)
        self.tables = nnx.Dict(
            {name: nnx.Param(jnp.zeros(shape)) for name, shape in shapes.items()}
        )

    def standing(self, frames: Batch, facts: Facts) -> Standing:
        """Returns what decides which actions are legal, of frames with the facts' rows."""
        column = {name: i for i, name in enumerate(specs.unit_columns(self.settings))}
        units = frames["units"]
        commanded = states.commanded(units, column).astype(jnp.int32)
        energies = states.energies(units, column).astype(jnp.int32)
        targets = states.targeted(units, column).astype(jnp.int32)
        functions = self._functions(frames, facts, (commanded, energies, targets))
        return Standing(functions, commanded, energies, targets)

    def commandable(
        self, function: jax.Array, standing: Standing, facts: Facts
    ) -> jax.Array:
        """Returns which units a function may command, bool [F, U]."""
        legal = ~self._is_set("commanded", function, facts.types, standing.commanded)
        legal &= ~self._is_set("energies", function, facts.types, standing.energies)
        return _or_all(facts.own & legal, facts.own)

    def targetable(
        self, function: jax.Array, standing: Standing, facts: Facts
    ) -> jax.Array:
        """Returns which units a function may target, bool [F, U]."""
        legal = ~self._is_set("targets", function, facts.types, standing.targets)
        return _or_all(facts.valid & legal, facts.valid)

    def ground(self, function: jax.Array) -> jax.Array:
        """Returns which features of the ground are forbidden, bool [F, features, 2]."""
        table = self._table("ground")[function] > 0.5
        return table.reshape(*function.shape, -1, 2)

    def spacing(self, function: jax.Array, facts: Facts) -> Spacing:
        """Returns how far from each unit target points of functions [F] are."""
        kind = (function[:, None], facts.types)
        apart, near = (self._table(name)[kind] for name in ("apart", "near"))
        return Spacing(jnp.where(facts.valid, apart, 0), jnp.where(facts.own, near, 0))

    def _table(self, name: str) -> jax.Array:
        return jax.lax.stop_gradient(self.tables[name][...])

    def _is_set(
        self, name: str, function: jax.Array, types: jax.Array, state: jax.Array
    ) -> jax.Array:
        bits = jnp.round(self._table(name)[function[:, None], types]).astype(jnp.int32)
        return (bits >> state) & 1 == 1

    def _functions(
        self,
        frames: Batch,
        facts: Facts,
        kinds: tuple[jax.Array, jax.Array, jax.Array],
    ) -> jax.Array:
        column = {name: i for i, name in enumerate(specs.PLAYER_COLUMNS)}
        race = jnp.clip(frames["home_race_requested"], 0, states.RACES - 1)
        legal = (self._table("races") < 0.5).T[race]
        finished = facts.own & (kinds[0] > 0)
        owned = _there(facts.types, finished, states.TYPES)
        legal &= (1 - owned) @ self._table("needed").T < 0.5
        floors = self._table("floors")
        for i, amount in enumerate(states.bank(frames["player"], column)):
            # Without a floor, an amount may be negative: supply, after losing buildings.
            legal &= (amount[:, None] >= floors[:, i]) | (floors[:, i] <= 0)
        commands, targets = (jnp.asarray(takes) for takes in self.takes)
        for name, group, state, count, takes in (
            ("commanded", facts.own, kinds[0], states.COMMANDED, commands),
            ("energies", facts.own, kinds[1], states.ENERGIES, commands),
            ("targets", facts.valid, kinds[2], states.TARGETED, targets),
        ):
            bits = jnp.round(self._table(name)).astype(jnp.int32)
            allowed = (bits[..., None] >> jnp.arange(count)) & 1 == 0
            there = _there(facts.types * count + state, group, states.TYPES * count)
            exists = there @ allowed.reshape(len(bits), -1).T.astype(there.dtype) > 0.5
            legal &= exists | ~takes
        return _or_all(legal, jnp.ones_like(legal))


def _there(index: jax.Array, group: jax.Array, size: int) -> jax.Array:
    """Returns 1.0 for the numbers [F, size] that one of the rows [F, U] in `group` has."""

    def one(index: jax.Array, group: jax.Array) -> jax.Array:
        return jnp.zeros(size).at[index].max(group.astype(jnp.float32))

    return jax.vmap(one)(index, group)


def _or_all(mask: jax.Array, everything: jax.Array) -> jax.Array:
    return jnp.where(mask.any(-1, keepdims=True), mask, everything)
