"""Evaluates agents in a folder: plans the games, plays them, and writes the reports.

    OUT/evaluation.json   the request: contestants with digests, seed, maps, rules
    OUT/results.csv       one row per game, appended as games end
    OUT/replays/*.SC2Replay
    OUT/statistics/*.json how the players of each game played (`statistics.files`)
    OUT/decisions/*.json  what the agents of each game chose between (`statistics.decisions`)
    OUT/adjudicated.csv   the results with games at the time limit scored, if there are any
    OUT/watch/*.html      a page per game, which `starmill watch` makes (`watching`)
    OUT/report.md, report.json, report.html

A second run in the same folder continues the first, and may add games and opponents. It must
not change the rules, or give a name to another agent: the games would not be comparable.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from starmill.benchmark.games import map_pool, relay, throttle
from starmill.benchmark.opponents import contestants
from starmill.benchmark.opponents.contestants import Contestant
from starmill.benchmark.ratings import elo, results, standings, winrates
from starmill.benchmark.reports import page, play, report
from starmill.benchmark.statistics import dataset_players
from starmill.benchmark.tournaments import (
    acting_servers,
    referee,
    schedule,
    tournament,
)
from starmill.benchmark.watching import evaluation_games
from starmill.schema import errors
from starmill.schema.archives import json_text
from starmill.schema.game_constants import LOOPS_PER_MINUTE
from starmill.schema.loader.dataset import Dataset
from starmill.schema.settings import UNPLUGGED, ConverterSettings

RESULTS, CONFIG = results.FILE, "evaluation.json"
ADJUDICATED = "adjudicated.csv"
# Episodes of a dataset that say how its players play: enough for means, and a minute to read.
COMPARED_EPISODES = 200


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What to play.

    Attributes:
        agents: contestants to rate, as on the command line (`contestants`).
        opponents: contestants to rate them against.
        round_robin: play all pairs; otherwise only agents against opponents.
        games: games of each pair. A multiple of nine plays every race pair equally often.
        seed: decides races, maps, start positions and the agents' random choices.
        maps: names of maps; empty for the default ones (`map_pool.choose`).
        max_minutes: game time after which a game is a draw.
        actions: actions that an agent may take in any five seconds.
        root: the installation's folder, or "skirmish" for the embedded game.
        game_version: like "4.9.2"; empty for the newest installed one.
        bot_python: the interpreter for bots of python-sc2; empty for `.venv-burnysc2`.
        bot_seconds: for which a bot of python-sc2 may be silent before its game is given up.
    """

    agents: tuple[str, ...]
    opponents: tuple[str, ...] = ("very_hard",)
    round_robin: bool = False
    games: int = 18
    seed: int = 0
    maps: tuple[str, ...] = ()
    max_minutes: float = 60.0
    actions: int = 22
    root: str = "skirmish"
    game_version: str = ""
    bot_python: str = ""
    bot_seconds: float = relay.Patience.move

    def __post_init__(self) -> None:
        """Checks the numbers."""
        problems = []
        if not self.agents:
            problems.append("expected at least one agent")
        if self.games < 1:
            problems.append(f"games: expected 1 or more, found {self.games}")
        if not self.max_minutes > 0:
            problems.append(f"max_minutes: expected above 0, found {self.max_minutes}")
        if problems:
            raise errors.ConfigError("; ".join(problems))


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationPlan:
    """The games that a config stands for.

    Attributes:
        config: the request.
        contestants: everybody who plays, by name.
        maps: paths of the maps, sorted.
        fixtures: the games, in the order in which they start.
    """

    config: Config
    contestants: dict[str, Contestant]
    maps: tuple[str, ...]
    fixtures: tuple[schedule.Fixture, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns the content of `evaluation.json`."""
        return {
            "config": dataclasses.asdict(self.config),
            "contestants": {
                name: dataclasses.asdict(contestant)
                for name, contestant in self.contestants.items()
            },
            "maps": list(self.maps),
            "games": len(self.fixtures),
        }


def plan(config: Config, offered_maps: Sequence[str]) -> EvaluationPlan:
    """Returns the games that a config stands for, on maps that the game offers."""
    python = config.bot_python
    agents = contestants.contestants(config.agents, python)
    opponents = contestants.contestants(config.opponents, python)
    everybody = contestants.contestants([*config.agents, *config.opponents], python)
    by_name = {player.name: player for player in everybody}
    if config.round_robin:
        pairs = schedule.round_robin(list(by_name))
    else:
        pairs = schedule.against(
            [agent.name for agent in agents], [player.name for player in opponents]
        )
    # Every game needs an agent: the game's own AIs and bots cannot play each other.
    playable = [
        (home, away)
        for home, away in pairs
        if by_name[home].is_agent or by_name[away].is_agent
    ]
    if not playable:
        raise errors.ConfigError(
            "nothing to play: name an agent, and an opponent other than itself"
        )
    maps = map_pool.choose(offered_maps, config.maps)
    fixtures = schedule.fixtures(
        playable, games=config.games, maps=maps, seed=config.seed
    )
    return EvaluationPlan(
        config=config,
        contestants=by_name,
        maps=tuple(maps),
        fixtures=tuple(_with_own_races(fixture, by_name) for fixture in fixtures),
    )


def _with_own_races(
    fixture: schedule.Fixture, by_name: dict[str, Contestant]
) -> schedule.Fixture:
    """Returns the fixture, with the race of contestants that play only one."""
    home, away = by_name[fixture.home].race, by_name[fixture.away].race
    return dataclasses.replace(
        fixture,
        home_race=home or fixture.home_race,
        away_race=away or fixture.away_race,
    )


def run(
    plan: EvaluationPlan,
    out: Path,
    *,
    parallel: int = 1,
    settings: ConverterSettings = UNPLUGGED,
    progress: Callable[[int, int, int], None] = lambda done, total, crashes: None,
) -> list[tournament.Failure]:
    """Plays the games that the folder lacks; returns those that failed repeatedly."""
    out.mkdir(parents=True, exist_ok=True)
    with results.Store(out / RESULTS) as store:
        check_same(plan, out, list(store.done.values()))
        text = json.dumps(plan.to_json(), indent=1, sort_keys=True) + "\n"
        report.write_text(out / CONFIG, text)
        config = plan.config
        with acting_servers.ActingServers(
            plan.contestants.values(), threads=parallel
        ) as servers:
            return tournament.run(
                plan.fixtures,
                store,
                out,
                digests={
                    name: contestant.digest
                    for name, contestant in plan.contestants.items()
                },
                make_referee=referee.RefereeConfig(
                    root=config.root,
                    game_version=config.game_version,
                    contestants=plan.contestants,
                    settings=settings,
                    max_loops=max(1, round(config.max_minutes * LOOPS_PER_MINUTE)),
                    limit=throttle.Limit(actions=config.actions),
                    patience=relay.Patience(move=config.bot_seconds),
                    # A single worker is this process, and its agents act in it too.
                    addresses=servers.addresses if parallel > 1 else {},
                ),
                parallel=parallel,
                attendant=servers,
                progress=progress,
            )


def played_already(plan: EvaluationPlan, out: Path) -> int:
    """Returns how many of the plan's games the folder holds."""
    if not (out / RESULTS).exists():
        return 0
    with results.Store(out / RESULTS) as store:
        return sum(fixture.game in store.done for fixture in plan.fixtures)


def check_same(plan: EvaluationPlan, out: Path, done: Sequence[results.Result]) -> None:
    """Raises ConfigError if the folder's games had other players or rules than the plan's."""
    problems = {*_changed_contestants(plan, done), *_swapped_pairs(plan, done)}
    path = out / CONFIG
    if path.is_file() and done:
        problems |= _changed_rules(plan, path)
    if problems:
        raise errors.ConfigError(
            f"{out} holds games that are not comparable with these: "
            + "; ".join(sorted(problems))
            + ". Repeat the earlier request, or choose another --out."
        )


def _changed_contestants(
    plan: EvaluationPlan, done: Sequence[results.Result]
) -> set[str]:
    problems = set()
    for row in done:
        for name, digest in (
            (row.home, row.home_digest),
            (row.away, row.away_digest),
        ):
            contestant = plan.contestants.get(name)
            if contestant is not None and contestant.digest != digest:
                problems.add(f"{name} was {digest}, is now {contestant.digest}")
    return problems


def _swapped_pairs(plan: EvaluationPlan, done: Sequence[results.Result]) -> set[str]:
    """Returns pairs with home and away swapped: they play different games."""
    played = {(row.home, row.away) for row in done}
    planned = {(fixture.home, fixture.away) for fixture in plan.fixtures}
    return {
        f"{away} was at home against {home}: name {away} first"
        for home, away in planned
        if (away, home) in played
    }


def _changed_rules(plan: EvaluationPlan, path: Path) -> set[str]:
    try:
        before = json_text.parse(path.read_text("utf-8"))
        rules = {**before["config"], "maps": before["maps"]}
    except (ValueError, KeyError, TypeError) as error:
        raise errors.FormatError(
            f"{path}: not written by `starmill evaluate`"
        ) from error
    now = {**plan.to_json()["config"], "maps": list(plan.maps)}
    return {
        f"{key} was {rules.get(key)!r}, is now {now[key]!r}"
        for key in ("seed", "maps", "max_minutes", "actions", "game_version")
        if rules.get(key) != now[key]
    }


def has_games(out: Path) -> bool:
    """Returns whether the folder holds at least one game."""
    return results.has_columns(out / RESULTS)


def write_reports(
    out: Path,
    *,
    anchor: str = elo.ANCHOR,
    references: dict[str, float] | None = None,
    title: str = "Evaluation",
    compared: Dataset | None = None,
) -> report.Report:
    """Rates the folder's games, writes the three reports, and returns their content.

    compared: a dataset whose players are shown beside the agents.
    """
    rows = sorted(results.read_results(out / RESULTS), key=lambda row: row.game)
    played = play.collect(
        out,
        rows,
        dataset="" if compared is None else compared.reference,
        dataset_records=[]
        if compared is None
        else dataset_players.records(compared, COMPARED_EPISODES),
    )
    table = winrates.tabulate(row.as_game() for row in rows)
    lines = standings.standings(table, anchor, references=references)
    content = report.build(
        table,
        lines,
        anchor=anchor,
        results=rows,
        folder=out,
        title=title,
        played=played,
    )
    if played.pairs:
        results.write_results(out / ADJUDICATED, played.rows)
    report.write_markdown(content, out / "report.md")
    report.write_json(content, out / report.JSON)
    page.write_html(content, out / "report.html")
    evaluation_games.write_placeholders(out)
    return content
