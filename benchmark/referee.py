"""Plays one fixture with real engines and real agents; one of these lives in each worker.

In: a fixture. Out: its result and replay. Engines come from a pool and agents are loaded once;
both serve game after game, so a game must not depend on the one before it.
"""

import dataclasses
import os
from collections.abc import Mapping

from starmill.benchmark import agent as agent_lib
from starmill.benchmark import contestants as contestants_lib
from starmill.benchmark import live, schedule, throttle, tournament
from starmill.converters.protos import sc2api_pb2
from starmill.engines import client as client_lib
from starmill.engines import game_process, sc2
from starmill.schema import errors
from starmill.schema import settings as settings_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class RefereeConfig:
    """What a worker needs to make its referee; calling it makes one.

    engine: what the results say of the game, e.g. "skirmish 4.9.2".
    """

    root: str
    executable: game_process.Executable
    engine: str
    contestants: Mapping[str, contestants_lib.Contestant]
    settings: settings_lib.ConverterSettings
    max_loops: int
    limit: throttle.Limit = throttle.Limit()
    deadlines: client_lib.Deadlines = client_lib.Deadlines()

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
        self._pool = sc2.Pool(
            sc2.PoolConfig(root=config.root, deadlines=config.deadlines, max_idle=2)
        )
        self._agents: dict[tuple[str, int], agent_lib.Agent] = {}

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
        setup = live.Setup(
            map_path=fixture.map_path,
            seed=fixture.seed,
            races=(races[0], races[1]),
            opponent=opponent,
            max_loops=self._config.max_loops,
            settings=self._config.settings,
            limit=self._config.limit,
        )
        agents = [self._agent(player.name, i) for i, player in enumerate(seats)]
        with self._pool.lease(self._config.executable, len(seats)) as games:
            ending, replay = live.play(
                live.clients_of(games), setup, agents, self._config.deadlines
            )
        return tournament.Played(
            outcome=-ending.outcomes[0] if swapped else ending.outcomes[0],
            game_loops=ending.game_loops,
            ending=ending.reason,
            engine=self._config.engine,
            replay=replay,
        )

    def _agent(self, name: str, seat: int) -> agent_lib.Agent:
        # By seat, as an agent that plays itself needs two memories.
        if (name, seat) not in self._agents:
            contestant = self._config.contestants[name]
            self._agents[name, seat] = contestants_lib.load(
                contestant, self._config.settings
            )
        return self._agents[name, seat]

    def close(self) -> None:
        """Ends the engines."""
        self._pool.close()


def available_maps(pool: sc2.Pool, executable: game_process.Executable) -> list[str]:
    """Returns the local maps that the game offers, sorted."""
    with pool.lease(executable) as games:
        (client,) = live.clients_of(games)
        request = sc2api_pb2.Request(available_maps=sc2api_pb2.RequestAvailableMaps())
        answer = client.call(request, pool.config.deadlines.load)
    found = sc2api_pb2.ResponseAvailableMaps.FromString(answer)
    return sorted(found.local_map_paths)
