"""What each side of a game still has: the worth of its army and economy, and its structures.

In: an observation without fog and the game's own data on unit types. Out: a `Material` of each side.
Costs, attributes and supply are what the game publishes (`ResponseData`), so nothing here depends on
which game plays.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from starmill.converters.protos import data_pb2, raw_pb2, sc2api_pb2
from starmill.schema import errors

# A worker gathers; these are the game's public names of the three kinds.
_WORKERS = ("SCV", "Drone", "Probe", "MULE")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Material:
    """What one side has at one moment.

    Attributes:
        army: minerals and gas that its fighting units cost, unfinished ones in proportion.
        economy: the same of its workers and structures.
        structures: how many structures it has, unfinished ones included.
    """

    army: int
    economy: int
    structures: int

    def to_json(self) -> dict[str, int]:
        """Returns the three numbers by name."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Material":
        """Returns the material of its JSON; FormatError if it is not one."""
        try:
            return cls(**{name: int(number) for name, number in data.items()})
        except (TypeError, ValueError, AttributeError) as error:
            raise errors.FormatError(f"not a side's material: {error!r}") from error


class Sides(NamedTuple):
    """Both sides' material, as one player's observation shows it.

    Attributes:
        own: of the player who observes.
        enemy: of the opponent.
    """

    own: Material
    enemy: Material


def sides(observation: bytes, data: bytes) -> Sides:
    """Returns both sides' material from a ResponseObservation and a ResponseData.

    The observation must be one with `disable_fog`. Otherwise the enemy's side is only what the
    player sees.
    """
    raw = sc2api_pb2.ResponseObservation.FromString(observation).observation.raw_data
    table = sc2api_pb2.ResponseData.FromString(data).units
    types = {entry.unit_id: entry for entry in table}
    return Sides(
        own=_material(raw.units, types, raw_pb2.Self),
        enemy=_material(raw.units, types, raw_pb2.Enemy),
    )


def _material(units: Any, types: Mapping[int, Any], alliance: int) -> Material:
    army = economy = 0.0
    structures = 0
    for unit in units:
        entry = types.get(unit.unit_type)
        if unit.alliance != alliance or entry is None or unit.is_hallucination:
            continue
        # The game counts a building as finished at 1, and units always are.
        worth = (entry.mineral_cost + entry.vespene_cost) * min(unit.build_progress, 1)
        if data_pb2.Structure in entry.attributes:
            structures += 1
            economy += worth
        elif entry.name in _WORKERS:
            economy += worth
        elif entry.food_required > 0:
            army += worth
    return Material(army=round(army), economy=round(economy), structures=structures)
