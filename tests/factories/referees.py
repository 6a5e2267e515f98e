"""Referees without a game, for tests of the tournament; picklable, so workers can have them."""

import dataclasses
import os
import signal
import time
from pathlib import Path

from starmill.benchmark.tournaments import schedule, tournament
from starmill.converters.protos import sc2api_pb2
from starmill.schema import errors


@dataclasses.dataclass(frozen=True)
class Scripted:
    """Outcomes follow from the fixture alone.

    crash_once, garbled_once, die_once, kill_parent: games during which the engine fails or
    sends garbage, the worker dies, or the whole run is killed, the first time; the worker
    that kills leaves its id in a file and plays on. hopeless: always. mistaken: in which
    an agent does not work.
    """

    folder: str
    crash_once: tuple[str, ...] = ()
    garbled_once: tuple[str, ...] = ()
    die_once: tuple[str, ...] = ()
    kill_parent: tuple[str, ...] = ()
    hopeless: tuple[str, ...] = ()
    unconvertible: tuple[str, ...] = ()
    mistaken: tuple[str, ...] = ()
    missing: bool = False

    def __call__(self) -> "Scripted":
        return self

    def _first_time(self, game: str) -> bool:
        mark = Path(self.folder) / f"tried-{game}"
        if mark.exists():
            return False
        mark.touch()
        return True

    def play(self, fixture: schedule.Fixture) -> tournament.Played:
        game = fixture.game
        if self.missing:
            raise errors.EngineMissing("no game here")
        if game in self.hopeless:
            raise errors.EngineCrashed("boom, as always")
        if game in self.unconvertible:
            raise errors.ConverterError("a unit nobody knows")
        if game in self.mistaken:
            raise IndexError("an agent looked at a unit that is not there")
        if game in self.crash_once and self._first_time(game):
            raise errors.EngineCrashed("boom")
        if game in self.garbled_once and self._first_time(game):
            sc2api_pb2.ResponseAction.FromString(b"\xff")
        if game in self.die_once and self._first_time(game):
            os._exit(3)
        if game in self.kill_parent and self._first_time(game):
            (Path(self.folder) / "worker").write_text(str(os.getpid()))
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(600)
        return tournament.Played(
            outcome=fixture.seed % 3 - 1,
            game_loops=1000 + fixture.seed % 977,
            ending="won",
            engine="none 0",
            replay=game.encode(),
        )

    def close(self) -> None:
        pass
