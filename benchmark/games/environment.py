"""A live game as dm_env-style steps: reset, step, step, ..., in the dataset's own arrays.

One agent's side. The opponent is the game's own AI, or another agent that plays a second game
process; either way it is played here, between this agent's steps.
"""

import contextlib
from typing import NamedTuple

from starmill.benchmark.games import live_game, throttle
from starmill.engines import game_process
from starmill.engines.pool import Pool
from starmill.schema import episode, errors, specs
from starmill.schema.agent import Agent
from starmill.schema.episode import Arrays
from starmill.schema.game_constants import LOOPS_PER_MINUTE
from starmill.schema.settings import UNPLUGGED, ConverterSettings


class TimeStep(NamedTuple):
    """What the agent gets: fields and meaning are dm_env's.

    step_type: episode.FIRST, MID or LAST.
    reward: 0, and on the last step the outcome: 1, 0 or -1.
    discount: 1, and 0 on the last step. (Learning discounts by game loops, not here.)
    """

    step_type: int
    reward: float
    discount: float
    observation: Arrays

    def last(self) -> bool:
        """Returns whether the game is over."""
        return self.step_type == episode.LAST


class Environment:
    """Plays one game after another; close it, or use it as a context manager."""

    def __init__(
        self,
        pool: Pool,
        executable: game_process.Executable,
        *,
        opponent: live_game.BuiltIn | Agent,
        settings: ConverterSettings = UNPLUGGED,
        limit: throttle.Limit | None = None,
        max_loops: int = 60 * LOOPS_PER_MINUTE,
    ) -> None:
        self._pool = pool
        self._executable = executable
        self._opponent = opponent
        self._settings = settings
        self._limit = limit or throttle.Limit()
        self._max_loops = max_loops
        self._lease = contextlib.ExitStack()
        self._game: live_game.LiveGame | None = None

    def observation_spec(self) -> dict[str, specs.ArraySpec]:
        """Returns the specs of an observation's arrays, but for the added `prev_delay`."""
        kept = specs.episode_specs(self._settings).items()
        return {key: spec for key, spec in kept if not key.startswith("action/")}

    def action_spec(self) -> dict[str, specs.ArraySpec]:
        """Returns the specs of an action's arguments."""
        return specs.action_specs(self._settings)

    def reset(self, *, map_path: str, seed: int, races: tuple[str, str]) -> TimeStep:
        """Starts a game and returns its first step, at loop 0.

        `races` are this agent's and the opponent's.
        """
        self.close()
        setup = live_game.Setup(
            map_path=map_path,
            seed=seed,
            races=races,
            opponent=self._opponent
            if isinstance(self._opponent, live_game.BuiltIn)
            else None,
            max_loops=self._max_loops,
            limit=self._limit,
        )
        settings = [self._settings]
        if not isinstance(self._opponent, live_game.BuiltIn):
            settings.append(self._opponent.settings)
        with self._guarded():
            games = self._lease.enter_context(
                self._pool.lease(self._executable, len(settings))
            )
            self._game = live_game.LiveGame(
                live_game.clients_of(games),
                setup,
                settings,
                self._pool.config.deadlines,
            )
            if not isinstance(self._opponent, live_game.BuiltIn):
                self._opponent.reset(seed + 1, races[1])
            return self._time_step(episode.FIRST)

    def step(self, action: Arrays) -> TimeStep:
        """Sends the action, lets its delay pass, and returns what the agent sees then."""
        if self._game is None or self._game.ending is not None:
            raise errors.ConfigError("no game is on: call reset first")
        with self._guarded():
            self._game.act(0, action)
            while self._game.ending is None and 0 not in self._game.due:
                self._play_opponent(self._game)
                self._game.advance()
            return self._time_step(episode.MID)

    def save_replay(self) -> bytes:
        """Returns the replay of the game that is on or has just ended."""
        if self._game is None:
            raise errors.ConfigError("no game is on: call reset first")
        with self._guarded():
            return self._game.save_replay()

    def close(self) -> None:
        """Leaves the game and gives its processes back."""
        with self._guarded():
            if self._game is not None:
                self._game.leave()
        self._game = None
        self._lease.close()

    def __enter__(self) -> "Environment":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _play_opponent(self, game: live_game.LiveGame) -> None:
        if isinstance(self._opponent, live_game.BuiltIn):
            return
        for seat in game.due:
            game.act(seat, self._opponent.act(game.observe(seat)))

    def _time_step(self, step_type: int) -> TimeStep:
        if self._game is None:
            raise errors.ConfigError("no game is on: call reset first")
        observation = self._game.observe(0)
        ending = self._game.ending
        if ending is not None:
            return TimeStep(episode.LAST, float(ending.outcomes[0]), 0.0, observation)
        return TimeStep(step_type, 0.0, 1.0, observation)

    @contextlib.contextmanager
    def _guarded(self):  # type: ignore[no-untyped-def]  # a generator of nothing
        """After an engine's error the processes are not used again, and the game is over."""
        try:
            yield
        except errors.EngineError:
            self._game = None
            # The lease must see the error: it is what tells it to drop the processes.
            with self._lease.pop_all():
                raise
