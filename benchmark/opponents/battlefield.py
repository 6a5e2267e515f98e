"""One observation, as the scripted specialists read it: units by owner and type, and money.

In: an observation as the dataset holds it. Out: rows of units, their columns and places. Knows
nothing of plans, which `specialists` makes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.benchmark.opponents import building_sites, random_agent
from starmill.schema import specs, vocab
from starmill.schema.episode import Arrays
from starmill.schema.settings import ConverterSettings

# Row numbers of raw_units.
Rows = NDArray[np.int64]
# [N, 2], x and y on the grid of actions.
Places = NDArray[np.float64]

# Build progress is a percentage.
_FINISHED = 100
_MAP_SEEN_BEFORE, _MAP_VISIBLE = 1, 2


def _types_with(part: str) -> tuple[int, ...]:
    """Returns the dense ids of the unit types whose name has this part."""
    names = vocab.names("unit_types")
    return tuple(dense for dense, name in enumerate(names) if part in name)


_MINERALS = _types_with("MineralField")
_GEYSERS = _types_with("VespeneGeyser")


class Battlefield:
    """What a player sees at one moment.

    Attributes:
        loop: the game loop.
        minerals: in the player's bank.
        food_left: supply that is still free.
        food_cap: the supply limit.
        scale: cells of the action grid per world unit.
        unit_count: rows of units.
        pathable: the minimap's pathable plane, [H, W].
    """

    def __init__(self, observation: Arrays, settings: ConverterSettings) -> None:
        units = observation["raw_units"]
        self._observation = observation
        self._units = units[units[:, random_agent.COLUMN["unit_type"]] > 0]
        self._resolution = specs.raw_settings(settings).resolution[0]
        self.unit_count = len(self._units)
        self.loop = int(observation["game_loop"])
        player = dict(
            zip(specs.PLAYER_COLUMNS, observation["player"].tolist(), strict=True)
        )
        self.minerals = int(player["minerals"])
        self.food_left = int(player["food_cap"]) - int(player["food_used"])
        self.food_cap = int(player["food_cap"])
        # The camera's width is known both in cells and in world units.
        width = settings.camera_width_world_units
        self.scale = float(observation["camera_size"][0]) / width
        self.pathable: NDArray[Any] = observation["minimap_pathable"]

    def column(self, name: str, rows: Rows) -> NDArray[np.int32]:
        """Returns one column of these units, [N]."""
        return np.asarray(self._units[rows, random_agent.COLUMN[name]])

    def places(self, rows: Rows) -> Places:
        """Returns these units' positions, [N, 2]."""
        return np.stack(
            [self.column("x", rows), self.column("y", rows)], axis=1
        ).astype(np.float64)

    def own(self, *names: str, ready: bool = True) -> Rows:
        """Returns the player's units of these types; `ready` omits unfinished ones."""
        types = [vocab.ids("unit_types")[name] for name in names]
        rows = self._of(random_agent.OWN)
        rows = rows[np.isin(self.column("unit_type", rows), types)]
        return rows[self.column("build_progress", rows) >= _FINISHED] if ready else rows

    def enemies(self) -> Rows:
        """Returns the enemy's visible units."""
        return self._of(random_agent.ENEMY)

    def mineral_fields(self) -> Rows:
        """Returns the mineral fields."""
        return self._neutral(_MINERALS)

    def geysers(self) -> Rows:
        """Returns the vespene geysers."""
        return self._neutral(_GEYSERS)

    def idle(self, rows: Rows) -> Rows:
        """Returns those of the units that have no order."""
        return rows[self.column("order_length", rows) == 0]

    def count_ordered(self, function: str) -> int:
        """Returns the number of own units whose first order is this function."""
        orders = self.column("order_id_0", self._of(random_agent.OWN))
        return int((orders == vocab.function_named(function).id).sum())

    def ground(self) -> building_sites.Ground:
        """Returns what the minimap shows of the ground."""
        planes = self._observation
        return building_sites.Ground(
            buildable=planes["minimap_buildable"] > 0,
            pathable=planes["minimap_pathable"] > 0,
            creep=planes["minimap_creep"] > 0,
            explored=np.isin(
                planes["minimap_visibility_map"], (_MAP_SEEN_BEFORE, _MAP_VISIBLE)
            ),
            ratio=planes["minimap_buildable"].shape[0] / self._resolution,
            scale=self.scale,
        )

    def _of(self, alliance: int) -> Rows:
        every = np.arange(self.unit_count)
        return np.flatnonzero(self.column("alliance", every) == alliance)

    def _neutral(self, types: tuple[int, ...]) -> Rows:
        rows = self._of(random_agent.NEUTRAL)
        return rows[np.isin(self.column("unit_type", rows), types)]
