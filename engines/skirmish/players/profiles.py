"""What a skill means in play, and the skill that a rating stands for.

In: a skill from 0 to 1, or the ratings of two players. Out: a `Profile`, the numbers by which a bot
plays. Must not know: the game, or how a bot follows its profile.
"""

import dataclasses
from collections.abc import Sequence

_UNLIMITED = 1000  # more actions than any bot takes between two looks


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """What a skill means in play.

    Attributes:
        think_loops: mean loops between two looks at the whole game.
        slip: share of intents that the bot overlooks, 0 to 1.
        burst: most actions between two looks; the rest of what it wanted is decided anew.
        lapse_loops: mean loops between two lapses, in each of which the bot forgets one of its
            concerns for a while; 0 if it forgets nothing.
        chores: share of looks at which it considers gathering, gas and other chores, 0 to 1.
        habit: probability of a small command that changes nothing at a look that leads to nothing
            else, and of repeating a command.
        camera: probability that it moves the camera to a place off the screen before it acts there.
        act_loops: mean loops between two actions.
        workers: share of the style's workers that it trains, 0 to 1.
        slack: share of the spare supply of a perfect player that it keeps ready, 0 to 1.
        guard: supply of army per worker beyond the first sixteen that it has before it trains
            more workers.
        army: supply of the largest army that it can keep going.
        control: how well it leads its army, 0 to 1.
        human: whether it plays like a person: it moves a camera, selects units, repeats commands,
            hunts the last buildings in squads and may surrender.
    """

    think_loops: float
    slip: float
    burst: int
    lapse_loops: float
    chores: float
    habit: float
    camera: float
    act_loops: float
    workers: float
    slack: float
    guard: float
    army: float
    control: float
    human: bool

    @classmethod
    def of_computer(cls, skill: float) -> "Profile":
        """Returns the profile of a built-in level; skill is 0 (a beginner) to 1 (the best).

        A weak level looks rarely and overlooks much.
        """
        # Beyond 0.85, thinking more often wins no more games (measured).
        s = 0.85 * min(max(skill, 0.0), 1.0)
        return cls(
            think_loops=20.0 + 160.0 * (1.0 - s) + 500.0 * (1.0 - s) * (1.0 - s),
            slip=0.7 * (1.0 - s),
            burst=_UNLIMITED,
            lapse_loops=0.0,
            chores=1.0,
            habit=0.0,
            camera=0.0,
            act_loops=5.0 + 5.0 * (1.0 - s),
            workers=0.4 + 0.6 * s,
            slack=0.2 + 0.8 * s,
            guard=1.2 * s,
            army=14.0 + 26.0 * s + 90.0 * s * s,
            control=s,
            human=False,
        )

    @classmethod
    def of_person(cls, skill: float) -> "Profile":
        """Returns the profile of a person; skill is 0 (a beginner) to 1 (the best).

        Every person looks before every action or two, so that each action answers what the player
        sees, and an agent can learn why it was taken. Weak players forget more, act more
        slowly, and build smaller economies and armies.
        """
        s = min(max(skill, 0.0), 1.0)
        weakness = 1.0 - s
        return cls(
            think_loops=12.0 + 130.0 * weakness * weakness,
            slip=0.04 + 0.4 * weakness,
            burst=1 + int(5.0 * s),
            lapse_loops=80.0 + 1500.0 * s * s,
            chores=0.12,
            habit=0.006 + 0.03 * weakness,
            camera=0.06 + 0.2 * weakness,
            act_loops=5.0 + 5.0 * weakness,
            workers=0.7 + 0.3 * s,
            slack=0.2 + 0.8 * s,
            guard=0.3 + 1.4 * s,
            army=12.0 + 28.0 * s + 90.0 * s * s,
            control=s,
            human=True,
        )


# (MMR, skill): how well a player of this rating plays, with straight lines between the points.
_MMR_SKILL = ((1000, 0.0), (2500, 0.2), (7000, 0.8), (8500, 1.0))
# (MMR, skill per point): the difference in skill that wins as often as Elo says that a point of
# MMR does. Fitted to ladder games, with straight lines between the points. It grows because the
# results of good players depend less on skill.
_GAP_PER_MMR = ((2500, 0.0004), (4000, 0.0007), (5500, 0.0016), (7000, 0.0024))


def _interpolated(points: Sequence[tuple[float, float]], x: float) -> float:
    """Returns the y at x of straight lines between points, and beyond them that of the last."""
    if x <= points[0][0]:
        return points[0][1]
    for (low, a), (high, b) in zip(points, points[1:], strict=False):
        if x <= high:
            return a + (b - a) * (x - low) / (high - low)
    return points[-1][1]


def skill_of(mmr: float) -> float:
    """Returns the skill of a player of this rating."""
    return _interpolated(_MMR_SKILL, mmr)


def skill_against(mmr: float, opponent_mmr: float) -> float:
    """Returns the skill with which a player of this rating plays against a given opponent.

    Elo spans 26 logits over 4,500 points of MMR, but the whole range of skill spans only about 5,
    so a fixed skill per rating cannot give a ladder's results. Instead, the mean of the two ratings
    sets how well both play, and their difference, scaled to Elo, sets how much better one plays
    than the other.
    """
    mean = (mmr + opponent_mmr) / 2
    gap = _interpolated(_GAP_PER_MMR, mean) * (mmr - opponent_mmr)
    gap = min(max(gap, -1.0), 1.0)
    half = abs(gap) / 2
    middle = min(max(skill_of(mean), half), 1.0 - half)
    return middle + gap / 2
