"""`starmill watch`: games in a browser, from both sides, with what agents considered."""

import argparse
import contextlib
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starmill import progress
from starmill.benchmark.ratings import results
from starmill.learners import run_folder
from starmill.schema import errors, storage
from starmill.schema.loader import dataset

EXAMPLES = """
  starmill watch demo/evaluation                   # every game, linked from its report
  starmill watch demo/evaluation --game bc-vs-very_easy-0000
  starmill watch demo/evaluation --serve           # each page is made when it is opened
  starmill watch demo/bc --against easy            # plays a game, kept in bc-games
  starmill watch game.SC2Replay --out game.html
  starmill watch demo/dataset --game 3f9c          # by the beginning of a replay's id
"""
_SUFFIX = ".sc2replay"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    add = parser.add_argument
    add(
        "source",
        metavar="SOURCE",
        help="an evaluation's folder, a replay file, a dataset, or an agent (a run's folder, a "
        "packed agent, skirmish:bc) that plays a game now",
    )
    add(
        "--game",
        action="append",
        metavar="NAME",
        help="one game: its name in an evaluation, or a replay's or episode's id in a dataset; "
        "repeat it for several games of an evaluation",
    )
    add(
        "--out",
        type=Path,
        help="file to write, for one game (default: beside the evaluation's games, or "
        "NAME.html here)",
    )
    add(
        "--serve",
        action="store_true",
        help="serve the pages to this machine's browsers instead of writing them",
    )
    add("--port", type=int, default=0, help="for --serve (default: any free one)")
    add(
        "--sc2",
        metavar="PATH|skirmish",
        help="folder of StarCraft II, or the embedded game (default: $SC2PATH, otherwise "
        "what the replay was played on)",
    )
    add(
        "--against",
        default="very_easy",
        metavar="OPPONENT",
        help="an agent's opponent, as in `evaluate --opponents` (%(default)s)",
    )
    add(
        "--max-minutes",
        type=float,
        default=10.0,
        help="game time after which an agent's game is a draw (%(default)g)",
    )
    add("--registry", metavar="FILE", help="registry that knows a dataset's name")


def run(args: argparse.Namespace) -> int:
    """Writes or serves the pages."""
    path = Path(args.source)
    if args.out is not None and not args.out.parent.is_dir():
        raise errors.ConfigError(
            f"--out {args.out}: its folder does not exist; create it first"
        )
    if path.suffix.lower() == _SUFFIX and path.is_file():
        folder = path.resolve().parent.parent
        if (
            folder / results.FILE
        ).is_file() and path.parent.resolve().name == "replays":
            return _watch_evaluation(args, folder, [path.stem])
        return _watch_replay(args, path)
    if (path / results.FILE).is_file():
        return _watch_evaluation(args, path, args.game)
    if is_agent(args.source):
        return _watch_agent(args)
    return _watch_dataset(args)


def is_agent(source: str) -> bool:
    """Returns whether this names a trained agent: a run's folder, a packed one, or a shipped one."""
    path = Path(source.partition("?")[0])
    return (
        (path / run_folder.RUN).is_file()
        or path.suffix == ".agent"
        or source.startswith("skirmish:")
    )


# --- an agent ---


def _watch_agent(args: argparse.Namespace) -> int:
    """Plays one game, keeps it as an evaluation in NAME-games, and watches it."""
    evaluation = importlib.import_module("starmill.benchmark.evaluation")
    referee = importlib.import_module("starmill.benchmark.tournaments.referee")
    config = evaluation.Config(
        agents=(args.source,),
        opponents=(args.against,),
        games=1,
        max_minutes=args.max_minutes,
        root=args.sc2 or os.environ.get("SC2PATH") or "skirmish",
    )
    plan = evaluation.plan(config, referee.available_maps(config.root))
    fixture = plan.fixtures[0]
    folder = Path(f"{fixture.home}-games")
    done = [0]

    def note(played: int, total: int, crashes: int) -> None:
        done[0] = played

    with progress.Progress("play", 1, "games", lambda: done[0]):
        failures = evaluation.run(plan, folder, progress=note)
    if failures:
        raise errors.AgentError(f"{fixture.game}: {failures[0].reason}")
    evaluation.write_reports(folder, anchor=fixture.away)
    return _watch_evaluation(args, folder, [fixture.game])


# --- an evaluation ---


