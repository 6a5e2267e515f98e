"""A pool of game processes that the threads of a worker share.

In: an installation, and the executable that a replay needs. Out: connected games of it,
which are reused from replay to replay. A game is replaced after a number of replays, when its
memory has grown, and whenever something went wrong with it. Knows nothing of replays or
observations, and does not care whether the game is StarCraft II or Skirmish.
"""

import collections
import contextlib
import dataclasses
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

from starmill.engines import installation, websocket
from starmill.engines.client import Deadlines
from starmill.engines.game_process import Executable, GameProcess, Spawner
from starmill.engines.installation import SKIRMISH, Installation
from starmill.engines.skirmish import install, versions
from starmill.schema import errors

__all__ = [
    "SKIRMISH",
    "Deadlines",
    "Executable",
    "GameProcess",
    "Installation",
    "Pool",
    "PoolConfig",
    "close_shared",
    "open_shared",
]

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolConfig:
    """How games are kept.

    root: the installation's folder, or SKIRMISH: one of the embedded game, laid out by
        each worker for itself. deadlines: see `Deadlines`.
    max_idle: processes kept waiting, over all versions; the longest unused goes first.
        Half as many replays are played at a time, however many threads a runner has: more
        would start games only to end them, and need the memory of all.
    max_replays: after this many a process is replaced.
    max_growth_bytes: a process that has gained more than this is replaced.
    max_rss_bytes: a process larger than this is ended even while it plays.
    """

    root: str
    deadlines: Deadlines = Deadlines()
    max_idle: int = 8
    max_replays: int = 200
    max_growth_bytes: int = 1 << 30
    max_rss_bytes: int = 6 << 30

    def __post_init__(self) -> None:
        """Checks the bounds."""
        for name in ("max_replays", "max_growth_bytes", "max_rss_bytes"):
            if getattr(self, name) < 1:
                raise errors.ConfigError(
                    f"{name}: expected at least 1, found {getattr(self, name)!r}"
                )


class Pool:
    """Game processes of one installation, for all threads of this process.

    started: how many processes it has launched so far.
    turns: to be held while a replay is played, see `PoolConfig.max_idle`.
    """

    def __init__(self, config: PoolConfig) -> None:
        self.config = config
        self.started = 0
        self._told = 0
        self.turns = threading.BoundedSemaphore(max(1, config.max_idle // 2))
        self._lock = threading.Lock()
        self._spawner = Spawner()
        try:
            self.installation = self._find()
        except errors.StarmillError:
            self._spawner.close()
            raise
        # Oldest first.
        self._idle: collections.deque[GameProcess] = collections.deque()

    @contextlib.contextmanager
    def lease(
        self, executable: Executable, count: int = 1
    ) -> Iterator[list[GameProcess]]:
        """Lends `count` connected games; after an error they are not used again.

        Only a replay that was refused leaves the game as good as it was: a message that
        cannot be converted may be the game's fault.
        """
        games: list[GameProcess] = []
        sound = False
        try:
            self._take(executable, count, games)
            for game in games:
                game.replays += 1
            try:
                yield games
                sound = True
            except errors.ReplayError:
                sound = True
                raise
        except errors.EngineError as error:
            raise self._explained(games, error) from error
        finally:
            for game in games:
                if sound and self._is_good(game):
                    self._give_back(game)
                else:
                    game.close()

    def _explained(
        self, games: list[GameProcess], error: errors.EngineError
    ) -> errors.EngineError:
        for game in games:
            _LOG.debug("%s: %s: %s", game.pid, error, game.log_tail())
            explained = game.explain(error)
            if explained is not error:
                return explained
        if isinstance(error, websocket.ConnectionLost):
            return errors.EngineCrashed(str(error))  # nobody killed it: it crashed
        return error

    def _take(
        self,
        executable: Executable,
        count: int,
        games: list[GameProcess],
    ) -> None:
        """Fills `games`; whatever is in it on an error is the caller's to close."""
        with self._lock:
            fitting = [game for game in self._idle if game.executable == executable]
            for game in fitting[::-1][:count]:
                self._idle.remove(game)
                games.append(game)
            spawner = self._open_spawner()
        for game in [game for game in games if not game.is_ready()]:
            games.remove(game)
            game.close()
        # All are launched before the first is waited for: they start side by side.
        missing = [GameProcess(executable, spawner) for _ in range(count - len(games))]
        games += missing
        with self._lock:
            self.started += len(missing)
        for game in missing:
            game.connect(self.config.deadlines)

    def newly_started(self) -> int:
        """Returns how many processes it has launched since this was last asked."""
        with self._lock:
            new, self._told = self.started - self._told, self.started
        return new

    def _find(self) -> Installation:
        if self.config.root != SKIRMISH:
            return installation.find(Path(self.config.root))
        # In the spawner's folder, which goes with the process, however that ends.
        root = self._spawner.folder / "installation"
        install.install(root, versions.VERSIONS)
        return installation.find(root)

    def _open_spawner(self) -> Spawner:
        if not self._spawner.alive:
            self._spawner.close()
            self._spawner = Spawner()
            self.installation = self._find()
        return self._spawner

    def _is_good(self, game: GameProcess) -> bool:
        try:
            return (
                game.is_ready()
                and game.replays < self.config.max_replays
                and game.growth_bytes() < self.config.max_growth_bytes
            )
        except errors.EngineError:
            return False

    def _give_back(self, game: GameProcess) -> None:
        with self._lock:
            self._idle.append(game)
            surplus = [
                self._idle.popleft()
                for _ in range(len(self._idle) - self.config.max_idle)
            ]
        for game in surplus:
            game.close()

    def close(self) -> None:
        """Ends all idle games; those on loan end when they come back or with the process."""
        with self._lock:
            idle, self._idle = list(self._idle), collections.deque()
        for game in idle:
            game.close()
        self._spawner.close()


class _Shared:
    """The pools of this process, one per configuration, counted by their users."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pools: dict[PoolConfig, tuple[Pool, int]] = {}


_SHARED = _Shared()


def open_shared(config: PoolConfig) -> Pool:
    """Returns this process's pool for the configuration; give it back to `close_shared`."""
    with _SHARED.lock:
        pool, users = _SHARED.pools.get(config, (None, 0))
        pool = pool or Pool(config)
        _SHARED.pools[config] = pool, users + 1
        return pool


def close_shared(pool: Pool) -> None:
    """Ends the pool's games when its last user is done with it."""
    with _SHARED.lock:
        _, users = _SHARED.pools[pool.config]
        if users > 1:
            _SHARED.pools[pool.config] = pool, users - 1
            return
        del _SHARED.pools[pool.config]
    pool.close()
