"""Counts which actions players do, and makes tables of those that they never do.

In: a dataset's training episodes. Out: tables by function (`states.shapes`) of what players never or
hardly ever do: command a type of unit in a certain state, act with less than a price in the bank, or
build on certain ground. A game's rules show in such counts, so this module does not need to know them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.learners import rollouts
from starmill.learners.counts import states
from starmill.learners.counts.spacing import SpacingCounter
from starmill.schema import specs, vocab
from starmill.schema.episode import LAST
from starmill.schema.loader.batch_options import BatchOptions
from starmill.schema.loader.dataset import Dataset
from starmill.schema.settings import ConverterSettings

Tables = dict[str, NDArray[np.float32]]

# What is rarer than this share of a function's uses counts as never: accidents happen.
RARE = 0.002
# A type of unit is needed if it is there in all but this share of the uses.
EXCEPTIONS = 0.005
# At most this share of the uses is below a floor, or on forbidden ground.
BELOW, ODD_GROUND = 0.02, 0.03
# A floor counts only if this share of all steps is below it: what players always have is no price.
ELSEWHERE = 0.1
# A floor of supply counts only for functions that use supply up in this share of their uses.
USING_SUPPLY = 0.3
_STEPS, _LANES = 32, 8


def count(data: Dataset, planes: Sequence[tuple[str, int]]) -> Tables:
    """Returns the tables of a dataset's episodes.

    `planes` are minimap planes by name, each with the value that matters.
    """
    settings = data.settings
    counter = _Counter(settings, planes)
    for batch in _windows(data, [f"minimap_{name}" for name, _ in planes]):
        for row in np.argwhere(batch["valid"] & (batch["step_type"] != LAST)):
            counter.add(batch, (int(row[0]), int(row[1])))
    return counter.tables()


def _windows(data: Dataset, planes: list[str]) -> Iterator[rollouts.Batch]:
    keys = ["raw_units", "player", "home_race_requested", *planes]
    keys += [f"action/{name}" for name in specs.action_specs(data.settings)]
    options = BatchOptions(
        batch_size=_LANES,
        rollout=_STEPS,
        sampler="sequential",
        form="compact",
        keys=sorted(keys),
    )
    for arrays in data.batches(options):
        yield rollouts.trim_units(arrays, data.settings)


class _Counter:
    """Sums over actions, from which the tables follow."""

    def __init__(
        self, settings: ConverterSettings, planes: Sequence[tuple[str, int]]
    ) -> None:
        functions = settings.num_action_types
        raw = specs.raw_settings(settings)
        self._functions, self._planes = functions, planes
        self._cells = raw.resolution[0]
        self._scale = settings.minimap[0] / raw.resolution[0]
        self._units = {name: i for i, name in enumerate(specs.unit_columns(settings))}
        self._player = {name: i for i, name in enumerate(specs.PLAYER_COLUMNS)}
        self._arguments = [function.args for function in vocab.functions()]
        types = (functions, states.TYPES)
        self._uses = np.zeros(functions)
        self._races = np.zeros((functions, states.RACES))
        self._owners = np.zeros(types)
        self._commanded = np.zeros((*types, states.COMMANDED))
        self._energies = np.zeros((*types, states.ENERGIES))
        self._targets = np.zeros((*types, states.TARGETED))
        self._ground = np.zeros((functions, states.ground_features(len(planes)), 2))
        self._spacing = SpacingCounter(functions)
        self._supply = np.zeros((functions, 2))
        self._banks: list[list[tuple[int, ...]]] = [[] for _ in range(functions)]

    def add(self, batch: rollouts.Batch, where: tuple[int, int]) -> None:
        """Counts one action."""
        units = batch["units"][where][: batch["unit_count"][where]]
        function = int(batch["action/function"][where])
        types = np.clip(units[:, self._units["unit_type"]], 0, states.TYPES - 1)
        own = units[:, self._units["alliance"]] == states.OWN
        finished = states.commanded(units, self._units) > 0
        self._uses[function] += 1
        race = int(batch["home_race_requested"][where])
        self._races[function, min(race, states.RACES - 1)] += 1
        self._owners[function, np.unique(types[own & finished])] += 1
        bank = states.bank(batch["player"][where], self._player)
        self._banks[function].append(tuple(int(amount) for amount in bank))
        after = (where[0], where[1] + 1)
        if after[1] < batch["valid"].shape[1] and batch["valid"][after]:
            *_, supply = states.bank(batch["player"][after], self._player)
            self._supply[function, int(supply < bank[-1])] += 1
        tags = batch["action/unit_tags"][where]
        tags = tags[tags < len(units)] if function else tags[:0]
        self._add_states(
            self._commanded[function], types, states.commanded, units, tags
        )
        self._add_states(self._energies[function], types, states.energies, units, tags)
        if "target_unit_tag" in self._arguments[function]:
            target = batch["action/target_unit_tag"][where]
            rows = np.arange(len(units)) == target
            self._add_states(
                self._targets[function], types, states.targeted, units, rows
            )
        if "world" in self._arguments[function]:
            self._add_ground(batch, where, units)

    def _add_states(
        self,
        counts: NDArray[np.float64],
        types: NDArray[np.int32],
        state_of: Callable[..., NDArray[np.int64]],
        units: NDArray[np.int32],
        rows: NDArray[Any],
    ) -> None:
        np.add.at(counts, (types[rows], state_of(units[rows], self._units)), 1)

    def _add_ground(
        self, batch: rollouts.Batch, where: tuple[int, int], units: NDArray[np.int32]
    ) -> None:
        """Counts the features of the target point's ground that are 0, and those that are 1."""
        y, x = divmod(int(batch["action/world"][where]), self._cells)
        if not 0 <= y < self._cells:
            return
        row, column = int(y * self._scale), int(x * self._scale)
        here, around = [], []
        for name, value in self._planes:
            plane = batch[f"minimap_{name}"][where] == value
            # Beyond the edge, nothing has the value.
            patch = np.pad(plane, 1)[row : row + 3, column : column + 3]
            here.append(bool(plane[row, column]))
            around.append(bool(patch.all()))
        still = units[units[:, self._units["order_length"]] == 0]
        places = [still[:, self._units[name]] * self._scale for name in ("y", "x")]
        away = np.abs(np.floor(places) - np.array([[row], [column]])).max(0)
        near = [bool((away <= distance).any()) for distance in states.NEAR]
        function = int(batch["action/function"][where])
        types = np.clip(units[:, self._units["unit_type"]], 0, states.TYPES - 1)
        own = (units[:, self._units["alliance"]] == states.OWN) & (
            states.commanded(units, self._units) > 0
        )
        positions = units[:, [self._units["x"], self._units["y"]]]
        self._spacing.add(function, (x, y), positions, types, own)
        features = np.array([*here, *around, *near], np.int64)
        self._ground[function, np.arange(len(features)), features] += 1

    def tables(self) -> Tables:
        """Returns what never or hardly ever occurs."""
        enough = self._uses >= states.ENOUGH
        owned = self._owners >= (1 - EXCEPTIONS) * np.maximum(self._uses, 1)[:, None]
        ground = self._ground <= ODD_GROUND * self._ground.sum(-1, keepdims=True)
        is_known = self._ground.sum(-1, keepdims=True) >= states.ENOUGH
        tables = {
            "races": (self._races == 0) & (self._uses > 0)[:, None],
            "commanded": _bits(self._commanded),
            "energies": _bits(self._energies),
            "targets": _bits(self._targets),
            "needed": owned & enough[:, None],
            "floors": self._floors(enough),
            "ground": (ground & is_known).reshape(self._functions, -1),
            **self._spacing.tables(),
        }
        # A function that was never used says nothing about races.
        tables["races"] = tables["races"] | (self._uses == 0)[:, None]
        return {name: table.astype(np.float32) for name, table in tables.items()}

    def _floors(self, enough: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Returns the least that players have, where many other steps have less."""
        floors = np.zeros((self._functions, states.BANK))
        banks = {f: np.array(rows, float) for f, rows in enumerate(self._banks) if rows}
        for function in np.flatnonzero(enough):
            same_races = [
                rows
                for other, rows in banks.items()
                if (self._races[other] * self._races[function]).sum()
            ]
            everywhere = np.concatenate(same_races)
            floor = np.quantile(banks[int(function)], BELOW, axis=0, method="lower")
            lower = (everywhere < floor).mean(0)
            floors[function] = np.where(lower >= ELSEWHERE, np.maximum(floor, 0), 0)
        kept, used_up = self._supply.T
        uses_supply = used_up >= USING_SUPPLY * np.maximum(kept + used_up, 1)
        floors[~uses_supply, -1] = 0
        return floors


def _bits(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns, by function and type, the sum of 2**state over the states that never occur.

    0 for functions for which nothing was counted.
    """
    total = counts.sum((1, 2), keepdims=True)
    missing = (counts <= RARE * total) & (total > 0)
    bits: NDArray[np.float64] = missing @ (2.0 ** np.arange(counts.shape[-1]))
    return bits
