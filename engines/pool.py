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

    Attributes:
        root: folder of the installation, or SKIRMISH: each worker then installs the
            embedded game for itself.
        deadlines: how long a game may take.
        max_idle: processes kept waiting, over all versions; the one unused for longest ends
            first. Half as many replays are played at a time, however many threads a runner
            has: more would start games only to end them, and need memory for all of them.
        max_idle_bytes: memory of the processes kept waiting. Before another version's games are
            launched, waiting ones end until these fit in as well, by the size of the largest.
        max_replays: after this many replays a process is replaced.
        max_growth_bytes: a process whose memory has grown by more than this is replaced.
        max_rss_bytes: a process larger than this is ended even while it plays.
    """

    root: str
    deadlines: Deadlines = Deadlines()
    max_idle: int = 8
    max_idle_bytes: int = 4 << 30
    max_replays: int = 200
    max_growth_bytes: int = 1 << 30
    max_rss_bytes: int = 6 << 30

    def __post_init__(self) -> None:
        """Checks the bounds."""
        for name in (
            "max_idle_bytes",
            "max_replays",
            "max_growth_bytes",
            "max_rss_bytes",
        ):
            if getattr(self, name) < 1:
                raise errors.ConfigError(
                    f"{name}: expected at least 1, found {getattr(self, name)!r}"
                )


class Pool:
    """Game processes of one installation, for all threads of this process.

    Attributes:
        config: how games are kept.
        installation: where the games are.
        started: how many processes have been launched so far.
        turns: to be held while a replay is played; see `PoolConfig.max_idle`.
    """

    def __init__(self, config: PoolConfig) -> None:
        self.config = config
        self.started = 0
        self._reported = 0
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

    @property
    def folder(self) -> Path:
        """Holds what belongs to the games; its name is on their command lines."""
        return self._spawner.folder

    @contextlib.contextmanager
    def lease(
        self, executable: Executable, count: int = 1
    ) -> Iterator[list[GameProcess]]:
        """Lends `count` connected games; after an error they are not used again.

        ReplayError is the exception: a game that refuses a replay works as before. A message
        that cannot be converted, though, may be the game's fault.
        """
        games: list[GameProcess] = []
        works = False
        try:
            self._fill(executable, count, games)
            for game in games:
                game.replays += 1
            try:
                yield games
                works = True
            except errors.ReplayError:
                works = True
                raise
        except errors.EngineError as error:
            raise self._explained(games, error) from error
        finally:
            for game in games:
                if works and self._is_good(game):
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
            return errors.EngineCrashed(str(error))  # nobody killed it, so it crashed
        return error

    def _fill(
        self, executable: Executable, count: int, games: list[GameProcess]
    ) -> None:
        """Adds games to the list. After an error, the caller closes those in it."""
        with self._lock:
            same = [game for game in self._idle if game.executable == executable]
            for game in same[::-1][:count]:
                self._idle.remove(game)
                games.append(game)
            spawner = self._open_spawner()
            surplus = self._without_room(count - len(games))
        for game in surplus:
            game.close()
        for game in [game for game in games if not game.is_ready()]:
            games.remove(game)
            game.close()
        # All are launched before the wait for the first, so that they start side by side.
        new = []
        for _ in range(count - len(games)):
            new.append(GameProcess(executable, spawner))
            games.append(new[-1])
        with self._lock:
            self.started += len(new)
        for game in new:
            game.connect(self.config.deadlines)

    def newly_started(self) -> int:
        """Returns how many processes have been launched since the last call."""
        with self._lock:
            new, self._reported = self.started - self._reported, self.started
        return new

    def _find(self) -> Installation:
        if self.config.root != SKIRMISH:
            return installation.find(Path(self.config.root))
        # In the spawner's folder, which is removed however this process ends.
        root = self._spawner.folder / "installation"
        install.install(root, versions.VERSIONS)
        return installation.find(root)

    def _open_spawner(self) -> Spawner:
        if not self._spawner.alive:
            # In the same folder, where executables that are in use keep their paths.
            self._spawner = self._spawner.replacement()
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
            surplus += self._without_room(0)
        for game in surplus:
            game.close()

    def _without_room(self, new: int) -> list[GameProcess]:
        """Takes out the waiting games, oldest first, beside which `new` others lack memory."""
        sizes = [game.rss_bytes() for game in self._idle]
        total = sum(sizes) + new * max(sizes, default=0)
        surplus = []
        for size in sizes:
            if total <= self.config.max_idle_bytes:
                break
            surplus.append(self._idle.popleft())
            total -= size
        return surplus

    def close(self) -> None:
        """Ends all games: idle ones now, lent ones with the spawner."""
        with self._lock:
            idle, self._idle = list(self._idle), collections.deque()
        for game in idle:
            game.close()
        self._spawner.close()


class _Shared:
    """The pools of this process: one for each configuration, with its number of users."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pools: dict[PoolConfig, tuple[Pool, int]] = {}


_SHARED = _Shared()


def open_shared(config: PoolConfig) -> Pool:
    """Returns this process's pool for the configuration; end its use with `close_shared`."""
    with _SHARED.lock:
        pool, users = _SHARED.pools.get(config, (None, 0))
        pool = pool or Pool(config)
        _SHARED.pools[config] = pool, users + 1
        return pool


def close_shared(pool: Pool) -> None:
    """Ends one use of a shared pool; the last use closes it."""
    with _SHARED.lock:
        _, users = _SHARED.pools[pool.config]
        if users > 1:
            _SHARED.pools[pool.config] = pool, users - 1
            return
        del _SHARED.pools[pool.config]
    pool.close()
