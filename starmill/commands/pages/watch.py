"""`starmill watch`: games in a browser, from both sides, with what agents considered."""

import argparse
import contextlib
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starmill import progress
from starmill.schema import errors, storage
from starmill.schema.loader import dataset

EXAMPLES = """
  starmill watch demo/evaluation                   # every game, linked from its report
  starmill watch demo/evaluation --game bc-vs-very_easy-0000
  starmill watch demo/evaluation --serve           # each page is made when it is opened
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
        help="an evaluation's folder, a replay file, or a dataset",
    )
    add(
        "--game",
        action="append",
        metavar="NAME",
        help="one game: its name in an evaluation, or a replay's or episode's id in a dataset; "
        "several of an evaluation by repeating it",
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
            folder / "results.csv"
        ).is_file() and path.parent.resolve().name == "replays":
            return _watch_evaluation(args, folder, [path.stem])
        return _watch_replay(args, path)
    if (path / "results.csv").is_file():
        return _watch_evaluation(args, path, args.game)
    if (path / "run.json").is_file():
        raise errors.ConfigError(
            f"{path}: a training run has no games yet; play some with `starmill evaluate "
            f"--agent {path} --opponents very_easy --out {path}-games`, then watch that folder"
        )
    return _watch_dataset(args)


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
            lambda row: (folder / row.replay).read_bytes(), row
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
