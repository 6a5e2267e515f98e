"""The `starmill` command: finds the sub-command, runs it, and turns errors into exit codes.

Each sub-command is a module in `starmill/commands/`. Only the requested one is imported, so
`starmill info` needs neither Beam nor JAX.
Exit codes: 0 done, 1 finished with problems that are listed, 2 could not start.
"""

import _thread
import argparse
import difflib
import errno
import importlib
import logging
import os
import re
import select
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import NoReturn, Protocol

from starmill import extras
from starmill.schema import errors
from starmill.version import __version__

_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
_EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_REPEAT_SECONDS = 0.1
_EXIT_CLOSED_PIPE = 141  # 128 + SIGPIPE

# name -> (module in starmill.commands, one-line summary), in the order of a user's work
COMMANDS: dict[str, tuple[str, str]] = {
    "doctor": ("doctor", "check what works on this machine"),
    "skirmish": ("skirmish", "install or play the embedded game, or record a ladder"),
    "conformance": (
        "conformance",
        "check starmill's assumptions about the game against a given game",
    ),
    "download": ("download", "download replay packs from Blizzard's API"),
    "index": ("index", "index replays in a Parquet file, one row each"),
    "select": (
        "select",
        "show which indexed replays a selection keeps, and why it rejects others",
    ),
    "generate": ("generate", "build a dataset from replays (the main job, on Beam)"),
    "verify": ("verify", "verify a dataset: hash, decode and replay it again"),
    "info": ("info", "describe a dataset"),
    "diff": ("diff", "compare two datasets"),
    "export": ("export", "export a dataset in another layout: alphastar, rlds, npz"),
    "report": (
        "pages.report",
        "write an HTML page: a dataset, a run, or two of a kind side by side",
    ),
    "convert": ("convert", "convert captured observations to arrays"),
    "critic": ("critic", "fit a critic, and show how well it knows who is ahead"),
    "train": ("train", "train an agent on a dataset"),
    "pack": ("pack", "pack a trained agent into one small file"),
    "publish": (
        "publish",
        "copy a dataset or an agent to a folder, an object store or a hub",
    ),
    "get": ("get", "copy a published dataset or agent to this machine, verified"),
    "evaluate": ("evaluate", "play an agent against opponents, and rate it"),
    "watch": (
        "pages.watch",
        "watch any game in a browser: a replay's, an agent's, a dataset's",
    ),
    "rate": ("rate", "rate agents from games already played"),
    "completion": ("completion", "print a completion script for your shell"),
}


class Command(Protocol):
    """What every module in `starmill.commands` contains.

    Attributes:
        EXAMPLES: example calls, for the help text.
    """

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
            "starmill COMMAND --help   show the options and examples of a command",
            "starmill --version        show the version",
        ]
    )


class _Parser(argparse.ArgumentParser):
    """Suggests what the user may have meant when a choice or an option does not exist."""

    def error(self, message: str) -> NoReturn:
        """Exits with the message and, if one is close, a suggestion."""
        super().error(message + self._suggestion(message))

    def _suggestion(self, message: str) -> str:
        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if choice:
            return suggestion(
                choice[1], [word.strip("'") for word in choice[2].split(", ")]
            )
        unknown = re.search(r"unrecognized arguments: (--[\w-]+)", message)
        if unknown:
            return suggestion(unknown[1], self._option_string_actions)
        return ""


def suggestion(word: str, known: Iterable[str]) -> str:
    """Returns " (did you mean ...?)" with the known word that is closest, or nothing."""
    matches = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {matches[0]}?)" if matches else ""


def build_parser(name: str) -> argparse.ArgumentParser:
    """Returns a sub-command's parser; imports no other sub-command."""
    command = _load(name)
    parser = _Parser(
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
    # Orbax logs each of its steps here.
    logging.getLogger("absl").setLevel(logging.WARNING)
    # JAX logs the accelerators that it lacks whenever it starts.
    logging.getLogger("jax").setLevel(logging.WARNING)
    for handler in logging.getLogger().handlers:
        # Beam logs this on import unless its Google extra is installed.
        handler.addFilter(lambda record: "apitools not found" not in str(record.msg))


def _repeat_lost_interrupts() -> None:
    """Interrupts again if Ctrl-C arrives where Python drops exceptions.

    An exception in a garbage collector's callback or in `__del__` is reported and forgotten, and
    JAX registers such a callback. The command would run to its end.
    """
    report = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            report(unraisable)
            return
        # Not at once: this hook, too, runs where exceptions are dropped.
        timer = threading.Timer(_REPEAT_SECONDS, _thread.interrupt_main)
        timer.daemon = True
        timer.start()

    sys.unraisablehook = hook


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one sub-command and returns the process's exit code."""
    _repeat_lost_interrupts()
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _is_reader_gone():
            raise
        return _EXIT_CLOSED_PIPE
    return code


def _is_reader_gone() -> bool:
    """Returns whether nobody reads standard output, as after `starmill ... | head`.

    If so, it redirects standard output, because the interpreter flushes it on exit.
    """
    output = sys.stdout.fileno()
    poll = select.poll()
    poll.register(output, 0)
    is_gone = any(events & select.POLLERR for _, events in poll.poll(0))
    if is_gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    return is_gone


def _run(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        print(f"starmill {__version__}")
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        hint = suggestion(name, COMMANDS)
        print(
            f"starmill: unknown command {name!r}{hint}\n\n{_usage()}", file=sys.stderr
        )
        return 2
    _configure_logging()
    try:
        return _run_command(name, arguments[1:])
    except ModuleNotFoundError as error:
        advice = extras.advice(f"starmill {name}", error)
        if advice is None:
            raise
        print(advice, file=sys.stderr)
        return 2
    except errors.StarmillError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.errno not in _FULL_DISK:
            raise
        place = f"{error.filename}: " if error.filename else ""
        print(
            f"{place}{error.strerror}; free some space, then run the same command again "
            "to continue",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print("interrupted; run the same command again to continue", file=sys.stderr)
        return _EXIT_INTERRUPTED


def _run_command(name: str, words: list[str]) -> int:
    parser = build_parser(name)
    if getattr(_load(name), "PASSES_ON", False):
        # Options that argparse does not know are Beam's; the command checks them.
        args, unknown = parser.parse_known_args(words)
        args.beam = unknown
    else:
        args = parser.parse_args(words)
    return _load(name).run(args)
