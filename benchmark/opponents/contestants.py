"""Names on the command line, and the players that they stand for.

In: a contestant's text. Out: a record with a digest that identifies the player, and the agent
that plays. Knows nothing of schedules and results. A contestant is one of

    very_hard, easy, ...       the game's own AI, by difficulty; "very_hard+rush" with a build
    random                     random commands
    rush, economy, turtle      scripted specialists
    skirmish:bc, ...           a trained agent that ships with starmill
    path/to/run, bc.agent      a trained agent; "path?search=20" adds search at inference
    python-sc2:MODULE:CLASS    a bot written with python-sc2, in a process of its own

"name=source" gives any of them another name.
"""

import dataclasses
import enum
import hashlib
import importlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, cast

from starmill.benchmark.games import built_in
from starmill.benchmark.games.built_in import BuiltIn
from starmill.benchmark.opponents import python_sc2, shipped
from starmill.benchmark.opponents.random_agent import RandomAgent
from starmill.benchmark.opponents.specialists import Specialist
from starmill.benchmark.opponents.styles import STYLES
from starmill.learners import run_folder
from starmill.schema import errors
from starmill.schema.agent import Actor, Agent
from starmill.schema.game_constants import DIFFICULTIES
from starmill.schema.settings import UNPLUGGED, ConverterSettings
from starmill.version import __version__

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_SIMULATIONS = 32


class Kind(enum.StrEnum):
    """What plays for a contestant."""

    BUILT_IN = "built-in"
    RANDOM = "random"
    SPECIALIST = "specialist"
    CHECKPOINT = "checkpoint"
    PYTHON_SC2 = "python-sc2"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contestant:
    """One player of a tournament.

    Attributes:
        name: unique within a tournament; part of file names.
        source: what the user asked for, without the name and the options.
        kind: what plays.
        digest: changes whenever the player's behaviour may change.
        options: of a checkpoint: the text after "?", such as "search=20"; empty for others.
        race: the only race that it plays; empty if it plays all.
        python: the interpreter of a bot of python-sc2; empty for others.
    """

    name: str
    source: str
    kind: Kind
    digest: str
    options: str = ""
    race: str = ""
    python: str = ""

    @property
    def is_agent(self) -> bool:
        """Whether an agent plays that acts on the dataset's arrays."""
        return self.kind not in (Kind.BUILT_IN, Kind.PYTHON_SC2)

    @property
    def bot(self) -> python_sc2.Bot | None:
        """Returns the bot of python-sc2; None if another kind of player plays."""
        if self.kind is not Kind.PYTHON_SC2:
            return None
        return python_sc2.find(self.source, self.python)

    @property
    def built_in(self) -> BuiltIn | None:
        """Returns the game's own AI; None if an agent plays."""
        return built_in.parse(self.source) if self.kind is Kind.BUILT_IN else None


class _AgentModule(Protocol):
    def load(self, path: Path, **options: str) -> Agent: ...

    def load_many(self, path: Path, **options: str) -> Actor: ...


def contestants(texts: Iterable[str], bot_python: str = "") -> list[Contestant]:
    """Returns the contestants, each once; ConfigError if two share a name.

    bot_python: the interpreter for bots of python-sc2; empty for the usual place.
    """
    by_name: dict[str, Contestant] = {}
    for text in texts:
        player = contestant(text, bot_python)
        if by_name.setdefault(player.name, player) != player:
            raise errors.ConfigError(
                f"two contestants are called {player.name!r}; rename one of them, for "
                f"example other={player.source}"
            )
    return list(by_name.values())


def contestant(text: str, bot_python: str = "") -> Contestant:
    """Returns the contestant that a text of the command line names."""
    name, equals, source = text.partition("=")
    # "folder?search=20" has an equals sign but no name.
    if not equals or "?" in name or "/" in name:
        name, source = "", text
    if python_sc2.is_bot(source):
        return _python_sc2(name, source, bot_python)
    if built_in.is_built_in(source):
        built_in.parse(source)
        kind, digest = Kind.BUILT_IN, f"built-in:{source}"
    elif source == "random":
        kind, digest = Kind.RANDOM, f"random:{__version__}"
    elif source in STYLES:
        kind, digest = Kind.SPECIALIST, f"specialist:{source}:{__version__}"
    else:
        return _trained(name, source)
    return _contestant(name or source, source, kind, digest)


def load(contestant: Contestant, settings: ConverterSettings) -> Agent:
    """Returns the agent behind a contestant that is not built in.

    Trained agents have settings of their own; the others play with `settings`.
    """
    if contestant.kind is Kind.BUILT_IN:
        raise errors.ConfigError(
            f"{contestant.name}: the game itself plays this opponent, so there is no agent "
            "to load"
        )
    if contestant.kind is Kind.PYTHON_SC2:
        raise errors.ConfigError(
            f"{contestant.name}: a bot of python-sc2 plays in a process of its own, so there "
            "is no agent to load"
        )
    if contestant.kind is Kind.RANDOM:
        return RandomAgent(settings)
    if contestant.kind is Kind.SPECIALIST:
        return Specialist(settings, STYLES[contestant.source])
    return _acting().load(_path(contestant.source), **_options(contestant))


