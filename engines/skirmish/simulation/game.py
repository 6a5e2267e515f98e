"""One game between two players: its inputs, its state, and when it ends.

In: a map, two player setups, a seed, and inputs loop by loop. Out: the world after each loop,
refused commands, events, and the result. The same inputs give the same bytes of state on every
machine. Knows no protocol, no replay format and no bot.

`step(inputs)` applies the inputs to the world as it is at `loop`, plays that loop, and raises
`loop` by one. So an input recorded at loop L was given to `step` when `game.loop` was L.
"""

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.simulation import (
    action_results,
    entry_points,
    ids,
    maps,
    mini_game,
    opening,
    records,
    rules,
)
from starmill.engines.skirmish.simulation.debug import cheats
from starmill.engines.skirmish.simulation.debug.cheats import Cheat
from starmill.schema import errors
from starmill.schema.game_constants import PROTOSS, TERRAN, ZERG

NO_TARGET = 0
REVEAL_LOOPS = 224  # between two looks whether an enemy still has a town hall
STALEMATE_LOOPS = 5376  # four minutes without income, production or destruction
# What a ControlGroup does.
RECALL, SET, APPEND, SET_AND_STEAL, APPEND_AND_STEAL = 1, 2, 3, 4, 5
GROUPS = 10
# No unit's tag, as a living unit has used its row at least once.
_DEAD_TAG = 1 << records.TAG_SHIFT


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlayerSetup:
    """One player at the start of a game.

    Attributes:
        race_requested: TERRAN, ZERG, PROTOSS or RANDOM.
        race: TERRAN, ZERG or PROTOSS, what the player has.
        start: index of the map's start location, 0 or 1; the players' starts must differ.
        income: factor of every delivery of minerals or vespene; above 1 for cheating levels.
        all_visible: whether the player sees the whole map, as cheating levels do.
        absent: whether nobody plays: the player has no units at the start, and neither wins nor
            loses. One player can play alone then.
        prompt: whether an order makes the player's fighters look for a target at once. Others
            look within `combat.SEARCH_LOOPS`, so a client that orders every loop must be prompt.
            Prompt players are also shown the buildings of an enemy without a town hall.
    """

    race_requested: int
    race: int
    start: int
    income: float = 1.0
    all_visible: bool = False
    absent: bool = False
    prompt: bool = False

    def __post_init__(self) -> None:
        races, starts = {TERRAN, ZERG, PROTOSS}, {0, 1}
        if self.race not in races or self.start not in starts:
            raise errors.ConfigError(
                f"player setup: expected race 1 to 3 and start 0 or 1, found {self!r}"
            )

    def stored(self) -> dict[str, Any]:
        """Returns the fields that a replay keeps: `absent` and `prompt` only where they hold."""
        values = dataclasses.asdict(self)
        for name in ("absent", "prompt"):
            if not values[name]:
                del values[name]
        return values


@dataclasses.dataclass(frozen=True)
class UnitCommand:
    """A command to units. At most one of `target_tag` and `target_point` is given.

    Attributes:
        player: who gives it, 1 or 2.
        ability_id: general or specific.
        unit_tags: the units that it is given to.
        target_tag: the target unit, 0 without one.
        target_point: (x, y) in world units, None without one.
        queued: whether it waits for the units' present orders.
    """

    player: int
    ability_id: int
    unit_tags: tuple[int, ...]
    target_tag: int = NO_TARGET
    target_point: tuple[float, float] | None = None
    queued: bool = False


@dataclasses.dataclass(frozen=True)
class Autocast:
    """Switches an autocast of units on if it is off, and off if it is on.

    Attributes:
        player: whose units they are, 1 or 2.
        ability_id: general or specific.
        unit_tags: the units.
    """

    player: int
    ability_id: int
    unit_tags: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class CameraMove:
    """Centres the player's camera on a point.

    Attributes:
        player: 1 or 2.
        x: of the point, in world units; the playable area limits it.
        y: likewise.
    """

    player: int
    x: float
    y: float


@dataclasses.dataclass(frozen=True)
class Select:
    """Makes units the player's selection.

    Attributes:
        player: 1 or 2.
        unit_tags: all units of the selection; those of others are left out.
    """

    player: int
    unit_tags: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class ControlGroup:
    """Uses a control group.

    Attributes:
        player: 1 or 2.
        index: which group, 0 to 9.
        kind: RECALL selects it; SET replaces its units by the selection, APPEND adds that. The
            kinds that steal also remove those units from the other groups.
    """

    player: int
    index: int
    kind: int


