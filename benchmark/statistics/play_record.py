"""How one player played one game: commands, refusals, possessions by the minute, and attacks.

In: the player's observations and actions in the dataset's arrays, of a live game or of a dataset.
Out: a `PlayRecord`. Nothing here depends on a version's unit types: the army is what the game counts as
army, and a base is an own unit that the game gives an ideal number of harvesters.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.benchmark.statistics import function_groups
from starmill.benchmark.statistics.refusals import Refusal
from starmill.schema import errors, specs, vocab
from starmill.schema.episode import Arrays
from starmill.schema.game_constants import LOOPS_PER_MINUTE
from starmill.schema.settings import ConverterSettings

# What a record has of each whole minute: columns of `player`, and the agent's value.
POSSESSIONS = (
    "minerals",
    "vespene",
    "food_used",
    "food_cap",
    "food_army",
    "food_workers",
    "army_count",
)
VALUE = "value"
_OWN = 1
_COLUMN = {name: index for index, (name, _) in enumerate(specs.UNIT_COLUMNS)}
# An attack is away from home if its target is further than this share of the map's side
# from each base of the attacker.
AWAY_SHARE = 40 / 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attack:
    """One attack command.

    Attributes:
        loop: the game loop at which it was given.
        units: how many own units it commanded.
        army: the player's army count at that moment.
        distance: from the target to the nearest own base, as a share of the map's side.
    """

    loop: int
    units: int
    army: int
    distance: float

    @property
    def is_away(self) -> bool:
        """Returns whether the target is far from the attacker's bases."""
        return self.distance > AWAY_SHARE

    @property
    def share(self) -> float | None:
        """Returns the share of the army that was sent, at most 1; None without an army."""
        return min(1.0, self.units / self.army) if self.army > 0 else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlayRecord:
    """How one player played one game.

    Attributes:
        game_loops: the game's length.
        steps: observations at which the player acted.
        commands: actions other than no-ops, by function group.
        refused: of them, those that the game refused, by group and reason; None if unknown,
            as in a dataset.
        minutes: by name in POSSESSIONS and VALUE, the number at each whole minute, beginning
            with the first. It is that of the last observation until then. An agent without
            a value has None.
        attacks: the attack commands, in order.
    """

    game_loops: int
    steps: int
    commands: Mapping[str, int]
    refused: Mapping[str, Mapping[str, int]] | None
    minutes: Mapping[str, tuple[float | None, ...]]
    attacks: tuple[Attack, ...]

    @property
    def decisions(self) -> int:
        """Returns how many commands to build, train, research and morph there were."""
        return sum(self.commands.get(group, 0) for group in function_groups.DECISIONS)

    @property
    def refused_decisions(self) -> int | None:
        """Returns how many of the decisions the game refused; None if unknown."""
        if self.refused is None:
            return None
        return sum(
            sum(self.refused.get(group, {}).values())
            for group in function_groups.DECISIONS
        )

    def at_minute(self, name: str, minute: int) -> float | None:
        """Returns a number of `minutes`; None if the game was shorter, or it is unknown."""
        values = self.minutes[name]
        return values[minute - 1] if 1 <= minute <= len(values) else None

    def to_json(self) -> dict[str, Any]:
        """Returns the record as JSON; attacks are lists of loop, units, army and distance."""
        out = dataclasses.asdict(self)
        out["attacks"] = [
            [one.loop, one.units, one.army, round(one.distance, 4)]
            for one in self.attacks
        ]
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "PlayRecord":
        """Returns the record of its JSON; FormatError if it is not one."""
        try:
            values = {field.name: data[field.name] for field in dataclasses.fields(cls)}
            values["minutes"] = {
                name: tuple(series) for name, series in data["minutes"].items()
            }
            values["attacks"] = tuple(
                Attack(loop=loop, units=units, army=army, distance=distance)
                for loop, units, army, distance in data["attacks"]
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise errors.FormatError(f"not a record of play: {error!r}") from error
        return cls(**values)


class Recorder:
    """Makes the record of one player in one game, from what the player saw and did."""

    def __init__(self, settings: ConverterSettings) -> None:
        raw = specs.raw_settings(settings)
        self._side = raw.resolution[0]
        self._end_marker = raw.max_unit_count
        self._home: NDArray[np.float64] | None = None
        self._latest: dict[str, float | None] = {}
        self._steps = 0
        self._commands: collections.Counter[str] = collections.Counter()
        self._minutes: dict[str, list[float | None]] = {
            name: [] for name in (*POSSESSIONS, VALUE)
        }
        self._attacks: list[Attack] = []

    def note(
        self, observation: Arrays, action: Arrays, value: float | None = None
    ) -> None:
        """Notes one step: what the player saw, what it did, and how it judged its chances."""
        loop = int(observation["game_loop"])
        self._fill_minutes(loop - 1)
        columns = zip(specs.PLAYER_COLUMNS, observation["player"].tolist(), strict=True)
        player = {name: int(number) for name, number in columns}
        self._latest = {name: player[name] for name in POSSESSIONS} | {VALUE: value}
        self._steps += 1
        if self._home is None:
            own = _own_units(observation["raw_units"])
            self._home = _places(own).mean(0) if len(own) else np.zeros(2)
        function = int(action["function"])
        if function <= 0:
            return
        group = function_groups.group_of(function)
        self._commands[group] += 1
        if group == "attack":
            self._note_attack(loop, player["army_count"], observation, action)

    def finish(
        self, game_loops: int, refused: Iterable[Refusal] | None = None
    ) -> PlayRecord:
        """Returns the record. `refused` is None where the game's refusals are unknown."""
        self._fill_minutes(game_loops)
        by_group: dict[str, dict[str, int]] | None = None
        if refused is not None:
            by_group = {}
            for refusal in refused:
                group = by_group.setdefault(
                    function_groups.group_of(refusal.function), {}
                )
                group[refusal.reason] = group.get(refusal.reason, 0) + 1
        return PlayRecord(
            game_loops=game_loops,
            steps=self._steps,
            commands=dict(sorted(self._commands.items())),
            refused=by_group,
            minutes={name: tuple(series) for name, series in self._minutes.items()},
            attacks=tuple(self._attacks),
        )

    def _fill_minutes(self, loop: int) -> None:
        """Gives every whole minute up to a loop the latest numbers, if it has none yet."""
        if not self._latest:
            return
        while (len(self._minutes[VALUE]) + 1) * LOOPS_PER_MINUTE <= loop:
            for name, series in self._minutes.items():
                series.append(self._latest[name])

    def _note_attack(
        self, loop: int, army: int, observation: Arrays, action: Arrays
    ) -> None:
        units = observation["raw_units"]
        target = self._target(units, action)
        rows = np.asarray(action["unit_tags"]).reshape(-1)
        rows = rows[: (rows == self._end_marker).argmax()] if self._ends(rows) else rows
        rows = rows[(rows >= 0) & (rows < len(units))]
        commanded = (units[rows, _COLUMN["alliance"]] == _OWN).sum()
        if target is None or not commanded:
            return
        distance = np.abs(self._bases(units) - target).max(1).min() / self._side
        self._attacks.append(
            Attack(
                loop=loop,
                units=int(commanded),
                army=army,
                # As the file has it, so that a record is equal to itself read back.
                distance=round(float(distance), 4),
            )
        )

    def _ends(self, rows: NDArray[Any]) -> bool:
        return bool((rows == self._end_marker).any())

    def _target(
        self, units: NDArray[Any], action: Arrays
    ) -> NDArray[np.float64] | None:
        function = vocab.functions()[int(action["function"])]
        if "world" in function.args:
            row, column = divmod(int(action["world"]), self._side)
            return np.array([column, row], np.float64)
        row = int(action["target_unit_tag"])
        if "target_unit_tag" in function.args and 0 <= row < len(units):
            place: NDArray[np.float64] = _places(units[row : row + 1])[0]
            return place
        return None

    def _bases(self, units: NDArray[Any]) -> NDArray[np.float64]:
        """Returns where the player's bases are, [N, 2]; the start counts as one."""
        own = _own_units(units)
        bases = own[own[:, _COLUMN["ideal_harvesters"]] > 0]
        home = np.zeros(2) if self._home is None else self._home
        return np.concatenate([_places(bases), home[None]])


def _own_units(units: NDArray[Any]) -> NDArray[Any]:
    own: NDArray[Any] = units[units[:, _COLUMN["alliance"]] == _OWN]
    return own


def _places(units: NDArray[Any]) -> NDArray[np.float64]:
    return units[:, [_COLUMN["x"], _COLUMN["y"]]].astype(np.float64)