def load_actor(contestant: Contestant) -> Actor:
    """Returns what plays many games at once for a trained agent."""
    if contestant.kind is not Kind.CHECKPOINT:
        raise errors.ConfigError(
            f"{contestant.name}: expected a trained agent, found {contestant.kind.value}"
        )
    return _acting().load_many(_path(contestant.source), **_options(contestant))


def _acting() -> _AgentModule:
    # Imported here because everything else in this package works without JAX.
    return cast(_AgentModule, importlib.import_module("starmill.learners.acting"))


def _options(contestant: Contestant) -> dict[str, str]:
    pairs = (part.partition("=") for part in contestant.options.split("&") if part)
    return {key: value for key, _, value in pairs}


def load_agent(
    source: str | Path,
    *,
    temperature: float | None = None,
    mmr: int | None = None,
    search: int = 0,
    simulations: int = _SIMULATIONS,
) -> Agent:
    """Returns the agent that `starmill evaluate --agent SOURCE` would play.

    The keywords apply to trained agents; their defaults leave an agent as `evaluate` plays it.

    Args:
        source: an agent that ships ("skirmish:bc"), a run's folder, a packed agent's file, a
            specialist ("rush", "economy", "turtle"), or "random".
        temperature: divides the policy's logits; low values sharpen the policy.
        mmr: the rating that the agent is told it has; None for the training data's highest.
        search: actions that a search samples (MuZero agents only); 0 for none.
        simulations: of each search.
    """
    player = contestant(str(source))
    settings = {
        "temperature": temperature,
        "mmr": mmr,
        "search": search or None,
        "simulations": None if simulations == _SIMULATIONS else simulations,
    }
    options = [f"{key}={value}" for key, value in settings.items() if value is not None]
    if options and player.kind is not Kind.CHECKPOINT:
        raise errors.ConfigError(
            f"{source}: only trained agents take options; found {', '.join(options)}"
        )
    options = [player.options, *options] if player.options else options
    return load(dataclasses.replace(player, options="&".join(options)), UNPLUGGED)


def check_name(name: str) -> str:
    """Returns a contestant's name; ConfigError if it cannot be part of a file name."""
    if not _NAME.fullmatch(name) or "-vs-" in name:
        raise errors.ConfigError(
            "agent's name: expected at most 64 letters, digits and _ . + -, without "
            f"'-vs-'; found {name!r}"
        )
    return name


def checkpoint_digest(path: Path) -> str:
    """Returns the digest of a packed agent, or of a run's newest checkpoint.

    The newest checkpoint is the one that plays, so the rest of a run's folder (journals, older
    checkpoints) does not affect the digest.
    """
    return tree_digest(run_folder.newest_checkpoint(path) or path)


def tree_digest(path: Path) -> str:
    """Returns the sha256 of a file, or of a folder's files with their names."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    digest = hashlib.sha256()
    for file in sorted(child for child in path.rglob("*") if child.is_file()):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(path).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def _python_sc2(name: str, source: str, python: str) -> Contestant:
    """Returns a bot of python-sc2; its digest covers its code and burnysc2's version."""
    bot = python_sc2.find(source, python)
    code = tree_digest(bot.source_folder())
    digest = f"python-sc2:{bot.class_name}:{bot.version}:sha256:{code}"
    player = _contestant(name or bot.class_name, source, Kind.PYTHON_SC2, digest)
    return dataclasses.replace(player, race=bot.race, python=bot.python)


def _trained(name: str, source: str) -> Contestant:
    """Returns a trained agent: one that ships, a packed one, or a run's newest checkpoint."""
    place, _, options = source.partition("?")
    path = _path(place)
    if not path.exists():
        names = [*DIFFICULTIES, "random", *STYLES, f"{shipped.PREFIX}bc"]
        raise errors.ConfigError(
            f"{source!r}: expected a run's folder, a packed agent's file or one of "
            f"{', '.join(names)}; there is no such folder or file"
        )
    if place.startswith(shipped.PREFIX):
        default_name = place.replace(shipped.PREFIX, "skirmish-")
        options = "&".join(filter(None, [shipped.shipped(place)[1], options]))
    else:
        default_name = path.resolve().name.removesuffix(".agent")
        if options:
            suffix = options.replace("=", "").replace("&", "+")
            default_name = f"{default_name}+{suffix}"
    digest = f"sha256:{checkpoint_digest(path)}" + (f"?{options}" if options else "")
    player = _contestant(name or default_name, place, Kind.CHECKPOINT, digest)
    return dataclasses.replace(player, options=options)


def _path(source: str) -> Path:
    if source.startswith(shipped.PREFIX):
        return shipped.shipped(source)[0]
    return Path(source)


def _contestant(name: str, source: str, kind: Kind, digest: str) -> Contestant:
    return Contestant(name=check_name(name), source=source, kind=kind, digest=digest)
