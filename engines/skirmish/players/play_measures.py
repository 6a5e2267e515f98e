"""What a player does in a game, in numbers: kinds of steps, attacks, the bank over time.

In: a player, which is asked as before, and the game it plays. Out: a `Play` record per player, and
a `Summary` of many. These numbers say whether an agent can learn from such games: how many steps
are decisions, whether whole armies attack, whether gas is spent. Must not know: how the player
decides.
"""

import collections
import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.players import intents, match
from starmill.engines.skirmish.players.situation import Situation, distance
from starmill.engines.skirmish.simulation import ids, rules
from starmill.engines.skirmish.simulation.game import (
    Autocast,
    CameraMove,
    Game,
    Input,
    UnitCommand,
)
from starmill.schema.game_constants import LOOPS_PER_MINUTE

# Steps that decide what the player will have.
DECISIONS = frozenset({"build", "train", "research", "morph"})
_STEP_KINDS = {
    ids.KIND_SMART: "smart",
    ids.KIND_MOVE: "move",
    ids.KIND_ATTACK: "attack",
    ids.KIND_GATHER: "gather",
    ids.KIND_RETURN: "gather",
    ids.KIND_RALLY: "rally",
    ids.KIND_RALLY_WORKERS: "rally",
    ids.KIND_TRAIN: "train",
    ids.KIND_WARP: "train",
    ids.KIND_BUILD: "build",
    ids.KIND_ADD_ON: "build",
    ids.KIND_RESEARCH: "research",
    ids.KIND_MORPH: "morph",
    ids.KIND_HATCH: "train",
    ids.KIND_ARCHON: "morph",
    ids.KIND_TUMOR: "tumor",
}
# General abilities, which the table of rules does not describe.
_GENERAL = {
    intents.ABILITY_ATTACK: "attack",
    intents.ABILITY_CREEP_TUMOR: "tumor",
    intents.ABILITY_GATHER: "gather",
    intents.ABILITY_MOVE: "move",
    intents.ABILITY_RALLY_UNITS: "rally",
    intents.ABILITY_RALLY_WORKERS: "rally",
}
FAR = 40.0  # an attack this far from every own town hall is an attack on the enemy
_REGROUP = 2.0  # an attack on the army's own middle, in cells


class Attack(NamedTuple):
    """One attack command.

    Attributes:
        loop: when it was given.
        units: how many fighting units received it.
        share: their share of the player's fighting units, 0 to 1.
        gap: cells from its target to the nearest own town hall.
        is_regroup: whether the target is the middle of the units themselves.
    """

    loop: int
    units: int
    share: float
    gap: float
    is_regroup: bool


class Bank(NamedTuple):
    """What a player has at one moment.

    Attributes:
        minerals: not spent yet.
        vespene: not spent yet.
        food: supply in use.
        army: supply that the army uses.
        workers: number of workers.
    """

    minerals: int
    vespene: int
    food: float
    army: float
    workers: int


@dataclasses.dataclass
class Play:
    """What one player did in one game.

    Attributes:
        steps: kept steps by kind, such as "camera", "attack" or "train".
        attacks: its attack commands with fighting units.
        banks: what it had at the start of each minute, by minute.
        result: "win", "loss" or "tie"; "" until the game is over.
        loops: the loop on which the game ended; 0 until then.
    """

    steps: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    attacks: list[Attack] = dataclasses.field(default_factory=list)
    banks: dict[int, Bank] = dataclasses.field(default_factory=dict)
    result: str = ""
    loops: int = 0


class MeasuredPlayer:
    """A player whose play is measured while it plays.

    Attributes:
        play: the measurements so far.
        next_loop: the loop before which the player does nothing.
    """

    def __init__(self, player: match.Player) -> None:
        self.play = Play()
        self.next_loop = player.next_loop
        self._player = player
        self._was_camera = False
        self._minute = 0

    def act(self, game: Game, player: int) -> list[Input]:
        """Returns what the measured player does."""
        minute = int(game.loop / LOOPS_PER_MINUTE)
        if minute > self._minute:
            self._minute = minute
            self.play.banks[minute] = _bank(Situation(game, player))
        inputs = self._player.act(game, player)
        self.next_loop = self._player.next_loop
        self._count(inputs)
        for item in inputs:
            if isinstance(item, UnitCommand) and _kind(item.ability_id) == "attack":
                attack = _attack(Situation(game, player), item)
                if attack is not None:
                    self.play.attacks.append(attack)
        return inputs

    def _count(self, inputs: Sequence[Input]) -> None:
        """Counts one step per loop with a command, and one for camera moves in a row."""
        kinds = [
            _kind(item.ability_id)
            for item in inputs
            if isinstance(item, UnitCommand | Autocast)
        ]
        if kinds:
            self.play.steps[kinds[0]] += 1
            self._was_camera = False
        elif any(isinstance(item, CameraMove) for item in inputs):
            self.play.steps["camera"] += not self._was_camera
            self._was_camera = True


