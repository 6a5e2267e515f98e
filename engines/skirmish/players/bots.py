"""Players made of rules: one family with a skill knob.

`computer` plays like the game's built-in levels; `human` plays like a person of a given rating,
with a camera, selections, control groups, repeated commands, slips and pauses. Both decide in
the same way; skill says how often they think, how much they overlook, how fast they act and how
big they build. A bot sees only what its player may see; cheating levels get their advantage
from the game's setup (`computer_setup`), not from here.
"""

import collections
import dataclasses
import functools
import json
import math
from importlib import resources
from typing import Any, NamedTuple

from starmill.engines.skirmish.players import (
    army_production,
    idle_actions,
    macro,
    special_abilities,
    tactics,
)
from starmill.engines.skirmish.players.situation import Dice, Intent, Scene
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
from starmill.schema.game_constants import BUILDS, DIFFICULTIES, RACE_NAMES

_BUILD_NAMES = {number: name for name, number in BUILDS.items()}
# By Difficulty; those that cheat play like the best and have more to play with.
_LEVEL_SKILL = (0.0, 0.0, 0.1, 0.22, 0.36, 0.52, 0.7, 0.94, 1.0, 1.0, 1.0)
# Orders that people click again and again; doing so changes nothing.
_AGAIN = frozenset({tactics.ATTACK, tactics.MOVE, 3666})
_CAMERA_REACH = (10.0, 7.0)  # what is within this of the camera is on the screen


@functools.cache
def strategies() -> dict[str, Any]:
    """Returns the bots' build plans by race name, from `strategies.json`."""
    text = resources.files("starmill.engines.skirmish.players").joinpath(
        "strategies.json"
    )
    plans: dict[str, Any] = json.loads(text.read_text("utf-8"))
    return plans


class Level(NamedTuple):
    """What the game itself grants a built-in level; 1.0 and False for fair players."""

    income: float
    all_visible: bool


