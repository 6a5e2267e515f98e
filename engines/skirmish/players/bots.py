"""Scripted players: one family whose members differ in skill.

In: a rating or a difficulty, a race, a seed. Out: a `Bot`, which is asked for inputs loop by
loop. `computer` plays like the game's built-in levels. `human` plays like a person of a given
rating, with a camera, selections, control groups, repeated commands, slips and pauses. Both
decide in the same way; skill sets how often they think, how much they overlook, how fast they act
and how big they build. A bot sees only what its player may see: levels that cheat get their
advantage from the game's setup (`computer_setup`). Must not know: the protocol or replay files.
"""

import collections
import dataclasses
import functools
import math
from typing import NamedTuple

from starmill.engines.skirmish.players import (
    army_production,
    chores,
    idle_actions,
    macro,
    special_abilities,
    strategies,
    tactics,
)
from starmill.engines.skirmish.players.dice import Dice
from starmill.engines.skirmish.players.intents import (
    ABILITY_ATTACK,
    ABILITY_GATHER,
    ABILITY_MOVE,
    Intent,
)
from starmill.engines.skirmish.players.situation import Situation
from starmill.engines.skirmish.players.strategies import BotStrategy
from starmill.engines.skirmish.simulation import maps
from starmill.engines.skirmish.simulation.game import (
    RECALL,
    SET,
    Autocast,
    CameraMove,
    ControlGroup,
    Game,
    Input,
    Leave,
    Select,
    UnitCommand,
)
from starmill.schema import errors
from starmill.schema.game_constants import BUILDS, DIFFICULTIES

_BUILD_NAMES = {number: name for name, number in BUILDS.items()}
# By Difficulty. Levels that cheat play like the best and get more income or sight as well.
_LEVEL_SKILL = (0.0, 0.0, 0.1, 0.22, 0.36, 0.52, 0.7, 0.94, 1.0, 1.0, 1.0)
# Commands that people repeat although repeating them changes nothing.
_REPEATED = frozenset({ABILITY_ATTACK, ABILITY_MOVE, ABILITY_GATHER})
# How far from the camera's centre the screen reaches, in cells: sideways, and up or down.
_CAMERA_REACH = (10.0, 7.0)
# A human-like bot surrenders after more looks in a row without hope.
_HOPELESS_LOOKS = 5
_SEED_FACTOR = 2654435761  # spreads neighbouring seeds apart
_GROUPS = 6  # an idle bot recalls one of the first six at random


class Level(NamedTuple):
    """What the game grants a built-in level.

    Attributes:
        income: factor of what the player mines; 1.0 for fair players.
        all_visible: whether the player sees the whole map; False for fair players.
    """

    income: float
    all_visible: bool