@dataclasses.dataclass(frozen=True)
class Leave:
    """The player surrenders.

    Attributes:
        player: 1 or 2.
    """

    player: int


Input = UnitCommand | Autocast | CameraMove | Select | ControlGroup | Leave | Cheat


class CommandError(NamedTuple):
    """A refused command.

    Attributes:
        loop: when it was given.
        player: who gave it, 1 or 2.
        ability_id: as in the command.
        tag: the first unit that it was given to; 0 if it was given to none.
        code: why it was refused, one of `action_results`.
    """

    loop: int
    player: int
    ability_id: int
    tag: int
    code: int


def _is_on_grid(*coordinates: float) -> bool:
    """Returns whether a point is one that the grids have a cell for; False for NaN."""
    return all(0.0 <= value <= records.GRID for value in coordinates)


def _kernel_command(command: UnitCommand) -> records.Command:
    """Returns the command as kernels take it."""
    target = records.TARGET_NONE
    if command.target_tag:
        target = records.TARGET_UNIT
    elif command.target_point is not None:
        target = records.TARGET_POINT
    x, y = command.target_point or (0.0, 0.0)
    return records.Command(
        player=command.player,
        ability=command.ability_id,
        unit_tags=np.asarray(command.unit_tags, np.int64),
        target=target,
        target_tag=command.target_tag,
        x=float(x),
        y=float(y),
        queued=command.queued,
    )


