"""How the agents played, for the reports: summaries by player, and the tables that show them.

In: an evaluation's folder with its results, and the records of a dataset's players. Out: a `Play`, and
tables of text.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starmill.benchmark.ratings import adjudication
from starmill.benchmark.ratings.adjudication import PairScore
from starmill.benchmark.ratings.results import Result
from starmill.benchmark.statistics import files, summary
from starmill.benchmark.statistics.play_record import VALUE, PlayRecord
from starmill.benchmark.statistics.summary import Summary

Rows = list[tuple[str, ...]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Play:
    """How players played, and how games at their limit stood.

    Attributes:
        agents: summaries by agent; the game's own AI has none.
        dataset: the reference of the dataset that the agents are compared with; empty for none.
        dataset_players: the summary of its players; None for none.
        pairs: each pair's score, strict and adjudicated; empty if no game was adjudicated.
        rows: the results with games at their limit adjudicated.
        missing: games without statistics, which earlier versions played.
    """

    agents: Mapping[str, Summary] = dataclasses.field(default_factory=dict)
    dataset: str = ""
    dataset_players: Summary | None = None
    pairs: tuple[PairScore, ...] = ()
    rows: tuple[Result, ...] = ()
    missing: int = 0

    @property
    def players(self) -> dict[str, Summary]:
        """Returns all summaries, those of the dataset's players last."""
        out = dict(self.agents)
        if self.dataset_players is not None:
            out["the dataset's players"] = self.dataset_players
        return out

    def to_json(self) -> dict[str, Any]:
        """Returns the numbers, for programs."""
        players = self.dataset_players
        return {
            "agents": {name: one.to_json() for name, one in self.agents.items()},
            "dataset": self.dataset or None,
            "dataset_players": None if players is None else players.to_json(),
            "adjudicated": [dataclasses.asdict(pair) for pair in self.pairs],
            "games_without_statistics": self.missing,
        }


def collect(
    folder: Path,
    rows: Sequence[Result],
    *,
    dataset: str = "",
    dataset_records: Sequence[PlayRecord] = (),
) -> Play:
    """Returns how the games of an evaluation's folder were played."""
    records: dict[str, list[PlayRecord]] = {}
    structures: dict[str, list[int]] = {}
    material = {}
    missing = 0
    for row in rows:
        game = files.read(folder, row.game)
        if game is None:
            missing += 1
            continue
        for name, record in ((row.home, game.home), (row.away, game.away)):
            if record is not None:
                records.setdefault(name, []).append(record)
        if game.home_material and game.away_material:
            material[row.game] = (game.home_material, game.away_material)
            sides = ((row.home, game.away_material), (row.away, game.home_material))
            for name, enemy in sides:
                structures.setdefault(name, []).append(enemy.structures)
    adjudicated = adjudication.adjudicate(rows, material)
    pairs = adjudication.pair_scores(rows, adjudicated) if material else []
    return Play(
        agents={
            name: summary.summarize(records[name], structures.get(name, ()))
            for name in sorted(records)
        },
        dataset=dataset,
        dataset_players=summary.summarize(dataset_records) if dataset_records else None,
        pairs=tuple(pairs),
        rows=tuple(adjudicated),
        missing=missing,
    )


HEADINGS = (
    "Player",
    "Games",
    "Refused",
    "Bank",
    "Army sent",
    "Units",
    "First attack",
    "Supply",
    "Gas",
    "Commands/min",
    "Decisions",
    "Structures left",
)
# The three numbers that tell variants of an agent apart soonest.
_MOST_TELLING = (0, 1, 2, 3, 4)


def table_rows(play: Play) -> Rows:
    """Returns one line per player; `HEADINGS_TEXT` explains the columns."""
    return [
        (
            name,
            f"{one.games:,}",
            _percent(one.refused_share),
            _at(one.bank, one.compared_minute),
            _percent(one.attack_share),
            _number(one.attack_units),
            _minutes(one.first_attack, one.attacking_games, one.games),
            _at(one.supply, one.compared_minute),
            _at(one.gas, one.compared_minute),
            _number(one.commands_per_minute),
            _percent(one.decision_share),
            _number(one.enemy_structures),
        )
        for name, one in play.players.items()
    ]


HEADINGS_TEXT = (
    "Refused: commands to build, train, research and morph that the game refused. Bank, supply "
    "and gas: means at the minute shown. Army sent: mean share of the army in an attack far "
    "from home, and units: the median number in it. First attack: median minute of the first "
    f"one with at least {summary.ARMY_UNITS} units, and how many games have one. Decisions: "
    "share of commands that build, train, research or morph. Structures left: median number of "
    "enemy structures when a game reached its time limit."
)


def telling_table(play: Play) -> Rows:
    """Returns the three columns that tell most, with their headings, for a terminal."""
    rows = [HEADINGS, *table_rows(play)]
    return [tuple(row[i] for i in _MOST_TELLING) for row in rows]


REFUSAL_HEADINGS = ("Player", "Command", "Given", "Refused", "Reasons")


def refusal_rows(play: Play) -> Rows:
    """Returns one line per player and function group."""
    return [
        (
            name,
            group,
            f"{one.commands:,}",
            "unknown" if one.refused is None else _percent(one.refused / one.commands),
            ", ".join(
                f"{reason} {times:,}" for reason, times in list(one.reasons.items())[:4]
            ),
        )
        for name, player in play.players.items()
        for group, one in player.groups.items()
    ]


MINUTE_HEADINGS = (
    "Player",
    "Minute",
    "Games",
    "Minerals",
    "Gas",
    "Supply",
    "Army supply",
    "Workers",
    "Value",
)
_SHOWN_MINUTES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60)


def minute_rows(play: Play) -> Rows:
    """Returns what players had at some minutes, means over the games that long."""
    out: Rows = []
    for name, player in play.players.items():
        for minute in _SHOWN_MINUTES:
            if minute > len(player.minute_games):
                break
            at = {key: series[minute - 1] for key, series in player.minutes.items()}
            used, cap = _number(at["food_used"]), _number(at["food_cap"])
            out.append(
                (
                    name,
                    f"{minute}",
                    f"{player.minute_games[minute - 1]:,}",
                    _number(at["minerals"]),
                    _number(at["vespene"]),
                    f"{used}/{cap}",
                    _number(at["food_army"]),
                    _number(at["food_workers"]),
                    "" if at[VALUE] is None else f"{at[VALUE]:+.2f}",
                )
            )
    return out


PAIR_HEADINGS = ("Pair", "Strict", "Adjudicated", "Scored")


def pair_rows(play: Play) -> Rows:
    """Returns each pair's games won-drawn-lost, strict and adjudicated."""
    return [
        (
            f"{pair.agent} - {pair.opponent}",
            "-".join(map(str, pair.strict)),
            "-".join(map(str, pair.adjudicated)),
            f"{pair.scored:,}",
        )
        for pair in play.pairs
    ]


PAIR_TEXT = (
    "Won-drawn-lost by the first player. Strictly, a game that reaches its time limit is a draw. "
    f"Adjudicated, it is won by the side whose army and economy cost {adjudication.MARGIN:g} times "
    "as much as the other's. Ratings and win rates count strict results alone."
)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}%"


def _at(value: float | None, minute: int) -> str:
    return "-" if value is None else f"{value:,.0f} at {minute} min"


def _minutes(value: float | None, attacking: int, games: int) -> str:
    return "-" if value is None else f"{value:.1f} ({attacking} of {games})"
