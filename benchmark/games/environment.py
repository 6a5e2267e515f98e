"""One player's side of StarCraft II games, as a `dm_env.Environment`.

In: actions, as dicts of arrays (`schema.specs.action_specs`). Out: time steps whose
observations have the dataset's own arrays. The environment plays the opponent, either the
game's own AI or another agent, between this player's steps.
Must not know how agents are loaded: an opponent that is not built in comes as an object.
"""

import contextlib
from collections.abc import Iterator

import dm_env
import numpy as np
from dm_env import specs as dm_specs

from starmill.benchmark.games import built_in, live_game, map_pool
from starmill.engines.client import Client
from starmill.engines.pool import SKIRMISH, Pool, PoolConfig
from starmill.schema import errors, specs
from starmill.schema.agent import Agent
from starmill.schema.episode import Arrays
from starmill.schema.game_constants import DIFFICULTIES, LOOPS_PER_MINUTE
from starmill.schema.settings import UNPLUGGED, ConverterSettings


class Environment(dm_env.Environment):  # type: ignore[misc]  # dm_env has no types
    """Plays games one after another. Close it, or use it as a context manager.

    The reward is 0 until the game ends, then 1 for a win, 0 for a draw and -1 for a loss.
    The discount is 1, and 0 when the game is decided; it stays 1 in the last step of a game
    that `max_minutes` cut short. An action's `delay` sets how many game loops pass before the
    next step.

    Args:
        game: "skirmish" for the embedded game, or a StarCraft II installation's folder.
        opponent: the game's own AI, such as "very_hard" or "very_hard+rush"; or an agent,
            such as `load_agent` returns.
        map_name: a map that the game offers; None to draw one of the default maps for each
            game.
        races: this player's and the opponent's: terran, zerg, protoss or random.
        settings: decide the arrays; those of the agent that plays (`agent.settings`).
        max_minutes: game time after which a game ends.
    """

    def __init__(
        self,
        *,
        game: str = SKIRMISH,
        opponent: str | Agent = "very_hard",
        map_name: str | None = None,
        races: tuple[str, str] = ("terran", "zerg"),
        settings: ConverterSettings = UNPLUGGED,
        max_minutes: float = live_game.MAX_MINUTES,
    ) -> None:
        if not max_minutes > 0:
            raise errors.ConfigError(
                f"max_minutes: expected above 0, found {max_minutes}"
            )
        live_game.check_races(races)
        self._opponent = (
            _built_in_opponent(opponent) if isinstance(opponent, str) else opponent
        )
        self._map_name = map_name
        self._races = races
        self._settings = settings
        self._max_loops = max(1, round(max_minutes * LOOPS_PER_MINUTE))
        self._seed = -1
        self._map_paths: list[str] = []
        self._lease = contextlib.ExitStack()
        self._live_game: live_game.LiveGame | None = None
        self._pool = Pool(
            PoolConfig(root=game, deadlines=live_game.DEADLINES, max_idle=2)
        )

    def observation_spec(self) -> dict[str, dm_specs.Array]:
        """Returns the specs of an observation's arrays."""
        described = {
            key: _dm_spec(key, spec)
            for key, spec in specs.episode_specs(self._settings).items()
            if not key.startswith("action/")
        }
        described["prev_delay"] = dm_specs.Array((), np.int32, "prev_delay")
        return described

    def action_spec(self) -> dict[str, dm_specs.Array]:
        """Returns the specs of an action's arguments."""
        return {
            key: _dm_spec(key, spec)
            for key, spec in specs.action_specs(self._settings).items()
        }

    def reset(self, *, seed: int | None = None) -> dm_env.TimeStep:
        """Starts a game and returns its first step, at game loop 0.

        The seed decides the map (unless one was named), the start positions and the
        opponent's choices. Without one, the seed is one more than the last game's, and 0 for
        the first game, so environments that play side by side need different seeds.
        """
        self._leave()
        self._seed = self._seed + 1 if seed is None else seed
        computer = (
            self._opponent if isinstance(self._opponent, built_in.BuiltIn) else None
        )
        settings = [self._settings]
        if not isinstance(self._opponent, built_in.BuiltIn):
            settings.append(self._opponent.settings)
        with self._guarded():
            executable = self._pool.installation.newest()
            processes = self._lease.enter_context(
                self._pool.lease(executable, len(settings))
            )
            clients = live_game.clients_of(processes)
            setup = live_game.GameSetup(
                map_path=self._map_path(clients[0]),
                seed=self._seed,
                races=self._races,
                opponent=computer,
                max_loops=self._max_loops,
            )
            self._live_game = live_game.LiveGame(
                clients, setup, settings, self._pool.config.deadlines
            )
            if not isinstance(self._opponent, built_in.BuiltIn):
                self._opponent.reset(self._seed + 1, self._races[1])
            return dm_env.restart(self._live_game.observe(0))

    def step(self, action: Arrays) -> dm_env.TimeStep:
        """Acts, lets the action's delay pass, and returns the next step.

        After a game's last step, and before the first game, it ignores the action and starts
        a game, as every dm_env environment does.
        """
        game = self._live_game
        if game is None or game.ending is not None:
            return self.reset()
        with self._guarded():
            game.act(0, action)
            while game.ending is None and 0 not in game.due:
                self._play_opponent(game)
                game.advance()
            observation = game.observe(0)
        if game.ending is None:
            return dm_env.transition(0.0, observation)
        outcome = float(game.ending.outcomes[0])
        if game.ending.reason == "limit":
            return dm_env.truncation(outcome, observation)
        return dm_env.termination(outcome, observation)

    def save_replay(self) -> bytes:
        """Returns the replay file of the game in progress, or of the last game."""
        if self._live_game is None:
            raise errors.ConfigError("no game has been played: call reset first")
        with self._guarded():
            return self._live_game.save_replay()

    def close(self) -> None:
        """Leaves the game and ends the game processes."""
        self._leave()
        self._pool.close()

    def _leave(self) -> None:
        with self._guarded():
            if self._live_game is not None:
                self._live_game.leave()
        self._live_game = None
        self._lease.close()

    def _map_path(self, client: Client) -> str:
        if not self._map_paths:
            offered = map_pool.available(client, self._pool.config.deadlines.load)
            names = () if self._map_name is None else (self._map_name,)
            self._map_paths = map_pool.choose(offered, names)
        draw = np.random.default_rng(self._seed)
        return self._map_paths[int(draw.integers(len(self._map_paths)))]

    def _play_opponent(self, game: live_game.LiveGame) -> None:
        if isinstance(self._opponent, built_in.BuiltIn):
            return
        for seat in game.due:
            game.act(seat, self._opponent.act(game.observe(seat)))

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Ends the game after an engine's error, and drops its processes."""
        try:
            yield
        except errors.EngineError:
            self._live_game = None
            # The lease must see the error: that is how it knows to drop the processes.
            with self._lease.pop_all():
                raise


def _built_in_opponent(text: str) -> built_in.BuiltIn:
    if not built_in.is_built_in(text):
        raise errors.ConfigError(
            f"opponent: expected one of {', '.join(DIFFICULTIES)}, or an agent "
            f"such as starmill.load_agent({text!r}) returns; found {text!r}"
        )
    return built_in.parse(text)


def _dm_spec(key: str, spec: specs.ArraySpec) -> dm_specs.Array:
    # Bounds by column are nominal (a unit's tag can be negative): dm_env would enforce them.
    if isinstance(spec.minimum, int) and isinstance(spec.maximum, int):
        return dm_specs.BoundedArray(
            spec.shape, spec.dtype, spec.minimum, spec.maximum, key
        )
    return dm_specs.Array(spec.shape, spec.dtype, key)
