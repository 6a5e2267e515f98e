"""The `starmill` command: finds the sub-command, runs it, turns errors into exit codes.

Sub-commands live in `starmill/commands/`, one module each, and only the one asked for is
imported: `starmill info` needs neither Beam nor JAX.
Exit 0 done, 1 finished with problems listed, 2 could not start.
"""

import argparse
import importlib
import logging
import sys
from collections.abc import Sequence
from typing import Protocol

from starmill.schema import errors
from starmill.version import __version__

# name -> (module in starmill.commands, one-line summary), in the order of a user's work
COMMANDS: dict[str, tuple[str, str]] = {
    "doctor": ("doctor", "what works on this machine"),
    "skirmish": ("skirmish", "the embedded game: install, ladder, play"),
    "download": ("download", "replay packs from Blizzard's API"),
    "index": ("index", "replays to a Parquet index, one row each"),
    "select": ("select", "which indexed replays a selection keeps, and why not"),
    "generate": ("generate", "replays to a dataset: the main job, on Beam"),
    "verify": ("verify", "re-hash, re-decode and re-play a dataset"),
    "info": ("info", "what a dataset is"),
    "diff": ("diff", "what differs between two datasets"),
    "export": ("export", "a dataset in other layouts: alphastar, rlds, npz"),
    "report": ("report", "a dataset as one HTML page, with an episode viewer"),
    "convert": ("convert", "a captured observation stream to arrays"),
    "train": ("train", "an agent on a dataset"),
    "pack": ("pack", "a trained agent as one small file"),
    "evaluate": ("evaluate", "an agent's games against opponents, and its rating"),
    "rate": ("rate", "ratings from games already played"),
    "completion": ("completion", "a completion script for your shell"),
}


class Command(Protocol):
    """What a module in `starmill.commands` offers."""

    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the sub-command's options."""

    def run(self, args: argparse.Namespace) -> int:
        """Does the work and returns the exit code."""


def _load(name: str) -> Command:
    return importlib.import_module(f"starmill.commands.{COMMANDS[name][0]}")  # type: ignore[return-value]  # modules match the protocol


def _usage() -> str:
    width = max(len(name) for name in COMMANDS)
    lines = [f"  {name:<{width}}  {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: starmill COMMAND [options]",
            "",
            "StarCraft II replays in, the AlphaStar Unplugged benchmark out.",
            "",
            "commands:",
            *lines,
            "",
            "starmill COMMAND --help   options and examples of a command",
            "starmill --version        the release",
        ]
    )


def build_parser(name: str) -> argparse.ArgumentParser:
    """Returns the parser of one sub-command, importing only that sub-command."""
    command = _load(name)
    parser = argparse.ArgumentParser(
        prog=f"starmill {name}",
        description=COMMANDS[name][1],
        epilog=f"examples:\n{command.EXAMPLES.rstrip()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return parser


def _configure_logging() -> None:
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s"
    )
    # Orbax tells each of its steps through this one.
    logging.getLogger("absl").setLevel(logging.WARNING)
    # JAX says which accelerators are not there, on every start.
    logging.getLogger("jax").setLevel(logging.WARNING)
    for handler in logging.getLogger().handlers:
        # Beam says so on import wherever its Google extra is not installed.
        handler.addFilter(lambda record: "apitools not found" not in str(record.msg))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one sub-command and returns the process's exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        print(f"starmill {__version__}")
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        print(f"starmill: unknown command {name!r}\n\n{_usage()}", file=sys.stderr)
        return 2
    _configure_logging()
    parser = build_parser(name)
    if getattr(_load(name), "PASSES_ON", False):
        # What argparse does not know is Beam's; the command checks that it is.
        args, unknown = parser.parse_known_args(arguments[1:])
        args.beam = unknown
    else:
        args = parser.parse_args(arguments[1:])
    try:
        return _load(name).run(args)
    except errors.StarmillError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; run the same command again to carry on", file=sys.stderr)
        return 130