class Game:
    """A running game. Others may read its `world`, but only this class and kernels write to it."""

    def __init__(
        self,
        game_map: maps.GameMap,
        players: tuple[PlayerSetup, PlayerSetup],
        seed: int,
    ) -> None:
        if players[0].start == players[1].start:
            raise errors.ConfigError(
                f"players: expected different starts, found {players[0].start} twice"
            )
        self.map = game_map
        self.players = players
        self.seed = seed
        self.world = opening.new_world(
            game_map,
            races=(players[0].race, players[1].race),
            requested=(players[0].race_requested, players[1].race_requested),
            starts=(players[0].start, players[1].start),
            income=(players[0].income, players[1].income),
            all_visible=(players[0].all_visible, players[1].all_visible),
            present=(not players[0].absent, not players[1].absent),
            seed=seed,
        )
        # Control groups by player (1, 2) and index, as tuples of tags.
        self.groups: dict[int, list[tuple[int, ...]]] = {
            1: [()] * GROUPS,
            2: [()] * GROUPS,
        }
        self.result: dict[int, str] | None = None
        self.mini_game: mini_game.MiniGamePlay | None = None
        if game_map.mini_game is not None:
            self.mini_game = mini_game.MiniGamePlay(self.world, game_map, seed)
        entry_points.refresh_vision(self.world.state)

    @property
    def loop(self) -> int:
        """The game loop that the next `step` plays; 0 at the start."""
        return int(self.world.clock[records.LOOP])

    def step(self, inputs: Sequence[Input] = ()) -> None:
        """Applies the inputs in order and plays one loop. Does nothing once the game is over.

        A command to a point beyond the largest map is refused, like other commands that cannot be
        obeyed, and such a camera move is ignored: kernels index grids by points, unchecked.
        """
        if self.result is not None:
            return
        for item in inputs:
            self._apply(item)
        self.advance(1)

    def advance(self, loops: int) -> int:
        """Plays up to `loops` loops without inputs; returns how many, fewer if the game ends."""
        before = self.loop
        while self.result is None and self.loop < before + loops:
            rest = before + loops - self.loop
            if any(player.prompt for player in self.players):
                rest = min(rest, REVEAL_LOOPS - self.loop % REVEAL_LOOPS)
            entry_points.advance(self.world.state, 1 if self.mini_game else rest)
            if self.loop % REVEAL_LOOPS == 0 and self.map.melee:
                self._reveal()
            self._check_end()
            if self.mini_game and not self.mini_game.after_loop():
                self._end_mini_game()
        return self.loop - before

    def take_errors(self) -> list[CommandError]:
        """Returns the commands refused since the last call, oldest first, and clears the log."""
        clock = self.world.clock
        rows = self.world.errors[: int(clock[records.ERRORS])]
        refused = [
            CommandError(
                int(r["loop"]),
                int(r["player"]),
                int(r["ability"]),
                int(r["tag"]),
                int(r["code"]),
            )
            for r in rows
        ]
        clock[records.ERRORS] = 0
        return refused

    def take_events(self) -> np.ndarray:
        """Returns what happened since the last call, rows of records.EVENT, and clears the log.

        The log holds MAX_EVENTS: take them at least every thousand loops to miss none.
        """
        clock = self.world.clock
        events = self.world.events[: int(clock[records.EVENTS])].copy()
        clock[records.EVENTS] = 0
        return events

    def available_abilities(self, row: int, *, ignore_cost: bool = False) -> list[int]:
        """Returns the specific ids of the abilities that the unit in this row could use now."""
        abilities: NDArray[np.int32] = entry_points.available_abilities(
            self.world.state, row, ignore_cost
        )
        return [int(ability) for ability in abilities]

    def command_error(self, command: UnitCommand) -> int:
        """Returns SUCCESS if at least one unit could obey the command now, or why none can."""
        if not _is_on_grid(*(command.target_point or ())):
            return action_results.ERROR
        packed = _kernel_command(command)
        return int(entry_points.command_error(self.world.state, packed))

    def command_ability(self, command: UnitCommand) -> int:
        """Returns the specific ability by which units would obey the command now."""
        if not 0 < command.ability_id < rules.ABILITY_LIMIT:
            return command.ability_id
        packed = _kernel_command(command)
        return int(entry_points.command_ability(self.world.state, packed))

    def rows_of(self, tags: Sequence[int]) -> NDArray[np.int64]:
        """Returns the rows of the living units with these tags; other tags are left out."""
        rows = (np.asarray(tags, np.int64) >> records.TAG_SHIFT) - 1
        rows = np.where((rows < 0) | (rows >= records.MAX_UNITS), 0, rows)
        units = self.world.units
        living = (units["tag"][rows] == np.asarray(tags)) & (units["alive"][rows] == 1)
        return rows[living]

    def state_digest(self) -> str:
        """Returns the sha256 of everything that can influence the rest of the game.

        Also of the clock's counts of logged events and errors, so compare games whose logs were
        taken at the same loops.
        """
        digest = hashlib.sha256()
        for name, array in self.world._asdict().items():
            if name not in records.DERIVED:
                digest.update(name.encode())
                digest.update(records.canonical_bytes(array))
        digest.update(repr((self.groups, self.result)).encode())
        if self.mini_game:
            digest.update(repr(self.mini_game.state()).encode())
        return digest.hexdigest()

    def _apply(self, item: Input) -> None:
        match item:
            case UnitCommand() if not _is_on_grid(*(item.target_point or ())):
                self._log_error(item, action_results.ERROR)
            case UnitCommand():
                entry_points.carry_out(self.world.state, _kernel_command(item))
                self._look_at_once(item.player, item.unit_tags)
            case Autocast():
                tags = np.asarray(item.unit_tags, np.int64)
                entry_points.toggle_autocast(
                    self.world.state, item.player, item.ability_id, tags
                )
            case CameraMove() if not math.isfinite(item.x + item.y):
                pass
            case CameraMove():
                x0, y0, x1, y1 = self.map.playable
                camera = self.world.players[item.player]
                camera["camera_x"] = min(max(float(item.x), x0), x1)
                camera["camera_y"] = min(max(float(item.y), y0), y1)
            case Select():
                self._select(item.player, item.unit_tags)
            case ControlGroup():
                self._group(item)
            case Cheat():
                cheats.apply(self.world, self.map, item)
            case Leave():
                self.world.players[item.player]["left"] = 1
                self._check_end()

    def _look_at_once(self, player: int, tags: Sequence[int]) -> None:
        """Lets those of a prompt player's units that choose targets do so in the next loop.

        An order makes a unit forget its target. Without one it looks on a schedule, but at once
        after its target has died: so it is given a target that has died.
        """
        if not self.players[player - 1].prompt:
            return
        world = self.world
        rows = self.rows_of(tags)
        rows = rows[world.units["owner"][rows] == player]
        kinds = rules.ability_rules()["kind"][world.orders["ability"][rows, 0]]
        roams = np.isin(kinds, (ids.KIND_ATTACK, ids.KIND_PATROL))
        roams &= world.orders["target"][rows, 0] != records.TARGET_UNIT
        roams &= world.units["order_count"][rows] == 1
        stands = world.units["order_count"][rows] == 0
        kind = rules.unit_rules()[world.units["unit_type"][rows]]
        armed = (kind["ground_damage"] > 0) | (kind["air_damage"] > 0)
        stands &= (kind["worker"] == 0) & (kind["structure"] == 0)
        forgetful = world.units["engaged"][rows] == 0
        looks = forgetful & armed & (roams | stands)
        world.units["engaged"][rows[looks]] = _DEAD_TAG

    def _reveal(self) -> None:
        """Lets prompt players remember all buildings of an enemy who has no town hall."""
        units = self.world.units
        rule = rules.unit_rules()[units["unit_type"]]
        for number, setup in enumerate(self.players, start=1):
            enemy = (units["alive"] == 1) & (units["owner"] == 3 - number)
            if not setup.prompt or (enemy & (rule["town_hall"] == 1)).any():
                continue
            snapshots = self.world.snapshots[number]
            known = snapshots["tag"][snapshots["alive"] == 1]
            unseen = (units["seen"] & (1 << number) == 0) & ~np.isin(
                units["tag"], known
            )
            standing = (rule["footprint"] > 0) & (units["flying"] == 0)
            rows = np.flatnonzero(enemy & unseen & standing)
            free = np.flatnonzero(snapshots["alive"] == 0)[: len(rows)]
            snapshots[free] = units[rows[: len(free)]]

    def _log_error(self, command: UnitCommand, code: int) -> None:
        """Logs a refused command, as the kernels do; a full log takes no more."""
        count = int(self.world.clock[records.ERRORS])
        if count < len(self.world.errors):
            row = self.world.errors[count]
            row["loop"], row["player"] = self.loop, command.player
            row["ability"], row["code"] = command.ability_id, code
            row["tag"] = command.unit_tags[0] if command.unit_tags else 0
            self.world.clock[records.ERRORS] = count + 1

    def _select(self, player: int, tags: Sequence[int]) -> None:
        units = self.world.units
        units["selected"][units["owner"] == player] = 0
        rows = self.rows_of(tags)
        units["selected"][rows[units["owner"][rows] == player]] = 1

    def _group(self, item: ControlGroup) -> None:
        groups = self.groups[item.player]
        if item.kind == RECALL:
            self._select(item.player, groups[item.index])
            return
        units = self.world.units
        mine = (units["selected"] == 1) & (units["owner"] == item.player)
        selected = tuple(int(t) for t in units["tag"][mine & (units["alive"] == 1)])
        if item.kind in {SET_AND_STEAL, APPEND_AND_STEAL}:
            for index, tags in enumerate(groups):
                groups[index] = tuple(t for t in tags if t not in selected)
        kept = groups[item.index] if item.kind in {APPEND, APPEND_AND_STEAL} else ()
        groups[item.index] = kept + tuple(t for t in selected if t not in kept)

    def _end_mini_game(self) -> None:
        """Sets the result of a mini-game: a win if its time is up, a loss before that."""
        rules = self.map.mini_game
        won = rules is not None and self.loop >= rules.loops
        if self.result is None:
            self.result = {1: "win", 2: "loss"} if won else {1: "loss", 2: "win"}

    def _check_end(self) -> None:
        """Sets the result if a player left or lost every building, or if nothing can change.

        Buildings count on melee maps only, and a player who is absent is never out.
        """
        out = [self._is_out(player) for player in (1, 2)]
        idle_loops = self.loop - int(self.world.clock[records.CHANGED])
        alone = any(player.absent for player in self.players)
        if out[0] and out[1]:
            self.result = {1: "tie", 2: "tie"}
        elif out[0] or out[1]:
            loser = 1 if out[0] else 2
            self.result = {loser: "loss", 3 - loser: "win"}
        elif self.map.melee and not alone and idle_loops > STALEMATE_LOOPS:
            self.result = {1: "tie", 2: "tie"}

    def _is_out(self, player: int) -> bool:
        """Returns whether a player left, or lost the last building."""
        if self.players[player - 1].absent:
            return False
        record = self.world.players[player]
        beaten = self.map.melee and record["building_count"] == 0
        return bool(record["left"]) or bool(beaten)
