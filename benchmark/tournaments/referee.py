"""Plays a fixture with a real engine and real agents; each worker has one referee.

In: a fixture. Out: its result and replay. Engines come from a pool and agents are loaded once.
Both play many games, so no game may depend on the one before it.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from starmill.benchmark.games import live_game, map_pool, relay, throttle
from starmill.benchmark.opponents import (
    acting_server,
    contestants,
    python_sc2,
    remote_agent,
)
from starmill.benchmark.opponents.contestants import Contestant
from starmill.benchmark.statistics.decisions import GameDecisions
from starmill.benchmark.statistics.files import GameStatistics
from starmill.benchmark.tournaments import schedule, tournament
from starmill.engines.client import Client
from starmill.engines.pool import Deadlines, Pool, PoolConfig
from starmill.schema import errors
from starmill.schema.agent import Agent
from starmill.schema.settings import ConverterSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class RefereeConfig:
    """What a worker needs to create its referee; calling the record creates it.

    Attributes:
        root: the installation's folder, or "skirmish" for the embedded game.
        game_version: like "4.9.2"; empty for the newest installed one.
        contestants: everybody who plays, by name.
        settings: for agents that were not trained with settings of their own.
        max_loops: the game loop at which a game is a draw.
        limit: how often each agent may act.
        deadlines: how long to wait for the game.
        patience: how long to wait for bots that play in a process of their own.
        addresses: where trained agents act in processes of their own, by name
            (`acting_servers`). The others act in the worker.
    """

    root: str
    game_version: str
    contestants: Mapping[str, Contestant]
    settings: ConverterSettings
    max_loops: int
    limit: throttle.Limit = throttle.Limit()
    deadlines: Deadlines = live_game.DEADLINES
    patience: relay.Patience = relay.Patience()
    addresses: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __call__(self) -> tournament.Referee:
        """Returns a referee, which loads each agent when it first plays."""
        return Referee(self)


class Referee:
    """Plays fixtures, one at a time; see `tournament.Referee`."""

    def __init__(self, config: RefereeConfig) -> None:
        self._config = config
        # Agents that act in this process choose as they do in one of their own.
        acting_server.use_one_thread()
        self._pool = Pool(
            PoolConfig(root=config.root, deadlines=config.deadlines, max_idle=2)
        )
        installation = self._pool.installation
        self._executable = installation.newest(config.game_version)
        self._engine = installation.engine_name(self._executable)
        self._agents: dict[str, Agent] = {}

    def play(self, fixture: schedule.Fixture) -> tournament.Played:
        """Plays the fixture. An agent has the first seat, even when the other player is home."""
        names = [fixture.home, fixture.away]
        races = [fixture.home_race, fixture.away_race]
        players = [self._config.contestants[name] for name in names]
        swapped = not players[0].is_agent
        if swapped:
            players.reverse()
            races.reverse()
        if not players[0].is_agent:
            raise errors.ConfigError(
                f"{fixture.game}: expected an agent; the game's own AIs and bots cannot play "
                "each other"
            )
        bot = players[1].bot
        seats = [player for player in players if player.is_agent]
        setup = live_game.GameSetup(
            map_path=fixture.map_path,
            seed=fixture.seed,
            races=(races[0], races[1]),
            opponent=players[1].built_in,
            relay_ports=live_game.free_ports() if bot else None,
            max_loops=self._config.max_loops,
            limit=self._config.limit,
            names=(players[0].name, players[1].name),
        )
        agents = [self._agent(player.name) for player in seats]
        processes = 2 if bot else len(seats)
        with self._pool.lease(self._executable, processes) as games:
            clients = live_game.clients_of(games)
            if bot:
                game = self._play_with_bot(clients, setup, agents, bot)
            else:
                game = live_game.play(clients, setup, agents, self._config.deadlines)
        statistics = GameStatistics(
            home=game.records[0],
            away=game.records[1] if len(game.records) > 1 else None,
            home_material=game.material.own if game.material else None,
            away_material=game.material.enemy if game.material else None,
        )
        decisions = GameDecisions(
            home=game.decisions[0],
            away=game.decisions[1] if len(game.decisions) > 1 else None,
        )
        ending = game.ending
        return tournament.Played(
            outcome=-ending.outcomes[0] if swapped else ending.outcomes[0],
            game_loops=ending.game_loops,
            ending=ending.reason,
            engine=self._engine,
            replay=game.replay,
            statistics=statistics.swapped() if swapped else statistics,
            decisions=decisions.swapped() if swapped else decisions,
        )

    def _play_with_bot(
        self,
        clients: Sequence[Client],
        setup: live_game.GameSetup,
        agents: Sequence[Agent],
        bot: python_sc2.Bot,
    ) -> live_game.PlayedGame:
        """Plays a game against a bot in a process of its own; AgentError if the bot fails."""
        config = self._config
        if setup.relay_ports is None:
            raise errors.ConfigError("a game with a bot needs ports")
        seat = relay.Seat(
            race=setup.races[1], name=setup.names[1], ports=setup.relay_ports
        )
        seconds = config.deadlines.play
        with (
            relay.Relay(clients[1], seat, config.patience, seconds) as passage,
            python_sc2.running(bot, seat.race, passage.port) as process,
        ):
            passage.alive = lambda: process.exit_status() is None
            game = live_game.play(clients[:1], setup, agents, config.deadlines)
            failure, output = passage.failure, process.last_line()
        if failure:
            raise errors.AgentError(
                f"{seat.name} {failure}; its last line: {output or 'none'}"
            )
        return game

    def _agent(self, name: str) -> Agent:
        if name not in self._agents:
            self._agents[name] = self._load(name)
        return self._agents[name]

    def _load(self, name: str) -> Agent:
        address = self._config.addresses.get(name)
        if address is not None:
            return remote_agent.RemoteAgent(name, address)
        contestant = self._config.contestants[name]
        return contestants.load(contestant, self._config.settings)

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