def computer_setup(difficulty: int) -> Level:
    """Returns the advantages of a Difficulty; 0 stands for a player that is not a computer."""
    incomes = {DIFFICULTIES["cheat_money"]: 1.5, DIFFICULTIES["cheat_insane"]: 2.0}
    income = incomes.get(difficulty, 1.0)
    return Level(income, difficulty >= DIFFICULTIES["cheat_vision"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """What a skill means in play.

    Attributes:
        think_loops: mean loops between two looks at the whole game.
        slip: share of intents that the bot overlooks, 0 to 1.
        act_loops: mean loops between two actions.
        workers: share of the style's workers that it trains, 0 to 1.
        slack: share of the spare supply of a perfect player that it keeps ready, 0 to 1.
        guard: supply of army per worker beyond the first sixteen that it has before it trains
            more workers.
        army: supply of the largest army that it can keep going.
        control: how well it leads its army, 0 to 1.
        human: whether it moves a camera, selects units, repeats commands and surrenders.
    """

    think_loops: float
    slip: float
    act_loops: float
    workers: float
    slack: float
    guard: float
    army: float
    control: float
    human: bool

    @classmethod
    def of_skill(cls, skill: float, *, human: bool) -> "Profile":
        """Returns the profile of a skill from 0 (a beginner) to 1 (the best)."""
        # Beyond 0.85, thinking more often wins no more games (measured).
        s = 0.85 * min(max(skill, 0.0), 1.0)
        return cls(
            think_loops=20.0 + 160.0 * (1.0 - s) + 500.0 * (1.0 - s) * (1.0 - s),
            slip=0.7 * (1.0 - s),
            act_loops=5.0 + 5.0 * (1.0 - s),
            workers=0.4 + 0.6 * s,
            slack=0.2 + 0.8 * s,
            guard=1.2 * s,
            army=14.0 + 26.0 * s + 90.0 * s * s,
            control=s,
            human=human,
        )


class Bot:
    """One scripted player of one game.

    Attributes:
        profile: how well it plays.
        race: TERRAN, ZERG or PROTOSS.
        next_loop: the loop before which it does nothing.
        style: name of its style in strategies.json; "" until it has played its first loop.
    """

    def __init__(
        self, profile: Profile, race: int, seed: int, build: str = "random"
    ) -> None:
        if build not in BUILDS:
            raise errors.ConfigError(
                f"build {build!r}: expected one of {', '.join(BUILDS)}"
            )
        self.profile = profile
        self.race = race
        self.next_loop = 0
        self._dice = Dice(seed * _SEED_FACTOR + race)
        self._build = build
        self.style = ""
        self._strategy: BotStrategy | None = None
        self._front: tactics.Front | None = None
        self._intents: collections.deque[Intent] = collections.deque()
        self._script: collections.deque[tuple[int, Input]] = collections.deque()
        self._next_think = 10 + self._dice.below(20)
        self._next_act = self._next_think
        self._camera = (0.0, 0.0)
        self._last: Intent | None = None
        self._idle_round: list[Intent] = []
        self._turn = 0  # index of the next idle action of the round
        self._groups: dict[int, tuple[int, ...]] = {}
        self._hopeless_looks = 0

    def act(self, game: Game, player: int) -> list[Input]:
        """Returns the player's inputs for the coming loop; mostly none."""
        loop = game.loop
        if loop < self.next_loop:
            return []
        if self._strategy is None:
            self._start(game, player)
        if loop >= self._next_think:
            leave = self._think(game, player)
            if leave:
                return [Leave(player)]
        if loop >= self._next_act and not self._script:
            self._act(loop, player)
        out: list[Input] = []
        while self._script and self._script[0][0] <= loop:
            out.append(self._script.popleft()[1])
        soon = self._script[0][0] if self._script else self._next_act
        self.next_loop = max(min(soon, self._next_think), loop + 1)
        return out

    def _start(self, game: Game, player: int) -> None:
        """Chooses a style and looks at the map."""
        setup = game.players[player - 1]
        start = game.map.starts[setup.start]
        race = strategies.of_race(self.race)
        self.style = self._style_name(race)
        style = race["styles"][self.style]
        ordered = sorted(
            game.map.bases,
            key=lambda base: (base.x - start[0]) ** 2 + (base.y - start[1]) ** 2,
        )
        self._strategy = BotStrategy(
            race=race,
            style=style,
            max_workers=max(int(style["workers"] * self.profile.workers + 0.5), 14),
            max_bases=style["bases"],
            supply_slack=self.profile.slack,
            guard_food=self.profile.guard,
            army_food=self.profile.army,
            start=start,
            expansions=_natural_second(game.map, tuple(ordered)),
        )
        # Early styles attack with half of the army that the player can lead, late ones with most.
        share = 0.5 + 0.35 * min(max(style["attack"] - 45.0, 0.0) / 15.0, 1.0)
        wave = min(style["attack"] * 1.2, share * self.profile.army)
        self._front = tactics.Front(
            wave=wave * (0.9 + 0.2 * self._dice.unit()),
            control=self.profile.control,
            start=start,
            enemy_start=game.map.starts[1 - setup.start],
        )
        self._camera = start

    def _style_name(self, race: dict[str, dict[str, dict[str, float]]]) -> str:
        """Returns the build that was asked for, or a style drawn by the styles' weights."""
        if self._build != "random":
            return self._build
        styles = race["styles"]
        weights = [style["weight"] for style in styles.values()]
        pick = self._dice.unit() * math.fsum(weights)
        for name, style in styles.items():
            pick -= style["weight"]
            if pick < 0:
                return name
        return next(iter(styles))

    def _think(self, game: Game, player: int) -> bool:
        """Looks at the game and makes a new list of intents; returns True to surrender."""
        if self._strategy is None or self._front is None:
            raise AssertionError("a bot thinks only after it has started")
        strategy, front, dice = self._strategy, self._front, self._dice
        situation = Situation(game, player)
        pause = self.profile.think_loops * (0.6 + 0.8 * dice.unit())
        self._next_think = game.loop + max(int(pause), 4)
        if self.profile.human:
            is_hopeless = tactics.is_hopeless(situation, front)
            self._hopeless_looks = self._hopeless_looks + 1 if is_hopeless else 0
            if self._hopeless_looks > _HOPELESS_LOOKS:
                return True
        intents = [
            *tactics.lead(situation, front, dice),
            *special_abilities.fight(situation, dice),
            *macro.unfinished(situation),
            *macro.supply(situation, strategy, dice),
            *army_production.guard(situation, strategy, dice),
            *macro.workers(situation, strategy),
            *army_production.queens(situation, strategy),
            *special_abilities.energy(situation, dice),
            *macro.expand(situation, strategy),
            *macro.tech(situation, strategy, dice),
            *macro.gas(situation, strategy),
            *army_production.army(situation, strategy, dice),
            *macro.upgrades(situation, strategy),
            *macro.idle_workers(situation),
            *chores.chores(situation, dice),
        ]
        if self.profile.human:
            self._idle_round = idle_actions.next_round(situation, front, dice)
        slip = self.profile.slip
        self._intents = collections.deque(
            intent for intent in intents if not dice.chance(slip)
        )
        return False

    def _act(self, loop: int, player: int) -> None:
        """Turns the next intent into inputs for the coming loops."""
        dice = self._dice
        pause = self.profile.act_loops * (0.5 + dice.unit())
        if self._intents:
            intent = self._intents.popleft()
            self._turn = 0
            end = self._script_intent(intent, loop, player)
            self._last = intent if intent.ability in _REPEATED else None
            pause *= 1.0 - 0.7 * self.profile.control if self.profile.human else 0.3
        elif self.profile.human:
            end = self._act_idly(loop, player)
        else:
            end = loop
        self._next_act = end + max(int(pause), 1)

    def _script_intent(self, intent: Intent, loop: int, player: int) -> int:
        """Schedules an intent's camera move, selection and commands; returns the last loop."""
        at = loop
        if self.profile.human:
            at = self._look(intent.where, at, player)
            at = self._select(intent, at, player)
        if intent.autocast:
            item: Input = Autocast(player, intent.ability, intent.tags)
        else:
            item = UnitCommand(
                player,
                intent.ability,
                intent.tags,
                intent.target_tag,
                intent.point,
                intent.queued,
            )
        for copy in range(intent.repeat):
            self._script.append((at, item))
            if copy % 3 == 2:
                at += 1 + self._dice.below(2)
        return at

    def _look(self, where: tuple[float, float] | None, at: int, player: int) -> int:
        """Moves the camera if the intent's place is off the screen."""
        if where is None:
            return at
        far_x = abs(where[0] - self._camera[0]) > _CAMERA_REACH[0]
        far_y = abs(where[1] - self._camera[1]) > _CAMERA_REACH[1]
        if not far_x and not far_y:
            return at
        self._camera = where
        self._script.append((at, CameraMove(player, where[0], where[1])))
        return at + 2 + self._dice.below(4)

    def _select(self, intent: Intent, at: int, player: int) -> int:
        """Selects the units of an intent, by their control group if it holds them already."""
        group = intent.group
        if group >= 0 and self._groups.get(group) == intent.tags:
            recall = ControlGroup(player, group, RECALL)
            self._script.append((at, recall))
            return at
        self._script.append((at, Select(player, intent.tags)))
        if group >= 0:
            self._groups[group] = intent.tags
            assign = ControlGroup(player, group, SET)
            self._script.append((at, assign))
        return at

    def _act_idly(self, loop: int, player: int) -> int:
        """Repeats the last command, goes on with the round of idle actions, or waits."""
        # Better players decide and act more often, so they have less time to fill. This keeps all
        # players at about one step every fifteen loops, as in people's replays.
        roll = self._dice.unit() / (1.0 - 0.6 * self.profile.control)
        if roll < 0.06 and self._last is not None:
            return self._script_intent(self._last, loop, player)
        if roll >= 0.57 or self._front is None:
            return loop
        turn, self._turn = self._turn, self._turn + 1
        if turn < len(self._idle_round):
            return self._script_intent(self._idle_round[turn], loop, player)
        self._turn = 0
        return self._glance(self._front, loop, player)

    def _glance(self, front: tactics.Front, loop: int, player: int) -> int:
        """Looks at its start location or its target, and recalls a control group."""
        dice = self._dice
        x, y = front.target if front.attacking and dice.chance(0.5) else front.start
        x, y = x + dice.below(17) - 8.0, y + dice.below(13) - 6.0
        self._camera = (x, y)
        self._script.append((loop, CameraMove(player, x, y)))
        group = dice.below(_GROUPS)
        if group in self._groups:
            recall = ControlGroup(player, group, RECALL)
            self._script.append((loop + 1, recall))
        return loop + 1


_STARTS = 2  # players, and bases at which they start


@functools.cache
def _natural_second(
    game_map: maps.GameMap, ordered: tuple[maps.Base, ...]
) -> tuple[maps.Base, ...]:
    """Moves the natural expansion to the second place: it is the nearest base on foot.

    The smallest maps have no bases but the starts.
    """
    start = ordered[0]
    if len(ordered) <= _STARTS:
        return ordered
    index = game_map.bases.index(start) % 2
    natural = game_map.bases[2 + index]
    rest = [base for base in ordered if base is not start and base is not natural]
    return (start, natural, *rest)


# (MMR, skill): how well a player of this rating plays, with straight lines between the points.
_MMR_SKILL = ((1000, 0.0), (2500, 0.2), (7000, 0.8), (8500, 1.0))
# (MMR, skill per point): the difference in skill that wins as often as Elo says that a point of
# MMR does. Fitted to ladder games at two ratings, with a straight line between them. It grows
# because the results of good players depend less on skill.
_GAP_PER_MMR = ((2500, 0.00042), (7000, 0.00100))


def skill_of(mmr: float) -> float:
    """Returns the skill of a player of this rating."""
    points = _MMR_SKILL
    if mmr <= points[0][0]:
        return points[0][1]
    for (low, a), (high, b) in zip(points, points[1:], strict=False):
        if mmr <= high:
            return a + (b - a) * (mmr - low) / (high - low)
    return points[-1][1]


def skill_against(mmr: float, opponent_mmr: float) -> float:
    """Returns the skill with which a player of this rating plays against a given opponent.

    Elo spans 26 logits over 4,500 points of MMR, but the whole range of skill spans only about 7,
    so a fixed skill per rating cannot give a ladder's results. Instead, the mean of the two ratings
    sets how well both play, and their difference, scaled to Elo, sets how much better one plays
    than the other.
    """
    mean = (mmr + opponent_mmr) / 2
    (low, at_low), (high, at_high) = _GAP_PER_MMR
    share = min(max((mean - low) / (high - low), 0.0), 1.0)
    gap = (at_low + (at_high - at_low) * share) * (mmr - opponent_mmr)
    gap = min(max(gap, -1.0), 1.0)
    half = abs(gap) / 2
    middle = min(max(skill_of(mean), half), 1.0 - half)
    return middle + gap / 2


def human(
    mmr: int,
    race: int,
    seed: int,
    build: str = "random",
    *,
    opponent_mmr: int | None = None,
) -> Bot:
    """Returns a bot that plays like a person of this rating.

    opponent_mmr: the opponent's rating, on which the skill depends too; None if it is unknown.
    """
    skill = skill_of(mmr) if opponent_mmr is None else skill_against(mmr, opponent_mmr)
    return Bot(Profile.of_skill(skill, human=True), race, seed, build)


def computer(difficulty: int, race: int, seed: int, build: int = 1) -> Bot:
    """Returns a bot that plays like a built-in level; build is an AIBuild value."""
    if not 1 <= difficulty <= DIFFICULTIES["cheat_insane"]:
        raise errors.ConfigError(f"difficulty: expected 1 to 10, found {difficulty}")
    profile = Profile.of_skill(_LEVEL_SKILL[difficulty], human=False)
    return Bot(profile, race, seed, _BUILD_NAMES.get(build, "random"))
