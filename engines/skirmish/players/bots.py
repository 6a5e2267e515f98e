"""Scripted players: one family whose members differ in skill.

In: a rating or a difficulty, a race, a seed. Out: a `Bot`, which is asked for inputs loop by
loop. `computer` plays like the game's built-in levels. `human` plays like a person of a given
rating, with a camera, selections, control groups, repeated commands, lapses and slips. Both
decide in the same way; the profile of their skill sets how often they look, what they forget, how
fast they act and how big they build. People look before every action or two, so that an agent that
learns from their replays sees why they act. A bot sees only what its player may see: levels that
cheat get their advantage from the game's setup (`computer_setup`). Must not know: the protocol or
replay files.
"""

import collections
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from starmill.engines.skirmish.players import (
    army_production,
    chores,
    idle_actions,
    macro,
    rallying,
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
from starmill.engines.skirmish.players.lapses import (
    ARMY,
    BASES,
    GAS,
    REFLEX,
    SUPPLY,
    TECH,
    UNITS,
    WORKERS,
    Lapses,
)
from starmill.engines.skirmish.players.profiles import (
    Profile,
    skill_against,
    skill_of,
)
from starmill.engines.skirmish.players.situation import Situation
from starmill.engines.skirmish.players.strategies import BotStrategy
from starmill.engines.skirmish.simulation import ids, maps
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
# Commands that people sometimes repeat although repeating them changes nothing.
_REPEATED = frozenset({ABILITY_ATTACK, ABILITY_MOVE, ABILITY_GATHER})
# How far from the camera's centre the screen reaches, in cells: sideways, and up or down.
_CAMERA_REACH = (10.0, 7.0)
# A person who surrenders does so after this many loops without hope.
_HOPELESS_LOOPS = 280
_SURRENDERING_SHARE = 0.5
# Loops after which a person who has nothing to do looks around or repeats a command. Delays of more
# than 127 loops are cut in episodes (`specs.MAX_DELAY`).
_LONGEST_WAIT = 115
_PERSON_WORKERS = 50  # of the best person with enough bases
_PERSON_WAVE = (
    0.75  # share of the style's supply at which people attack, so that games end
)
_MOST_OF_ARMY = (
    0.8  # people attack with this much of the largest army that they can keep going
)
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
        self._groups: dict[int, tuple[int, ...]] = {}
        self._lapses = Lapses(profile.lapse_loops)
        self._hopeless_loops = 0
        self._actions = 0  # since the last look
        self._acted = 0  # loop of the last action
        # Some people never give up: agents learn from them how to end a game.
        self._surrenders = profile.human and self._dice.chance(_SURRENDERING_SHARE)

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
        # What people build follows from their bases. A limit of the style could not be seen.
        most = _PERSON_WORKERS if self.profile.human else style["workers"]
        self._strategy = BotStrategy(
            race=race,
            style=style,
            max_workers=max(int(most * self.profile.workers + 0.5), 14),
            max_bases=style["bases"],
            spends_gas_first=self.profile.human,
            supply_slack=self.profile.slack,
            guard_food=self.profile.guard,
            army_food=self.profile.army,
            start=start,
            expansions=_natural_second(game.map, tuple(ordered)),
        )
        if self.profile.human:
            wave = min(
                _PERSON_WAVE * style["attack"], _MOST_OF_ARMY * self.profile.army
            )
        else:
            wave = self._computer_wave(style)
        self._front = tactics.Front(
            wave=wave * (0.9 + 0.2 * self._dice.unit()),
            control=self.profile.control,
            human=self.profile.human,
            start=start,
            enemy_start=game.map.starts[1 - setup.start],
        )
        self._camera = start

    def _computer_wave(self, style: dict[str, float]) -> float:
        """Returns the supply at which a computer's army attacks.

        Early styles attack with half of the army that the player can lead, late ones with most.
        """
        share = 0.5 + 0.35 * min(max(style["attack"] - 45.0, 0.0) / 15.0, 1.0)
        return min(style["attack"] * 1.2, share * self.profile.army)

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
        is_hopeless = self._surrenders and tactics.is_hopeless(situation, front)
        self._hopeless_loops = self._hopeless_loops + int(pause) if is_hopeless else 0
        if self._hopeless_loops > _HOPELESS_LOOPS:
            return True
        self._lapses.look(game.loop, dice)
        slip, is_human = self.profile.slip, self.profile.human
        self._intents = collections.deque(
            intent
            for intent in self._wishes(situation, strategy, front)
            if not dice.chance(slip)
            and not (is_human and _is_under_way(situation, intent))
        )
        self._actions = 0
        is_idle = is_human and not self._intents
        # Waiting is a choice too, and an agent must be able to see it: a step that changes nothing.
        has_waited = game.loop + pause - self._acted > _LONGEST_WAIT
        if is_idle and (has_waited or dice.chance(self.profile.habit)):
            self._act_idly(situation, front)
        return False

    def _wishes(
        self, situation: Situation, strategy: BotStrategy, front: tactics.Front
    ) -> list[Intent]:
        """Returns what the bot wants done, most important first, without what it forgets."""
        dice, loop = self._dice, situation.loop
        # Computers do their chores at every look, people now and then: otherwise half of their
        # commands would send workers to minerals and gas.
        is_human = self.profile.human
        has_time = not is_human or dice.chance(self.profile.chores)
        upgrades = (REFLEX, lambda: macro.upgrades(situation, strategy))
        units = (UNITS, lambda: army_production.army(situation, strategy, dice))
        wishes: tuple[tuple[str, Callable[[], list[Intent]]], ...] = (
            (ARMY, lambda: tactics.lead(situation, front, dice)),
            (REFLEX, lambda: special_abilities.fight(situation, dice)),
            (REFLEX, lambda: macro.unfinished(situation)),
            (SUPPLY, lambda: macro.supply(situation, strategy, dice)),
            (UNITS, lambda: army_production.guard(situation, strategy, dice)),
            (WORKERS, lambda: macro.workers(situation, strategy)),
            (REFLEX, lambda: army_production.queens(situation, strategy)),
            (REFLEX, lambda: special_abilities.energy(situation, dice, has_time)),
            (BASES, lambda: macro.expand(situation, strategy)),
            (TECH, lambda: macro.tech(situation, strategy, dice)),
            (GAS, lambda: macro.gas(situation, strategy, fill=has_time)),
            # People spend their gas before cheap units take the minerals.
            *((upgrades, units) if is_human else (units, upgrades)),
            (REFLEX, lambda: self._chores(situation, front) if has_time else []),
        )
        intents: list[Intent] = []
        for concern, wish in wishes:
            if self._lapses.attends(concern, loop):
                intents += wish()
        return intents

    def _chores(self, situation: Situation, front: tactics.Front) -> list[Intent]:
        """Returns what can wait, and would fill the game if it were done at every look."""
        intents = macro.idle_workers(situation)
        if self.profile.human:
            intents += rallying.set_rally_points(situation, front)
        return intents + chores.chores(situation, self._dice)

    def _act_idly(self, situation: Situation, front: tactics.Front) -> None:
        """Adds a small command that changes nothing, or a glance at a place that matters."""
        choices = idle_actions.next_round(situation, front, self._dice)
        index = self._dice.below(len(choices) + 1)
        if index < len(choices):
            self._intents.append(choices[index])
        else:
            self._glance(front, situation.loop, situation.player)

    def _act(self, loop: int, player: int) -> None:
        """Turns the next intent into inputs for the coming loops."""
        pause = self.profile.act_loops * (0.5 + self._dice.unit())
        end = loop
        if self._intents and self._actions < self.profile.burst:
            self._actions += 1
            intent = self._intents.popleft()
            end = self._acted = self._script_intent(intent, loop, player)
            pause *= 1.0 - 0.7 * self.profile.control if self.profile.human else 0.3
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
        repeat = intent.repeat
        if intent.ability in _REPEATED and self.profile.human:
            repeat += self._dice.chance(self.profile.habit)
        for copy in range(repeat):
            self._script.append((at, item))
            if copy % 3 == 2:
                at += 1 + self._dice.below(2)
        return at

    def _look(self, where: tuple[float, float] | None, at: int, player: int) -> int:
        """Moves the camera, more or less often, if the intent's place is off the screen."""
        if where is None or not self._dice.chance(self.profile.camera):
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

    def _glance(self, front: tactics.Front, loop: int, player: int) -> None:
        """Looks at its start location or its target, and recalls a control group."""
        dice = self._dice
        x, y = front.target if front.attacking and dice.chance(0.5) else front.start
        x, y = x + dice.below(17) - 8.0, y + dice.below(13) - 6.0
        self._camera, self._acted = (x, y), loop
        self._script.append((loop, CameraMove(player, x, y)))
        group = dice.below(_GROUPS)
        if group in self._groups:
            self._script.append((loop + 1, ControlGroup(player, group, RECALL)))


def _is_under_way(situation: Situation, intent: Intent) -> bool:
    """Returns whether the units of a spell or morph are already about to use it."""
    rows = np.flatnonzero(np.isin(situation.tags, intent.tags))
    orders = situation.abilities[situation.first_order[rows]]
    kinds = np.isin(orders["kind"], (ids.KIND_SPELL, ids.KIND_MORPH, ids.KIND_TUMOR))
    same = situation.first_order[rows] == intent.ability
    same |= (orders["general"] == intent.ability) & (intent.ability != 0)
    return bool(len(rows)) and bool(np.all(kinds & same))


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
    return Bot(Profile.of_person(skill), race, seed, build)


def computer(difficulty: int, race: int, seed: int, build: int = 1) -> Bot:
    """Returns a bot that plays like a built-in level; build is an AIBuild value."""
    if not 1 <= difficulty <= DIFFICULTIES["cheat_insane"]:
        raise errors.ConfigError(f"difficulty: expected 1 to 10, found {difficulty}")
    profile = Profile.of_computer(_LEVEL_SKILL[difficulty])
    return Bot(profile, race, seed, _BUILD_NAMES.get(build, "random"))
