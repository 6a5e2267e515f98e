"""Playbacks of one player, recorded: as the pipeline plays, and as the predecessor does.

In: connected games, a replay, a player, and the loops on which the player acted. Out: a
`Recording` with every observation as the game sent it, kept in a temporary file, because a long
game's would fill the memory. Must not know what is checked with it.
"""

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Sequence

from starmill.converters import timing
from starmill.converters.episode import Observed
from starmill.engines import playback
from starmill.engines.playback import Info, Observation, Player
from starmill.schema.settings import ConverterSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Replay:
    """A replay that is played.

    Attributes:
        data: the file's bytes.
        name: the first digits of its sha256.
        game_version: like "4.9.2.74741".
        base_build: names the folder of the game that plays it.
        data_version: 32 hex digits; None if unknown.
        map_name: the map's English title; "" if unknown.
        duration_loops: by the header.
        mmrs: by player; 0 for a player without one, as the protocol has it.
        frames: by player, the loops on which the player acted.
    """

    data: bytes
    name: str
    game_version: str
    base_build: int
    data_version: str | None
    map_name: str
    duration_loops: int
    mmrs: dict[int, int]
    frames: dict[int, list[int]]


class Recording:
    """The observations of one player, in order.

    Attributes:
        info: what the converter needs besides.
        loops: game loop of each observation.
        end: the observation at the end of the replay; None before `play_to_end`.
    """

    def __init__(self, info: Info) -> None:
        self.info = info
        self.loops: list[int] = []
        self.end: Observation | None = None
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        self._offsets = [0]

    def add(self, loop: int, data: bytes) -> None:
        """Appends an observation."""
        self._file.seek(0, 2)
        self._file.write(data)
        self._offsets.append(self._offsets[-1] + len(data))
        self.loops.append(loop)

    def __len__(self) -> int:
        """Returns the number of observations."""
        return len(self.loops)

    def __getitem__(self, index: int) -> bytes:
        """Returns an observation, a serialized ResponseObservation."""
        self._file.seek(self._offsets[index])
        return self._file.read(self._offsets[index + 1] - self._offsets[index])

    def stream(self) -> Iterator[tuple[int, Observed]]:
        """Yields the observations as playback does."""
        for index, loop in enumerate(self.loops):
            yield loop, Observed(self[index])

    def close(self) -> None:
        """Removes the file."""
        self._file.close()


def play_own(
    player: Player,
    replay: Replay,
    side: int,
    settings: ConverterSettings,
    on_start: Callable[[Recording], None],
    has_ended: Callable[[], bool],
) -> None:
    """Plays a side as the pipeline does, to the end of the replay.

    on_start: gets the recording before the first observation, so that what was recorded before
        an error is not lost.
    has_ended: whether the game's latest status says that the replay has ended.
    """
    recording = Recording(player.load(replay.data, side, settings))
    on_start(recording)
    for loop, observed in player.stream(replay.frames.get(side, [])):
        recording.add(loop, observed.player)
    last = playback.parse_observation(recording[len(recording) - 1])
    if not last.ended and has_ended():
        recording.end = last  # without a result, but nothing is left to play
        return
    if not last.ended:
        player.send_step(max(1, replay.duration_loops - last.loop) + 1)
        player.finish_step()
        last = player.observe()
    recording.end = last


def play_in_step(
    players: tuple[Player, Player],
    replay: Replay,
    side: int,
    settings: ConverterSettings,
) -> Recording:
    """Plays a side as the predecessor does: with the opponent's process in step.

    players: of this side and of the other, in two processes.
    """
    own, other = players
    recording = Recording(own.load(replay.data, side, settings))
    with contextlib.ExitStack() as stack:
        stack.callback(recording.close)  # if anything fails
        other.load(replay.data, 3 - side, settings)
        observation = own.observe()
        other.observe()
        recording.add(observation.loop, observation.data)
        for count in _steps(replay.frames.get(side, [])):
            if own.is_last(observation):
                break
            for player in players:
                player.send_step(count)
            for player in players:
                player.finish_step()
            observation = own.observe()
            other.observe()
            recording.add(observation.loop, observation.data)
        stack.pop_all()
    return recording


def _steps(frames: Sequence[int]) -> Iterator[int]:
    """Yields the steps of the plan; a step of 0 would observe loop 0 twice."""
    plan = timing.step_plan(frames)
    if plan:
        yield from (count for count in plan if count > 0)
        return
    while True:
        yield 1
