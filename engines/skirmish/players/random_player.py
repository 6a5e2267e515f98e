"""A player that acts at random: random units, random abilities, random places.

In: a game and a seed. Out: inputs. It is the weakest opponent there is, and it reaches corners of
the rules that no sensible player reaches. Must not know: what any action is good for.
"""

import numpy as np

from starmill.engines.skirmish.observation import selection_panels
from starmill.engines.skirmish.simulation.game import (
    RECALL,
    SET,
    CameraMove,
    ControlGroup,
    Game,
    Input,
    Select,
    UnitCommand,
)

_MEAN_LOOPS = 12  # between two actions
_MAX_SELECTED = 8


class RandomPlayer:
    """A player that acts every dozen loops on average. The same seed gives the same actions.

    Attributes:
        next_loop: the loop before which it does nothing.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self.next_loop = 0

    def act(self, game: Game, player: int) -> list[Input]:
        """Returns the inputs for the coming loop; mostly none."""
        if game.loop < self.next_loop:
            return []
        self.next_loop = game.loop + 1 + int(self._rng.poisson(_MEAN_LOOPS))
        choice = self._rng.random()
        if choice < 0.2:
            return [CameraMove(player, *self._point(game))]
        if choice < 0.3:
            index = int(self._rng.integers(10))
            kind = SET if self._rng.random() < 0.5 else RECALL
            return [ControlGroup(player, index, kind)]
        if choice < 0.5:
            return self._select(game, player)
        return self._command(game, player)

    def _point(self, game: Game) -> tuple[float, float]:
        left, bottom, right, top = game.map.playable
        x = float(self._rng.uniform(left, right))
        return x, float(self._rng.uniform(bottom, top))

    def _select(self, game: Game, player: int) -> list[Input]:
        units = game.world.units
        mine = (units["owner"] == player) & (units["alive"] == 1)
        rows = np.flatnonzero(mine & (units["carrier"] < 0))
        if not len(rows):
            return []
        anchor = self._rng.choice(rows)
        alike = rows[units["unit_type"][rows] == units["unit_type"][anchor]]
        count = min(int(self._rng.integers(1, _MAX_SELECTED + 1)), len(alike))
        selected = self._rng.choice(alike, size=count, replace=False)
        return [Select(player, tuple(int(t) for t in units["tag"][selected]))]

    def _command(self, game: Game, player: int) -> list[Input]:
        rows = selection_panels.selected_rows(game, player)
        if not len(rows):
            return self._select(game, player)
        abilities = game.available_abilities(int(rows[0]))
        if not abilities:
            return self._select(game, player)
        ability = int(self._rng.choice(abilities))
        tags = tuple(int(tag) for tag in game.world.units["tag"][rows])
        queued = bool(self._rng.random() < 0.1)
        if not selection_panels.needs_target(ability):
            command = UnitCommand(player, ability, tags, queued=queued)
        elif self._rng.random() < 0.4:
            units = game.world.units
            alive = np.flatnonzero(units["alive"] == 1)
            tag = int(units["tag"][self._rng.choice(alive)])
            command = UnitCommand(player, ability, tags, target_tag=tag, queued=queued)
        else:
            point = self._point(game)
            command = UnitCommand(
                player, ability, tags, target_point=point, queued=queued
            )
        repeats = 1 + int(self._rng.random() < 0.1)
        return [command] * repeats