def computer_setup(difficulty: int) -> Level:
    """Returns the advantages of a Difficulty (0 for a player who is no computer)."""
    income = {9: 1.5, 10: 2.0}.get(difficulty, 1.0)
    return Level(income, difficulty >= DIFFICULTIES["cheat_vision"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """What a skill means in play.

    think_loops: between two looks at the whole game. slip: share of intents that are
    overlooked. act_loops: mean between two actions. workers: share of the style's workers.
    slack: share of the supply that a perfect player keeps ready. control: of the army, 0 to 1.
    guard: food of army per worker beyond the first sixteen that must be there before more workers.
    army: food of the largest army that the player can keep going.
    human: shows a camera, selections and repeated commands, and leaves lost games.
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
        """Returns the profile of a skill, 0 (a beginner) to 1 (the best)."""
        # Thinking oftener than at 0.85 of these curves was measured to win no more games.
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
    """One scripted player of one game. `next_loop` is when it next wants to be asked."""

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
        self._dice = Dice(seed * 2654435761 + race)
        self._build = build
        self.style = ""  # known once the first loop was played
        self._plan: macro.Plan | None = None
        self._front: tactics.Front | None = None
        self._intents: collections.deque[Intent] = collections.deque()
        self._script: collections.deque[tuple[int, Input]] = collections.deque()
        self._next_think = 10 + self._dice.below(20)
        self._next_act = self._next_think
        self._camera = (0.0, 0.0)
        self._last: Intent | None = None
        self._habits: list[Intent] = []
        self._turn = 0  # in the round of habits
        self._groups: dict[int, tuple[int, ...]] = {}
        self._doom = 0

    def act(self, game: Game, player: int) -> list[Input]:
        """Returns the player's inputs for the coming loop; mostly none."""
        loop = game.loop
        if loop < self.next_loop:
            return []
        if self._plan is None:
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
        race = strategies()[RACE_NAMES[self.race]]
        self.style = self._style_name(race)
        style = race["styles"][self.style]
        ordered = sorted(
            game.map.bases,
            key=lambda base: (base.x - start[0]) ** 2 + (base.y - start[1]) ** 2,
        )
        self._plan = macro.Plan(
            race=race,
            style=style,
            workers=max(int(style["workers"] * self.profile.workers + 0.5), 14),
            bases=style["bases"],
            slack=self.profile.slack,
            guard=self.profile.guard,
            army=self.profile.army,
            start=start,
            order=_by_ground(game.map, tuple(ordered)),
        )
        # Early styles go out with half of what the player can lead, late ones with most of it.
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
        """Returns the style asked for, or one drawn by the styles' weights."""
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
        """Looks at the game and makes a new list of intents. Returns True to give up."""
        if self._plan is None or self._front is None:
            raise AssertionError("a bot thinks only after it has started")
        plan, front, dice = self._plan, self._front, self._dice
        scene = Scene(game, player)
        pause = self.profile.think_loops * (0.6 + 0.8 * dice.unit())
        self._next_think = game.loop + max(int(pause), 4)
        if self.profile.human:
            self._doom = self._doom + 1 if tactics.is_hopeless(scene, front) else 0
            if self._doom > 5:
                return True
        wanted = [
            *tactics.lead(scene, front, dice),
            *special_abilities.fight(scene, dice),
            *macro.unfinished(scene),
            *macro.supply(scene, plan, dice),
            *army_production.guard(scene, plan, dice),
            *macro.workers(scene, plan),
            *army_production.queens(scene, plan),
            *special_abilities.energy(scene, dice),
            *macro.expand(scene, plan),
            *macro.tech(scene, plan, dice),
            *macro.gas(scene, plan),
            *army_production.army(scene, plan, dice),
            *macro.upgrades(scene, plan),
            *macro.idle_workers(scene),
            *special_abilities.chores(scene, dice),
        ]
        if self.profile.human:
            self._habits = idle_actions.form(scene, front, dice)
        slip = self.profile.slip
        self._intents = collections.deque(i for i in wanted if not dice.chance(slip))
        return False

    def _act(self, loop: int, player: int) -> None:
        """Turns the next intent into inputs for the coming loops."""
        dice = self._dice
        pause = self.profile.act_loops * (0.5 + dice.unit())
        if self._intents:
            intent = self._intents.popleft()
            self._turn = 0
            end = self._script_intent(intent, loop, player)
            self._last = intent if intent.ability in _AGAIN else None
            pause *= 1.0 - 0.7 * self.profile.control if self.profile.human else 0.3
        elif self.profile.human:
            end = self._fidget(loop, player)
        else:
            end = loop
        self._next_act = end + max(int(pause), 1)

    def _script_intent(self, intent: Intent, loop: int, player: int) -> int:
        """Writes an intent as camera move, selection and command; returns the last loop."""
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
        copies = intent.repeat
        for copy in range(copies):
            self._script.append((at, item))
            if copy % 3 == 2:
                at += 1 + self._dice.below(2)
        return at

    def _look(self, where: tuple[float, float] | None, at: int, player: int) -> int:
        """Moves the camera if what is to be done is off the screen."""
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
        """Selects the units of an intent, by their control group if they have one."""
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

    def _fidget(self, loop: int, player: int) -> int:
        """What a person does with nothing to do: clicks again, goes a round of habits, or waits."""
        # The better decide oftener and act faster, and have less time to fill; so of everybody
        # there is a step about every fifteen loops, as in people's replays.
        roll = self._dice.unit() / (1.0 - 0.6 * self.profile.control)
        if roll < 0.06 and self._last is not None:
            return self._script_intent(self._last, loop, player)
        if roll >= 0.57 or self._front is None:
            return loop
        turn, self._turn = self._turn, self._turn + 1
        if turn < len(self._habits):
            return self._script_intent(self._habits[turn], loop, player)
        self._turn = 0
        return self._glance(self._front, loop, player)

    def _glance(self, front: tactics.Front, loop: int, player: int) -> int:
        """Looks at home or the front, and goes through a control group."""
        dice = self._dice
        x, y = front.target if front.attacking and dice.chance(0.5) else front.start
        x, y = x + dice.below(17) - 8.0, y + dice.below(13) - 6.0
        self._camera = (x, y)
        self._script.append((loop, CameraMove(player, x, y)))
        group = dice.below(6)
        if group in self._groups:
            recall = ControlGroup(player, group, RECALL)
            self._script.append((loop + 1, recall))
        return loop + 1


@functools.cache
def _by_ground(
    game_map: maps.GameMap, ordered: tuple[maps.Base, ...]
) -> tuple[maps.Base, ...]:
    """Returns bases with the natural second: it is nearer on foot than any other."""
    start = ordered[0]
    own = [base for base in ordered if base is not start]
    index = game_map.bases.index(start) % 2
    natural = game_map.bases[2 + index]
    rest = [base for base in own if base is not natural]
    return (start, natural, *rest)


# Skill at these ratings, straight lines between: how well the game is played.
_MMR_SKILL = ((1000, 0.0), (2500, 0.2), (7000, 0.8), (8500, 1.0))
# How much skill makes the difference that Elo gives a point of MMR, at two ratings and on the line
# through them: fitted to ladder games. Good players differ less in how they do, so a point takes more.
_GAP_PER_MMR = ((2500, 0.00042), (7000, 0.00100))


def skill_of(mmr: float) -> float:
    """Returns the skill that a rating stands for."""
    points = _MMR_SKILL
    if mmr <= points[0][0]:
        return points[0][1]
    for (low, a), (high, b) in zip(points, points[1:], strict=False):
        if mmr <= high:
            return a + (b - a) * (mmr - low) / (high - low)
    return points[-1][1]


def skill_against(mmr: float, opponent_mmr: float) -> float:
    """Returns the skill that a rating stands for against a given opponent.

    The whole range of skill is worth some 7 logits, but 4,500 points of MMR are 26: one family
    of scripts cannot be all of a ladder. So the mean of two ratings says how well a game is
    played, and their difference, stretched to what Elo means by it, who plays it better: people
    rise to a better opponent and take it easy against a worse one, but not all the way.
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
    """Returns a bot that plays like a person of this rating, against one of another if known."""
    skill = skill_of(mmr) if opponent_mmr is None else skill_against(mmr, opponent_mmr)
    return Bot(Profile.of_skill(skill, human=True), race, seed, build)


def computer(difficulty: int, race: int, seed: int, build: int = 1) -> Bot:
    """Returns a bot that plays like a built-in level; build is an AIBuild value."""
    if not 1 <= difficulty <= DIFFICULTIES["cheat_insane"]:
        raise errors.ConfigError(f"difficulty {difficulty}: expected 1 to 10")
    profile = Profile.of_skill(_LEVEL_SKILL[difficulty], human=False)
    return Bot(profile, race, seed, _BUILD_NAMES.get(build, "random"))


def make_bot(
    kind: str,
    race: int,
    seed: int,
    *,
    mmr: int = 4000,
    difficulty: int = 7,
    build: str = "random",
) -> Bot:
    """Returns a bot by kind: "human" (of an mmr) or "computer" (of a difficulty)."""
    if kind == "human":
        return human(mmr, race, seed, build)
    if kind == "computer":
        return computer(difficulty, race, seed, BUILDS[build])
    raise errors.ConfigError(f"bot {kind!r}: expected human or computer")
