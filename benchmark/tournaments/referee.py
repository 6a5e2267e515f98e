"""Plays one fixture with real engines and real agents; one of these lives in each worker.

In: a fixture. Out: its result and replay. Engines come from a pool and agents are loaded once;
both serve game after game, so a game must not depend on the one before it.
"""

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from starmill.benchmark.games import live_game, throttle
from starmill.benchmark.opponents import contestants as contestants_lib
from starmill.benchmark.tournaments import schedule, tournament
from starmill.converters.protos import sc2api_pb2
from starmill.engines import game_process
from starmill.engines.client import Deadlines
from starmill.engines.pool import (
    GAME_VERSIONS,
    SKIRMISH,
    Installation,
    Pool,
    PoolConfig,
)
from starmill.engines.skirmish import install
from starmill.schema import errors
from starmill.schema.agent import Agent
from starmill.schema.settings import ConverterSettings

# Longer than for replays: the embedded game compiles itself on the first loop it ever plays
# on a machine, and a game lost to a deadline is played from its start.
PATIENT = Deadlines(start=300.0, load=600.0, play=600.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RefereeConfig:
    """What a worker needs to make its referee; calling it makes one.

    root: the installation's folder, or "skirmish".
    settings: of agents that were not trained with their own.
    game_version: like "4.9.2"; empty for the latest that is installed.
    """

    root: str
    game_version: str
    contestants: Mapping[str, contestants_lib.Contestant]
    settings: ConverterSettings
    max_loops: int
    limit: throttle.Limit = throttle.Limit()
    deadlines: Deadlines = PATIENT

    def __call__(self) -> tournament.Referee:
        """Returns the referee; the first agent is loaded with the first game."""
        return Referee(self)


class Referee:
    """See `tournament.Referee`."""

    def __init__(self, config: RefereeConfig) -> None:
        self._config = config
        # Two workers on two cores: a matrix product that takes both only gets in the way,
        # and one thread adds up in one order. JAX reads this when it is first imported.
        os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
        self._pool = Pool(
            PoolConfig(root=config.root, deadlines=config.deadlines, max_idle=2)
        )
        self._executable = newest(self._pool.installation, config.game_version)
        self._engine = engine_name(self._pool.installation, self._executable)
        self._agents: dict[str, Agent] = {}

    def play(self, fixture: schedule.Fixture) -> tournament.Played:
        """Plays the fixture; a built-in AI sits opposite the agent, whoever is home."""
        names = [fixture.home, fixture.away]
        races = [fixture.home_race, fixture.away_race]
        players = [self._config.contestants[name] for name in names]
        swapped = players[0].built_in is not None
        if swapped:
            players.reverse()
            races.reverse()
        if players[0].built_in is not None:
            raise errors.ConfigError(
                f"{fixture.game}: the game's own AIs cannot play each other here"
            )
        opponent = players[1].built_in
        seats = players[:1] if opponent else players
        setup = live_game.Setup(
            map_path=fixture.map_path,
            seed=fixture.seed,
            races=(races[0], races[1]),
            opponent=opponent,
            max_loops=self._config.max_loops,
            limit=self._config.limit,
            names=(players[0].name, players[1].name),
        )
        agents = [self._agent(player.name) for player in seats]
        with self._pool.lease(self._executable, len(seats)) as games:
            ending, replay = live_game.play(
                live_game.clients_of(games), setup, agents, self._config.deadlines
            )
        return tournament.Played(
            outcome=-ending.outcomes[0] if swapped else ending.outcomes[0],
            game_loops=ending.game_loops,
            ending=ending.reason,
            engine=self._engine,
            replay=replay,
        )

    def _agent(self, name: str) -> Agent:
        if name not in self._agents:
            contestant = self._config.contestants[name]
            self._agents[name] = contestants_lib.load(contestant, self._config.settings)
        return self._agents[name]

    def close(self) -> None:
        """Ends the engines."""
        self._pool.close()


def newest(
    installation: Installation, game_version: str = ""
) -> game_process.Executable:
    """Returns the game of that version, like "4.9.2"; of the latest installed by default."""
    known = {row.base_build: row for row in GAME_VERSIONS.values()}
    if game_version:
        wanted = GAME_VERSIONS.get(game_version)
        if wanted is None:
            raise errors.ConfigError(f"no game version {game_version!r} is known")
        return installation.executable(wanted.number, wanted.base_build, None)
    if not installation.builds:
        raise errors.EngineMissing(
            f"no game version is installed in {installation.root}"
        )
    build = installation.builds[-1]
    number = known[build].number if build in known else "0.0.0"
    return installation.executable(number, build, None)


def engine_name(installation: Installation, executable: game_process.Executable) -> str:
    """Returns what results call the game: "skirmish 4.9.2.74741" or "sc2 4.9.2.74741"."""
    name = "skirmish" if is_embedded(str(installation.root)) else "sc2"
    return f"{name} {executable.game_version}.{executable.base_build}"


def is_embedded(root: str) -> bool:
    """Returns whether the embedded game is what a `RefereeConfig.root` names."""
    return root == SKIRMISH or (Path(root) / install.MARKER).is_file()


def available_maps(root: str, game_version: str = "") -> list[str]:
    """Returns the local maps that the game offers, sorted."""
    pool = Pool(PoolConfig(root=root))
    try:
        with pool.lease(newest(pool.installation, game_version)) as games:
            (client,) = live_game.clients_of(games)
            request = sc2api_pb2.RequestAvailableMaps()
            answer = client.call(
                sc2api_pb2.Request(available_maps=request), pool.config.deadlines.load
            )
    finally:
        pool.close()
    found = sc2api_pb2.ResponseAvailableMaps.FromString(answer)
    return sorted(found.local_map_paths)


def choose_maps(offered: Sequence[str], wanted: Sequence[str] = ()) -> list[str]:
    """Returns the paths of the maps to play on.

    By default the embedded game's own maps where there are any, else the dataset's ten.
    `wanted` are paths or names, with or without folder and ending.
    """
    if wanted:
        chosen = {
            path
            for path in offered
            for name in wanted
            if path == name or _plain(path) == _plain(name)
        }
        missing = [
            name
            for name in wanted
            if _plain(name) not in {_plain(path) for path in chosen}
        ]
        if missing:
            raise errors.ConfigError(
                f"no map {', '.join(missing)}; the game offers {', '.join(offered)}"
            )
        return sorted(chosen)
    own = [path for path in offered if path.startswith("Skirmish/")]
    ten = [path for path in offered if _plain(path) in _DATASET_MAPS]
    if not own and not ten:
        raise errors.ConfigError(
            "the game offers none of the dataset's maps; name some with --maps"
        )
    return sorted(own or ten)


# Paper, section 3.1: the ten maps of the dataset.
_DATASET_MAPS = frozenset(
    (
        "acropolis",
        "automaton",
        "cyberforest",
        "kairosjunction",
        "kingscove",
        "newrepugnancy",
        "portaleksander",
        "thunderbird",
        "turbocruise84",
        "yearzero",
    )
)


def _plain(path: str) -> str:
    """Returns a map's name without folder, ending, edition and punctuation, lower case."""
    name = PurePosixPath(path.replace("\\", "/")).name
    name = re.sub(r"\.sc2map$", "", name, flags=re.IGNORECASE)
    letters = re.sub(r"[^A-Za-z0-9]", "", name)
    return re.sub(r"LE$", "", letters).lower()
