"""Which games are installed, and a pool of their processes that a worker's threads share.

In: a replay's version. Out: connected game processes of that version, reused from replay to
replay. A process is replaced after N replays, when it has grown, and whenever there is doubt
about it. Knows nothing of replays or observations; which game it is, StarCraft II or the
embedded one, makes no difference here but for where it is found.
"""

import collections
import contextlib
import dataclasses
import json
import logging
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from starmill.engines import client, game_process
from starmill.engines.skirmish import install, versions
from starmill.schema import errors

_LOG = logging.getLogger(__name__)
SKIRMISH = "skirmish"
_BASE = re.compile(r"Base(\d+)")


class GameVersion(NamedTuple):
    """A released version. data_version: 32 hex digits; None where it is not known."""

    number: str
    base_build: int
    data_version: str | None


# Blizzard's build list as pysc2 4.0.0 has it, by number. Not imported from pysc2, which
# reads its flags, all its maps and the game's data on import.
GAME_VERSIONS = {
    row[0]: GameVersion(*row)
    for row in json.loads(
        (Path(__file__).parent / "game_versions.json").read_text(encoding="utf-8")
    )
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Installation:
    """The builds under a StarCraft II folder. root: what `SC2PATH` names."""

    root: Path
    builds: tuple[int, ...]

    def executable(
        self, game_version: str, base_build: int, data_version: str | None
    ) -> game_process.Executable:
        """Returns what plays a replay of this version.

        Args:
            game_version: "4.9.2", with or without the build after it.
            base_build: the build whose folder holds the binary.
            data_version: the replay's own; None: the one of `GAME_VERSIONS`.

        Raises EngineMissing, with the versions that are there; it names no folder, since it
        ends up in the dataset, which must not depend on one.
        """
        number = ".".join(game_version.split(".")[:3])
        binary = self.root / "Versions" / f"Base{base_build:05d}" / "SC2_x64"
        if base_build not in self.builds:
            raise errors.EngineMissing(
                f"replay needs game version {number} (build {base_build}); "
                f"found {self.describe()} in $SC2PATH"
            )
        known = GAME_VERSIONS.get(number)
        if data_version is None and known and known.base_build == base_build:
            data_version = known.data_version
        return game_process.Executable(
            game_version=number,
            base_build=base_build,
            data_version=data_version,
            binary=str(binary),
            data_dir=str(self.root),
        )

    def describe(self) -> str:
        """Returns the versions found, for messages: "4.9.2 (build 74741)"."""
        names = {row.base_build: row.number for row in GAME_VERSIONS.values()}
        shown = [
            f"{names[build]} (build {build})" if build in names else f"build {build}"
            for build in self.builds
        ]
        return ", ".join(shown) or "no version"


def installation(root: Path) -> Installation:
    """Returns the builds under `root/Versions`; ConfigError if there is no such folder."""
    versions = root / "Versions"
    if not versions.is_dir():
        raise errors.ConfigError(
            f"no game in {root}: expected the folder {versions}. Set SC2PATH or --sc2 to "
            "a StarCraft II installation, or take the embedded game: --sc2 skirmish"
        )
    builds = []
    for folder in versions.iterdir():
        found = _BASE.fullmatch(folder.name)
        binary = folder / "SC2_x64"
        if found and binary.is_file() and os.access(binary, os.X_OK):
            builds.append(int(found.group(1)))
    return Installation(root=root, builds=tuple(sorted(builds)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolConfig:
    """How games are kept.

    root: the installation's folder, or SKIRMISH: one of the embedded game, laid out by
        each worker for itself. deadlines: see `client.Deadlines`.
    max_idle: processes kept waiting, over all versions; the longest unused goes first.
        Half as many replays are played at a time, however many threads a runner has: more
        would start games only to end them, and need the memory of all.
    max_replays: after this many a process is replaced.
    max_growth_bytes: a process that has gained more than this is replaced.
    max_rss_bytes: a process larger than this is ended even while it plays.
    """

    root: str
    deadlines: client.Deadlines = client.Deadlines()
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
        self._spawner = game_process.Spawner()
        try:
            self.installation = self._find()
        except errors.StarmillError:
            self._spawner.close()
            raise
        # Oldest first.
        self._idle: collections.deque[game_process.GameProcess] = collections.deque()

    @contextlib.contextmanager
    def lease(
        self, executable: game_process.Executable, count: int = 1
    ) -> Iterator[list[game_process.GameProcess]]:
        """Lends `count` connected games; after an error they are not used again.

        Only a replay that was refused leaves the game as good as it was: a message that
        cannot be converted may be the game's fault.
        """
        games: list[game_process.GameProcess] = []
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
        self, games: list[game_process.GameProcess], error: errors.EngineError
    ) -> errors.EngineError:
        for game in games:
            _LOG.debug("%s: %s: %s", game.pid, error, game.log_tail())
            explained = game.explain(error)
            if explained is not error:
                return explained
        if isinstance(error, client.ConnectionLost):
            return errors.EngineCrashed(str(error))  # nobody killed it: it crashed
        return error

    def _take(
        self,
        executable: game_process.Executable,
        count: int,
        games: list[game_process.GameProcess],
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
        missing = [
            game_process.GameProcess(executable, spawner)
            for _ in range(count - len(games))
        ]
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
            return installation(Path(self.config.root))
        # In the spawner's folder, which goes with the process, however that ends.
        root = self._spawner.folder / "installation"
        install.install(root, versions.VERSIONS)
        return installation(root)

    def _open_spawner(self) -> game_process.Spawner:
        if not self._spawner.alive:
            self._spawner.close()
            self._spawner = game_process.Spawner()
            self.installation = self._find()
        return self._spawner

    def _is_good(self, game: game_process.GameProcess) -> bool:
        try:
            return (
                game.is_ready()
                and game.replays < self.config.max_replays
                and game.growth_bytes() < self.config.max_growth_bytes
            )
        except errors.EngineError:
            return False

    def _give_back(self, game: game_process.GameProcess) -> None:
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
