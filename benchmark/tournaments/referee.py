"""Plays one fixture with real engines and real agents; one of these lives in each worker.

In: a fixture. Out: its result and replay. Engines come from a pool and agents are loaded once;
both serve game after game, so a game must not depend on the one before it.
"""

import dataclasses
import os
from collections.abc import Mapping

from starmill.benchmark.games import live_game, map_pool, throttle
from starmill.benchmark.opponents import contestants as contestants_lib
from starmill.benchmark.tournaments import schedule, tournament
from starmill.engines.pool import Deadlines, Pool, PoolConfig
from starmill.schema import errors
from starmill.schema.agent import Agent
from starmill.schema.settings import ConverterSettings


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
    deadlines: Deadlines = live_game.DEADLINES

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
        installation = self._pool.installation
        self._executable = installation.newest(config.game_version)
        self._engine = installation.engine_name(self._executable)
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
        setup = live_game.GameSetup(
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


def available_maps(root: str, game_version: str = "") -> list[str]:
    """Returns the paths of the local maps that the game offers, sorted."""
    pool = Pool(PoolConfig(root=root))
    try:
        with pool.lease(pool.installation.newest(game_version)) as games:
            (client,) = live_game.clients_of(games)
            return map_pool.available(client, pool.config.deadlines.load)
    finally:
        pool.close()
