"""The pages of an evaluation's games.

In: an evaluation's folder, with its results, replays and decisions. Out: `watch/GAME.html` in it. The
replay is played again for both sides. What an agent considered is joined to its side.
"""

import html
from collections.abc import Sequence
from pathlib import Path

from starmill.benchmark.ratings import results
from starmill.benchmark.ratings.results import Result
from starmill.benchmark.reports import report
from starmill.benchmark.statistics import decisions
from starmill.benchmark.statistics.decisions import DecisionLog, GameDecisions
from starmill.engines.replays import replay_file
from starmill.engines.replays.limits import DEFAULT_LIMITS
from starmill.pipelines.viewing import playing, viewer
from starmill.pipelines.viewing.viewer import Game
from starmill.schema import errors, storage
from starmill.schema.game_constants import LOOPS_PER_MINUTE

_PLACEHOLDER = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{game}</title>
<style>:root {{ color-scheme: light dark; }} body {{ font: 16px/1.6 system-ui, sans-serif; margin: 3em auto;
max-width: 44em; padding: 0 20px; }} code {{ overflow-wrap: anywhere; }}</style></head>
<body><h1>{game}</h1>
<p>This game's page has not been made yet. One of these commands makes it; then load this page again.</p>
<p>This game: <code>starmill watch {folder} --game {game}</code></p>
<p>All games: <code>starmill watch {folder}</code></p>
<p>Each game as you open it: <code>starmill watch {folder} --serve</code></p>
</body></html>
"""
_OUTCOMES = {1: "won", 0: "drew", -1: "lost"}


def rows(folder: Path) -> list[Result]:
    """Returns the games of an evaluation that have a replay, sorted by name."""
    every = results.read_results(folder / results.FILE)
    return sorted((row for row in every if row.replay), key=lambda row: row.game)


def row(folder: Path, game: str) -> Result:
    """Returns one game; ConfigError if the evaluation has none of this name."""
    every = rows(folder)
    for one in every:
        if one.game == game:
            return one
    names = ", ".join(one.game for one in every[:5])
    raise errors.ConfigError(
        f"{folder}: expected the name of one of its {len(every)} games ({names}...), found "
        f"{game!r}"
    )


def replay_bytes(folder: Path, result: Result) -> bytes:
    """Returns a game's replay; FormatError if it is no regular file, or larger than any replay."""
    return storage.read(str(folder / result.replay), DEFAULT_LIMITS.file_bytes)


def page_path(folder: Path, game: str) -> Path:
    """Returns where a game's page is."""
    return folder / report.WATCH_FOLDER / f"{game}.html"


def write(folder: Path, result: Result, player: playing.Player) -> Path:
    """Writes a game's page and returns its path."""
    path = page_path(folder, result.game)
    path.parent.mkdir(exist_ok=True)
    storage.write(str(path), render(folder, result, player).encode())
    return path


def write_placeholders(folder: Path) -> None:
    """Writes a short page for each game that has none: it says how to make the game's own.

    So the report links every game, and its links hold when the games' pages come later.
    """
    for result in rows(folder):
        path = page_path(folder, result.game)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            text = _PLACEHOLDER.format(
                game=html.escape(result.game), folder=html.escape(str(folder))
            )
            storage.write(str(path), text.encode())


def render(folder: Path, result: Result, player: playing.Player) -> str:
    """Returns the HTML of a game's page."""
    replay = folder / result.replay
    data = replay_bytes(folder, result)
    logs = decisions.read(folder, result.game)
    home_side = _home_side(data, result, logs)
    watched = {
        home_side: _loops(logs.home),
        3 - home_side: _loops(logs.away),
    }
    sides = list(player.play(data, str(replay), watched).sides)
    if home_side == 2:
        sides.reverse()
    players = ((result.home, logs.home), (result.away, logs.away))
    for side, (name, log) in zip(sides, players, strict=True):
        side["player"] = name
        if log is not None and log.loops:
            side["decisions"] = log.to_json()
    minutes = result.game_loops / LOOPS_PER_MINUTE
    ending = " at the time limit" if result.ending == "limit" else ""
    return viewer.render(
        [Game(game_id=result.game, title="", sides=tuple(sides))],
        player.settings,
        title=f"{result.home} against {result.away}",
        subtitle=(
            f"{result.home} ({result.home_race}) {_OUTCOMES[result.outcome]} against "
            f"{result.away} ({result.away_race}){ending} after {minutes:.1f} minutes on "
            f"{result.map_name}. Game {result.game}, {result.engine}."
        ),
    )


def _loops(log: DecisionLog | None) -> Sequence[int]:
    return () if log is None else log.loops


def _home_side(data: bytes, result: Result, logs: GameDecisions) -> int:
    """Returns which player of the replay was at home.

    An agent has the first seat, so home has the second if only the other player is an agent. In
    folders of earlier versions, which have no decisions, the races tell, unless they are equal.
    """
    if logs.home is not None or logs.away is not None:
        return 1 if logs.home is not None else 2
    row = replay_file.replay_row(data, events=False)
    races = [player.race_name for player in row.players]
    return 2 if races == [result.away_race, result.home_race] != races[::-1] else 1
