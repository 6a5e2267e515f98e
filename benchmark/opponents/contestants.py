"""Who plays: names on the command line to agents, with digests that pin what they are.

A contestant is one of
  very_hard, easy, ...       the game's own AI, by difficulty; "very_hard+rush" with a build
  random                     random commands
  rush, economy, turtle      scripted specialists (`specialists`)
  skirmish:bc, ...           a trained agent that ships (`pool`)
  path/to/run, bc.agent      a trained agent; "path?search=20" adds search at inference
and any may be renamed: "name=what".
"""

import dataclasses
import hashlib
import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, cast

from starmill.benchmark.games import live_game
from starmill.benchmark.opponents import random_agent, shipped, specialists, styles
from starmill.benchmark.tournaments import schedule
from starmill.schema import errors
from starmill.schema.agent import Agent
from starmill.schema.game_constants import DIFFICULTIES
from starmill.schema.settings import ConverterSettings
from starmill.version import __version__

BUILT_IN, RANDOM, SPECIALIST, CHECKPOINT = (
    "built-in",
    "random",
    "specialist",
    "checkpoint",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contestant:
    """One player of a tournament.

    what: as asked for, without the name. kind: one of the four above.
    digest: changes when what it stands for does.
    options: of a checkpoint, after the "?".
    """

    name: str
    what: str
    kind: str
    digest: str
    options: str = ""

    @property
    def built_in(self) -> live_game.BuiltIn | None:
        """Returns the game's own AI; None where an agent plays."""
        if self.kind != BUILT_IN:
            return None
        difficulty, _, build = self.what.partition("+")
        return live_game.BuiltIn(difficulty=difficulty, build=build or "random")


class _AgentModule(Protocol):
    def load(self, path: Path, **options: str) -> Agent: ...


def contestants(texts: Iterable[str]) -> list[Contestant]:
    """Returns the contestants; ConfigError names what cannot be found or is there twice."""
    found: dict[str, Contestant] = {}
    for text in texts:
        one = contestant(text)
        if one.name in found and found[one.name] != one:
            raise errors.ConfigError(
                f"two contestants are called {one.name!r}; rename one: other={one.what}"
            )
        found[one.name] = one
    return list(found.values())


def contestant(text: str) -> Contestant:
    """Returns the contestant that a word of the command line means."""
    name, equals, what = text.partition("=")
    # "dir?search=20" has an equals sign too, and no name.
    if not equals or "?" in name or "/" in name:
        name, what = "", text
    difficulty, _, build = what.partition("+")
    if difficulty in DIFFICULTIES:
        live_game.BuiltIn(difficulty=difficulty, build=build or "random")
        return _made(name or what, what, BUILT_IN, f"built-in:{what}")
    if what == "random":
        return _made(name or what, what, RANDOM, f"random:{__version__}")
    if what in styles.STYLES:
        return _made(name or what, what, SPECIALIST, f"specialist:{what}:{__version__}")
    return _trained(name, what)


def _trained(name: str, what: str) -> Contestant:
    """Returns a trained agent: one that ships, a packed one, or a run's newest checkpoint."""
    path, _, options = what.partition("?")
    place = _place(path)
    if not place.exists():
        known = [
            *DIFFICULTIES,
            "random",
            *styles.STYLES,
            f"{shipped.PREFIX}bc",
        ]
        raise errors.ConfigError(
            f"{what!r}: expected a run's folder, a packed agent's file or one of "
            f"{', '.join(known)}; there is no such folder or file"
        )
    if path.startswith(shipped.PREFIX):
        default = path.replace(shipped.PREFIX, "skirmish-")
        options = "&".join(filter(None, [shipped.shipped(path)[1], options]))
    else:
        default = place.resolve().name.removesuffix(".agent")
        if options:
            default = f"{default}+{options}".replace("=", "").replace("&", "+")
    digest = f"sha256:{checkpoint_digest(place)}" + (f"?{options}" if options else "")
    made = _made(name or default, path, CHECKPOINT, digest)
    return dataclasses.replace(made, options=options)


def _place(path: str) -> Path:
    return shipped.shipped(path)[0] if path.startswith(shipped.PREFIX) else Path(path)


def _made(name: str, what: str, kind: str, digest: str) -> Contestant:
    return Contestant(
        name=schedule.check_name(name), what=what, kind=kind, digest=digest
    )


def checkpoint_digest(folder: Path) -> str:
    """Returns the digest of a run's newest checkpoint, the one that plays, or of a packed agent.

    The rest of the folder (journals, older checkpoints) makes no difference to a game.
    """
    saved = folder / "checkpoints"
    numbers = [int(p.name) for p in saved.glob("*") if p.name.isdigit()]
    return tree_digest(saved / str(max(numbers)) if numbers else folder)


def tree_digest(path: Path) -> str:
    """Returns the sha256 of a file, or of a folder's files with their names."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    digest = hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(path).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def load(contestant: Contestant, settings: ConverterSettings) -> Agent:
    """Returns the agent behind a contestant that is not built in."""
    if contestant.kind == RANDOM:
        return random_agent.RandomAgent(settings)
    if contestant.kind == SPECIALIST:
        return specialists.Specialist(settings, styles.STYLES[contestant.what])
    if contestant.kind != CHECKPOINT:
        raise errors.ConfigError(f"{contestant.name}: the game itself plays this one")
    # Only now: everything else here works without JAX.
    module = cast(_AgentModule, importlib.import_module("starmill.learners.acting"))
    pairs = (part.partition("=") for part in contestant.options.split("&") if part)
    options = {key: value for key, _, value in pairs}
    return module.load(_place(contestant.what), **options)