def _watch_evaluation(
    args: argparse.Namespace, folder: Path, names: list[str] | None
) -> int:
    # Imported here: a reader's installation can watch datasets, which needs no game.
    games = importlib.import_module("starmill.benchmark.watching.evaluation_games")
    rows = [games.row(folder, name) for name in names or ()] or games.rows(folder)
    if not rows:
        raise errors.ConfigError(f"{folder}: none of its games has a replay to watch")
    with _player(args, rows[0].engine) as player:
        if args.serve:
            return _serve_evaluation(args, folder, games, player)
        if args.out is not None:
            if len(rows) > 1:
                raise errors.ConfigError(
                    "--out: expected one --game, to write in this file"
                )
            _write(args.out, games.render(folder, rows[0], player))
            return 0
        done = [0]
        with progress.Progress("watch", len(rows), "games", lambda: done[0]):
            for row in rows:
                page = games.write(folder, row, player)
                done[0] += 1
    report = folder / "report.html"
    print(f"open {report if report.is_file() and not names else page}")
    return 0


def _serve_evaluation(
    args: argparse.Namespace, folder: Path, games: Any, player: Any
) -> int:
    pages: dict[str, Any] = {"/": (folder / "report.html").read_bytes}
    for row in games.rows(folder):
        pages[f"/watch/{row.game}.html"] = _maker(
            lambda row: games.render(folder, row, player).encode(), row
        )
        pages[f"/{row.replay}"] = _maker(
            lambda row: games.replay_bytes(folder, row), row
        )
    return _serve(args, pages)


# --- a replay ---


def _watch_replay(args: argparse.Namespace, path: Path) -> int:
    viewer = importlib.import_module("starmill.pipelines.viewing.viewer")
    replay_file = importlib.import_module("starmill.engines.replays.replay_file")
    data = path.read_bytes()
    row = replay_file.replay_row(data, str(path), events=False)
    with _player(args, row.engine or "") as player:
        replayed = player.play(data, str(path))
    first, second = replayed.sides
    text = viewer.render(
        [viewer.Game(game_id=path.stem, title="", sides=(first, second))],
        player.settings,
        title=path.stem,
        subtitle=f"{first['race']} against {second['race']} on {first['map']}",
    )
    if args.serve:
        return _serve(args, {"/": text.encode})
    _write(args.out or Path(f"{path.stem}.html"), text)
    return 0


# --- a dataset ---


def _watch_dataset(args: argparse.Namespace) -> int:
    opened = dataset.open_dataset(args.source, registry_file=args.registry)
    viewer = importlib.import_module("starmill.pipelines.viewing.viewer")
    episodes = importlib.import_module("starmill.pipelines.viewing.episodes")

    def page(name: str) -> str:
        game = episodes.game(opened, name)
        return str(
            viewer.render(
                [game],
                opened.settings,
                title=f"{game.sides[0]['race']} against {game.sides[0]['opponent_race']}",
                subtitle=f"replay {game.game_id} of {opened.reference}",
            )
        )

    if args.serve:
        table = importlib.import_module("starmill.pipelines.viewing.listing")
        pages = {"/": lambda: table.render(opened).encode()}
        for name in table.replay_ids(opened):
            pages[f"/watch/{name}.html"] = _maker(
                lambda name: page(name).encode(), name
            )
        return _serve(args, pages)
    name = args.game[0] if args.game else table_first(opened)
    _write(args.out or Path(f"{name[:16]}.html"), page(name))
    return 0


def table_first(opened: dataset.Dataset) -> str:
    """Returns the id of a dataset's first replay; ConfigError if it has no episodes."""
    if not len(opened):
        raise errors.ConfigError(f"{opened.url}: expected episodes, found none")
    return str(opened.table.column("replay_id")[0].as_py())


# --- common ---


def _maker(make: Any, argument: Any) -> Any:
    """Returns a function without arguments: a lambda in a loop would see the last one."""
    return lambda: make(argument)


def _player(args: argparse.Namespace, engine: str) -> Any:
    playing = importlib.import_module("starmill.pipelines.viewing.playing")
    root = args.sc2 or os.environ.get("SC2PATH")
    if engine.startswith("skirmish") or not root:
        root = args.sc2 or "skirmish"
    return playing.Player(root)


def _write(out: Path, text: str) -> None:
    size = storage.write(str(out), text.encode()).size_bytes
    print(f"{out}  {size / 1e6:.1f} MB  open it in a browser")


def _serve(args: argparse.Namespace, make: Mapping[str, Any]) -> int:
    server = importlib.import_module("starmill.benchmark.watching.server")
    with server.open_server(server.Pages(make), args.port) as opened:
        print(f"open http://{server.HOST}:{opened.server_address[1]}/", flush=True)
        print("Ctrl-C ends the server", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            opened.serve_forever()
    return 0
