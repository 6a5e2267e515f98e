"""How an agent plays over many games: the numbers that the reports show.

In: the records of one player's games. Out: a `Summary`. Means and medians are over games that have the
number, and say of how many.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from starmill.benchmark.statistics import function_groups
from starmill.benchmark.statistics.play_record import POSSESSIONS, VALUE, PlayRecord
from starmill.schema.game_constants import LOOPS_PER_MINUTE

# The minute at which banks are compared, unless fewer than half of the games are as long.
COMPARED_MINUTE = 10
# An army sets out: fewer units than this are a scout or a stray.
ARMY_UNITS = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Refusals:
    """Commands of one group over all games.

    Attributes:
        commands: how many there were.
        refused: how many of them the game refused; None if unknown.
        reasons: how often for which reason, the most frequent first.
    """

    commands: int
    refused: int | None
    reasons: dict[str, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """How one player plays.

    Attributes:
        games: how many games it is made of.
        steps_per_minute: observations at which the player acted, per minute of game time.
        commands_per_minute: actions other than no-ops, per minute of game time.
        decision_share: of the commands, the share that builds, trains, researches or morphs.
        refused_share: of these, the share that the game refused; None if unknown.
        groups: commands and refusals by function group, groups without commands left out.
        minutes: by name, the mean over games at each whole minute; None where no game has it.
        minute_games: how many games lasted until each whole minute.
        compared_minute: the minute at which the bank is compared.
        bank: mean minerals at that minute; None if every game was shorter.
        gas: mean vespene gas at that minute, likewise.
        supply: mean supply used at that minute, likewise.
        away_attacks: attacks far from home, mean per game.
        attack_units: median number of units in an attack far from home; None without one.
        attack_share: mean share of the army in such an attack; None without one.
        first_attack: median minute of the first attack far from home with at least ARMY_UNITS
            units, over the games that have one; None without one.
        attacking_games: games with such an attack.
        enemy_structures: median number of enemy structures left in games that reached the
            time limit; None without such games.
        limit_games: how many games reached the time limit, of those whose end is known.
    """

    games: int
    steps_per_minute: float
    commands_per_minute: float
    decision_share: float | None
    refused_share: float | None
    groups: dict[str, Refusals]
    minutes: dict[str, tuple[float | None, ...]]
    minute_games: tuple[int, ...]
    compared_minute: int
    bank: float | None
    gas: float | None
    supply: float | None
    away_attacks: float
    attack_units: float | None
    attack_share: float | None
    first_attack: float | None
    attacking_games: int
    enemy_structures: float | None
    limit_games: int

    def to_json(self) -> dict[str, Any]:
        """Returns the summary as JSON."""
        return dataclasses.asdict(self)


def summarize(
    records: Sequence[PlayRecord], enemy_structures: Sequence[int] = ()
) -> Summary:
    """Returns the summary of a player's games, of which there must be at least one.

    enemy_structures: how many the opponent had left, for each game that reached its limit.
    """
    minutes, minute_games = _by_minute(records)
    compared = _compared_minute(minute_games, len(records))
    game_minutes = sum(record.game_loops for record in records) / LOOPS_PER_MINUTE
    commands = sum(sum(record.commands.values()) for record in records)
    decisions = sum(record.decisions for record in records)
    refused = [r.refused_decisions for r in records if r.refused_decisions is not None]
    judged = sum(r.decisions for r in records if r.refused is not None)
    away = [[a for a in record.attacks if a.is_away] for record in records]
    sent = [attack for attacks in away for attack in attacks]
    shares = [attack.share for attack in sent if attack.share is not None]
    firsts = [
        min(loops) / LOOPS_PER_MINUTE
        for attacks in away
        if (loops := [one.loop for one in attacks if one.units >= ARMY_UNITS])
    ]

    def compared_mean(name: str) -> float | None:
        return minutes[name][compared - 1] if compared else None

    return Summary(
        games=len(records),
        steps_per_minute=_rounded(
            sum(r.steps for r in records) / max(game_minutes, 1e-9)
        ),
        commands_per_minute=_rounded(commands / max(game_minutes, 1e-9)),
        decision_share=_rounded(decisions / commands) if commands else None,
        refused_share=_rounded(sum(refused) / judged) if judged else None,
        groups=_groups(records),
        minutes=minutes,
        minute_games=minute_games,
        compared_minute=compared,
        bank=compared_mean("minerals"),
        gas=compared_mean("vespene"),
        supply=compared_mean("food_used"),
        away_attacks=_rounded(len(sent) / len(records)),
        attack_units=_median([attack.units for attack in sent]),
        attack_share=_mean(shares),
        first_attack=_median(firsts),
        attacking_games=len(firsts),
        enemy_structures=_median(enemy_structures),
        limit_games=len(enemy_structures),
    )


def _by_minute(
    records: Sequence[PlayRecord],
) -> tuple[dict[str, tuple[float | None, ...]], tuple[int, ...]]:
    lengths = [len(record.minutes[POSSESSIONS[0]]) for record in records]
    longest = max(lengths, default=0)
    counts = tuple(
        sum(length >= minute for length in lengths) for minute in range(1, longest + 1)
    )
    means = {
        name: tuple(
            _mean(
                [
                    number
                    for record in records
                    if (number := record.at_minute(name, minute)) is not None
                ]
            )
            for minute in range(1, longest + 1)
        )
        for name in (*POSSESSIONS, VALUE)
    }
    return means, counts


def _compared_minute(minute_games: Sequence[int], games: int) -> int:
    """Returns the latest minute up to COMPARED_MINUTE that half of the games reach; or 0."""
    reached = [m for m, n in enumerate(minute_games, start=1) if 2 * n >= games]
    return min(max(reached, default=0), COMPARED_MINUTE)


def _groups(records: Sequence[PlayRecord]) -> dict[str, Refusals]:
    out = {}
    for group in function_groups.GROUPS:
        commands = sum(record.commands.get(group, 0) for record in records)
        if not commands:
            continue
        known = [record.refused for record in records if record.refused is not None]
        reasons: dict[str, int] = {}
        for refused in known:
            for reason, times in refused.get(group, {}).items():
                reasons[reason] = reasons.get(reason, 0) + times
        ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        out[group] = Refusals(
            commands=commands,
            refused=sum(reasons.values()) if known else None,
            reasons=dict(ordered),
        )
    return out


def _mean(values: Sequence[float]) -> float | None:
    return _rounded(float(np.mean(values))) if values else None


def _median(values: Sequence[float]) -> float | None:
    return _rounded(float(np.median(values))) if values else None


def _rounded(value: float) -> float:
    return round(value, 4)