def _kind(ability: int) -> str:
    if ability in _GENERAL:
        return _GENERAL[ability]
    return _STEP_KINDS.get(int(rules.ability_rules()[ability]["kind"]), "other")


def _bank(situation: Situation) -> Bank:
    return Bank(
        minerals=int(situation.world.players[situation.player]["minerals"]),
        vespene=int(situation.world.players[situation.player]["vespene"]),
        food=situation.food_used,
        army=situation.food_army,
        workers=len(situation.workers),
    )


def _attack(situation: Situation, command: UnitCommand) -> Attack | None:
    """Returns the measures of an attack command, None if no fighting unit receives it."""
    army = situation.army
    attackers = army[np.isin(situation.tags[army], command.unit_tags)]
    point = command.target_point
    if not len(attackers) or point is None:
        return None
    xs, ys = situation.x[attackers], situation.y[attackers]
    own_gap = max(abs(_median(xs) - point[0]), abs(_median(ys) - point[1]))
    halls = [situation.point(int(hall)) for hall in situation.halls]
    gap = min((distance(x - point[0], y - point[1]) for x, y in halls), default=0.0)
    return Attack(
        loop=situation.loop,
        units=len(attackers),
        share=len(attackers) / len(army),
        gap=gap,
        is_regroup=len(attackers) >= 3 and own_gap <= _REGROUP,
    )


def _median(values: NDArray[np.float64]) -> float:
    return float(np.median(values))


def measured_match(
    game: Game, players: Sequence[match.Player], max_loops: int = match.MAX_LOOPS
) -> list[Play]:
    """Plays a game to its end and returns the play of players 1 and 2."""
    measured = [MeasuredPlayer(player) for player in players]
    match.play_out(game, measured, max_loops=max_loops)
    if game.result is None:
        raise AssertionError("play_out stops at a result")
    for number, player in enumerate(measured, start=1):
        player.play.result = game.result[number]
        player.play.loops = game.loop
    return [player.play for player in measured]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """The play of many players. A number without any case is nan.

    Attributes:
        plays: how many players of games.
        steps: kept steps per player.
        step_loops: game loops per step.
        decisions: share of steps that build, train, research or morph.
        shares: share of steps by kind, most frequent first.
        attack_units: median number of fighting units that an attack far from home takes.
        attack_share: median share of the army that it takes.
        far: share of attacks far from home.
        regroups: share of attacks far from home that target the army's own middle.
        first_attack: median minute of the first attack far from home.
        minutes: median length of a game, in minutes.
        draws: share of games without a winner.
        banks: mean `Bank` of those still playing, at the start of each minute.
    """

    plays: int
    steps: float
    step_loops: float
    decisions: float
    shares: dict[str, float]
    attack_units: float
    attack_share: float
    far: float
    regroups: float
    first_attack: float
    minutes: float
    draws: float
    banks: dict[int, tuple[float, ...]]


def summary(plays: Sequence[Play]) -> Summary:
    """Returns the numbers of many plays together."""
    steps: collections.Counter[str] = collections.Counter()
    for play in plays:
        steps.update(play.steps)
    total = steps.total()
    attacks = [attack for play in plays for attack in play.attacks]
    far = [attack for attack in attacks if attack.gap > FAR]
    first = [
        min(loops) / LOOPS_PER_MINUTE
        for play in plays
        if (loops := [attack.loop for attack in play.attacks if attack.gap > FAR])
    ]
    banks: dict[int, list[Bank]] = collections.defaultdict(list)
    for play in plays:
        for minute, bank in play.banks.items():
            banks[minute].append(bank)
    return Summary(
        plays=len(plays),
        steps=total / max(len(plays), 1),
        step_loops=sum(play.loops for play in plays) / max(total, 1),
        decisions=sum(steps[kind] for kind in DECISIONS) / max(total, 1),
        shares={kind: count / total for kind, count in steps.most_common()},
        attack_units=_middle(attack.units for attack in far),
        attack_share=_middle(attack.share for attack in far),
        far=len(far) / max(len(attacks), 1),
        regroups=sum(attack.is_regroup for attack in far) / max(len(far), 1),
        first_attack=_middle(first),
        minutes=_middle(play.loops / LOOPS_PER_MINUTE for play in plays),
        draws=sum(play.result == "tie" for play in plays) / max(len(plays), 1),
        banks={
            minute: tuple(
                statistics.fmean(column) for column in zip(*rows, strict=True)
            )
            for minute, rows in sorted(banks.items())
        },
    )


def _middle(values: Iterable[float]) -> float:
    ordered = list(values)
    return float(statistics.median(ordered)) if ordered else math.nan
