"""An evaluation in a folder: who plays whom, the games, and the reports made of them.

    OUT/evaluation.json   what was asked for: contestants with digests, seed, maps, rules
    OUT/results.csv       one row per game, appended as games end
    OUT/replays/*.SC2Replay
    OUT/report.md, report.json, report.html

Running it again in the same folder carries on; more games or opponents may be asked for, but
not other agents under the same names, nor other rules, as the games would not compare.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from starmill.benchmark.games import map_pool, throttle
from starmill.benchmark.opponents import contestants as contestants_lib
from starmill.benchmark.ratings import elo, results, standings, winrates
from starmill.benchmark.reports import page, report
from starmill.benchmark.tournaments import referee, schedule, tournament
from starmill.schema import errors
from starmill.schema.game_constants import LOOPS_PER_MINUTE
from starmill.schema.settings import UNPLUGGED, ConverterSettings

RESULTS, CONFIG = "results.csv", "evaluation.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What to play.

    agents, opponents: contestants as on the command line (`contestants`).
    round_robin: all pairs; else agents against opponents only.
    games: of each pair. A multiple of nine plays all race pairs alike.
    maps: names; empty for the game's or the dataset's own.
    max_minutes: game time after which a game is a draw.
    actions: the throttle: at most this many in any five seconds.
    root, game_version: see `referee.RefereeConfig`.
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
class Plan:
    """A config with everything looked up: contestants, maps, games."""

    config: Config
    contestants: dict[str, contestants_lib.Contestant]
    maps: tuple[str, ...]
    fixtures: tuple[schedule.Fixture, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns what is written beside the results."""
        chosen = dataclasses.asdict(self.config)
        return {
            "config": chosen,
            "contestants": {
                name: dataclasses.asdict(one) for name, one in self.contestants.items()
            },
            "maps": list(self.maps),
            "games": len(self.fixtures),
        }


def plan(config: Config, offered_maps: Sequence[str]) -> Plan:
    """Returns the games that a config means, on maps of those the game offers."""
    agents = contestants_lib.contestants(config.agents)
    everybody = contestants_lib.contestants([*config.agents, *config.opponents])
    names = [one.name for one in everybody]
    if config.round_robin:
        pairs = schedule.round_robin(names)
    else:
        opponents = contestants_lib.contestants(config.opponents)
        pairs = schedule.against(
            [one.name for one in agents], [one.name for one in opponents]
        )
    by_name = {one.name: one for one in everybody}
    # The game's own AIs have no seat to play each other from.
    playable = [
        (home, away)
        for home, away in pairs
        if by_name[home].built_in is None or by_name[away].built_in is None
    ]
    if not playable:
        raise errors.ConfigError(
            "nothing to play: name an agent, and an opponent other than itself"
        )
    maps = map_pool.choose(offered_maps, config.maps)
    fixtures = schedule.fixtures(
        playable, games=config.games, maps=maps, seed=config.seed
    )
    return Plan(
        config=config,
        contestants=by_name,
        maps=tuple(maps),
        fixtures=tuple(fixtures),
    )


def run(
    chosen: Plan,
    out: Path,
    *,
    parallel: int = 1,
    settings: ConverterSettings = UNPLUGGED,
    progress: Callable[[int, int, int], None] = lambda done, total, crashes: None,
) -> list[tournament.Failure]:
    """Plays what is left of the plan into the folder; returns the games that kept failing."""
    out.mkdir(parents=True, exist_ok=True)
    with results.Store(out / RESULTS) as store:
        check_same(chosen, out, list(store.done.values()))
        text = json.dumps(chosen.to_json(), indent=1, sort_keys=True) + "\n"
        report.write_text(out / CONFIG, text)
        config = chosen.config
        return tournament.run(
            chosen.fixtures,
            store,
            out,
            digests={name: one.digest for name, one in chosen.contestants.items()},
            make_referee=referee.RefereeConfig(
                root=config.root,
                game_version=config.game_version,
                contestants=chosen.contestants,
                settings=settings,
                max_loops=max(1, round(config.max_minutes * LOOPS_PER_MINUTE)),
                limit=throttle.Limit(actions=config.actions),
            ),
            parallel=parallel,
            progress=progress,
        )


def played_already(chosen: Plan, out: Path) -> int:
    """Returns how many of the plan's games the folder has."""
    if not (out / RESULTS).exists():
        return 0
    with results.Store(out / RESULTS) as store:
        return sum(fixture.game in store.done for fixture in chosen.fixtures)


def check_same(chosen: Plan, out: Path, done: Sequence[results.Result]) -> None:
    """Raises ConfigError where the folder's games were played by others or otherwise."""
    problems = {*_other_contestants(chosen, done), *_turned_pairs(chosen, done)}
    path = out / CONFIG
    if path.is_file() and done:
        problems |= _other_rules(chosen, path)
    if problems:
        raise errors.ConfigError(
            f"{out} holds games that do not compare with these: "
            + "; ".join(sorted(problems))
            + ". Ask for what was played, or choose another --out."
        )


def _other_contestants(chosen: Plan, done: Sequence[results.Result]) -> set[str]:
    problems = set()
    for row in done:
        for name, digest in (
            (row.home, row.home_digest),
            (row.away, row.away_digest),
        ):
            known = chosen.contestants.get(name)
            if known is not None and known.digest != digest:
                problems.add(f"{name} was {digest}, is now {known.digest}")
    return problems


def _turned_pairs(chosen: Plan, done: Sequence[results.Result]) -> set[str]:
    """A pair the other way round: its games would be others, and count as further ones."""
    played = {(row.home, row.away) for row in done}
    wanted = {(one.home, one.away) for one in chosen.fixtures}
    return {
        f"{away} was at home against {home}: name {away} first"
        for home, away in wanted
        if (away, home) in played
    }


def _other_rules(chosen: Plan, path: Path) -> set[str]:
    try:
        before = json.loads(path.read_text("utf-8"))
        rules = {**before["config"], "maps": before["maps"]}
    except (ValueError, KeyError, TypeError) as error:
        raise errors.FormatError(
            f"{path}: not written by `starmill evaluate`"
        ) from error
    now = {**chosen.to_json()["config"], "maps": list(chosen.maps)}
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
) -> report.Report:
    """Rates the folder's games and writes the three reports; returns what they show."""
    rows = sorted(results.read_results(out / RESULTS), key=lambda row: row.game)
    table = winrates.tabulate(row.as_game() for row in rows)
    lines = standings.standings(table, anchor, references=references)
    content = report.build(
        table, lines, anchor=anchor, results=rows, folder=out, title=title
    )
    report.write_markdown(content, out / "report.md")
    report.write_json(content, out / "report.json")
    page.write_html(content, out / "report.html")
    return content
