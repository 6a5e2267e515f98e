"""Plays back a replay in one or two game processes: a stream of observations per player.

In: connected games, a replay's bytes, a player, and the loops on which the player acted.
Out: (game loop, observation) in the order of the reference's replay stream, each observation
byte for byte what the game sent. Knows nothing of arrays.

A process observes one player, so a game is played once per player. The reference plays it
twice; its second process serves opponent features alone. With opponent features, both
players' processes step together over the loops of both plans:

    player 1 acts on      10      25      40  60
    player 2 acts on          18      33  40
    both stop at       0  10  18  25  33  40  60
    stream of 1        0  10      25      40  60    each with player 2's of the same loop
    stream of 2        0      18      33  40        each with player 1's of the same loop

An observation carries the actions since the previous one. Actions reported on a loop of the
other player alone are kept, and come before those of the player's own next observation.

Departs from the reference, which does not check that playback follows the recording. Here a
step that ends on another loop than asked, a stub in place of an observation, and a game that
ends before the last recorded action (unless it is decided, and ends shortly before) raise
EngineDesync: arrays made of them would not be the recorded game's.
"""

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from google.protobuf.message import DecodeError

from starmill.converters import timing
from starmill.converters.episode import Observed
from starmill.converters.protos import common_pb2, sc2api_pb2
from starmill.engines import game_process
from starmill.schema import errors, protobuf
from starmill.schema.settings import ConverterSettings

# The reference's bound on an episode, in loops; the longest known replay has 303,109.
MAX_LOOPS = 1_000_000
# Players look around for a while after the last building has fallen, and the file has those
# events too: a game may end up to ten seconds before the last of them.
EARLY_END_LOOPS = 224
# The game loop of an observation in which nothing but the result is left.
STUB_LOOP = 2**32 - 1
_MEMORY_CHECK_EVERY = 64
_QUEUE_LENGTH = 8
_ACTIONS, _OBSERVATION, _PLAYER_RESULT = 1, 3, 4
_GAME_LOOP = 9  # of Observation
_RESULT = 2  # of PlayerResult
Stream = Iterator[tuple[int, Observed]]


class Observation(NamedTuple):
    """An observation as the game sent it.

    Attributes:
        loop: game loop of the observation.
        data: the serialized ResponseObservation.
        ended: whether it has the players' results.
        decided: whether one of these is a win, a loss or a tie.
    """

    loop: int
    data: bytes
    ended: bool
    decided: bool


def parse_observation(data: bytes) -> Observation:
    """Extracts what playback needs from a ResponseObservation without parsing the rest."""
    loop, ended, decided = None, False, False
    try:
        for field in protobuf.fields(data):
            if field.number == _OBSERVATION:
                loop = _inner(data, field, _GAME_LOOP)
            elif field.number == _PLAYER_RESULT:
                ended = True
                decided |= _inner(data, field, _RESULT) != sc2api_pb2.Undecided
    except DecodeError as error:
        raise errors.EngineCrashed("an observation is not a message") from error
    if loop == STUB_LOOP:
        raise errors.EngineDesync("the game gave a stub instead of an observation")
    if loop is None:
        raise errors.EngineCrashed("an observation has no game loop")
    return Observation(loop, data, ended, decided)


def game_loop(data: bytes) -> int | None:
    """Returns the game loop of a ResponseObservation; None if it has none."""
    try:
        for field in protobuf.fields(data):
            if field.number == _OBSERVATION:
                return _inner(data, field, _GAME_LOOP)
    except DecodeError as error:
        raise errors.EngineCrashed("an observation is not a message") from error
    return None


def _inner(data: bytes, field: protobuf.Field, number: int) -> int | None:
    """Returns an integer field of a message within a message."""
    for inner in protobuf.fields(data, field.start, field.end):
        if inner.number == number:
            return inner.value
    return None


def reported_actions(data: bytes) -> bytes:
    """Returns the `actions` fields of a ResponseObservation, tags included."""
    return b"".join(
        data[field.tag_start : field.end]
        for field in protobuf.fields(data)
        if field.number == _ACTIONS
    )


def interface_options(
    settings: ConverterSettings,
) -> sc2api_pb2.InterfaceOptions:
    """Returns the options that the reference derives from these settings."""
    width, height = settings.minimap
    return sc2api_pb2.InterfaceOptions(
        raw=settings.raw_settings is not None,
        score=True,
        feature_layer=sc2api_pb2.SpatialCameraSetup(
            width=settings.camera_width_world_units,
            allow_cheating_layers=False,
            resolution=common_pb2.Size2DI(x=1, y=1),
            minimap_resolution=common_pb2.Size2DI(x=width, y=height),
            crop_to_playable_area=settings.crop_to_playable_area,
        ),
        show_cloaked=True,
        show_burrowed_shadows=True,
        show_placeholders=True,
        raw_affects_selection=True,
        raw_crop_to_playable_area=settings.crop_to_playable_area,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Info:
    """What the converter needs besides observations.

    Attributes:
        game_info: the serialized ResponseGameInfo.
        replay_info: the serialized ResponseReplayInfo.
    """

    game_info: bytes
    replay_info: bytes


class Player:
    """One player's view of a replay in one game process.

    Attributes:
        loops_played: game loops stepped so far, for the counters.
    """

    def __init__(
        self,
        game: game_process.GameProcess,
        *,
        max_rss_bytes: int = 1 << 62,
        max_loops: int = MAX_LOOPS,
    ) -> None:
        if game.client is None:
            raise errors.EngineError("the game is not connected")
        self._game = game
        self._client = game.client
        self._max_rss_bytes = max_rss_bytes
        self._max_loops = max_loops
        self._count = 0
        self._loop = 0
        self.loops_played = 0

    def load(self, data: bytes, player_id: int, settings: ConverterSettings) -> Info:
        """Loads the replay as this player saw it; the game then stands at loop 0."""
        replay_info = self._client.replay_info(data)
        request = sc2api_pb2.RequestStartReplay(
            replay_data=data,
            observed_player_id=player_id,
            options=interface_options(settings),
            disable_fog=False,
        )
        map_data = self._map_data(replay_info)
        if map_data is not None:
            request.map_data = map_data
        self._client.start_replay(request)
        return Info(game_info=self._client.game_info(), replay_info=replay_info)

    def _map_data(self, replay_info: bytes) -> bytes | None:
        path = sc2api_pb2.ResponseReplayInfo.FromString(replay_info).local_map_path
        if not path.lower().endswith(".sc2map"):
            return None
        file = Path(self._game.executable.data_dir) / "Maps" / path
        try:
            return file.read_bytes()
        except OSError as error:
            raise errors.EngineMissing(
                f"replay needs the map {path}, which is not in $SC2PATH/Maps"
            ) from error

    def observe(self) -> Observation:
        """Returns the current observation; EngineDesync if it is not on the loop stepped to."""
        self._client.send_observation()
        observation = parse_observation(self._client.receive())
        if observation.loop != self._loop and not (
            observation.ended and observation.loop < self._loop
        ):
            raise errors.EngineDesync("a step ended on another loop than asked for")
        self._count += 1
        if self._count % _MEMORY_CHECK_EVERY == 0:
            self._check_memory()
        return observation

    def send_step(self, loops: int) -> None:
        """Starts a step of so many loops; `finish_step` waits for its end."""
        self._loop += loops
        self.loops_played += loops
        self._client.send_step(loops)

    def finish_step(self) -> None:
        """Waits until the step has ended."""
        self._client.receive()

    def is_last(self, observation: Observation) -> bool:
        """Returns whether the game has ended, or has reached the bound on its length."""
        return observation.ended or observation.loop >= self._max_loops - 1

    def _check_memory(self) -> None:
        if self._game.rss_bytes() > self._max_rss_bytes:
            raise errors.EngineCrashed("the game grew beyond its memory limit")

    def stream(self, frames: Sequence[int]) -> Stream:
        """Yields the player's observations by the step plan of its action frames.

        While the caller works on one, the game plays to the next.
        """
        plan = timing.step_plan(frames)
        pending = False
        try:
            observation = self.observe()
            steps = _positive(plan) if plan else _endless()
            for count in steps:
                if self.is_last(observation):
                    break
                self.send_step(count)
                pending = True
                yield observation.loop, Observed(observation.data)
                self.finish_step()
                pending = False
                observation = self.observe()
            check_end(observation, frames)
            yield observation.loop, Observed(observation.data)
        finally:
            if (
                pending
            ):  # the caller stopped early: make the game ready for the next replay
                with contextlib.suppress(errors.EngineError):
                    self.finish_step()


def _positive(plan: Sequence[int]) -> Iterator[int]:
    # A player who acts on loop 0 has a step of 0. It would observe loop 0 a second time, and
    # that observation replaces the first.
    return (count for count in plan if count > 0)


def _endless() -> Iterator[int]:
    # For a player who never acted, the reference observes every loop until the end.
    while True:
        yield 1


def check_end(observation: Observation, frames: Sequence[int]) -> None:
    """Raises EngineDesync if the game ended before the last recorded action.

    A decided game may end shortly before it.
    """
    missing = frames[-1] - observation.loop if frames else 0
    if missing > (EARLY_END_LOOPS if observation.decided else 0):
        raise errors.EngineDesync("the game ended before the last recorded action")


class Pair:
    """Both players' views in two processes that step together, for opponent features.

    `stream` gives an iterator for each player. Two threads may consume them; the streams are
    never more than a few observations apart.
    """

    def __init__(
        self, players: tuple[Player, Player], frames: dict[int, list[int]]
    ) -> None:
        self._players = players
        self._lock = threading.Condition()
        self._queues: dict[int, collections.deque[tuple[int, Observed]]] = {
            1: collections.deque(),
            2: collections.deque(),
        }
        self._open = {1: True, 2: True}  # whether the stream is still read
        self._done = {1: False, 2: False}  # whether its last observation has come
        self._targets = {player: _targets(frames.get(player, [])) for player in (1, 2)}
        self._frames = frames
        self._next: dict[int, int] = {}
        self._kept = {1: b"", 2: b""}
        self._loop = 0
        self._started = False
        self._failure: errors.StarmillError | None = None

    def stream(self, player_id: int) -> Stream:
        """Yields a player's observations, each with the other player's of the same loop."""
        try:
            while (item := self._item(player_id)) is not None:
                yield item
        finally:
            with self._lock:
                self._open[player_id] = False
                self._queues[player_id].clear()
                self._lock.notify_all()

    def _item(self, player_id: int) -> tuple[int, Observed] | None:
        other = 3 - player_id
        with self._lock:
            while True:
                if self._queues[player_id]:
                    item = self._queues[player_id].popleft()
                    self._lock.notify_all()
                    return item
                if self._failure is not None:
                    raise self._failure
                if self._done[player_id]:
                    return None
                if len(self._queues[other]) >= _QUEUE_LENGTH and self._open[other]:
                    self._lock.wait()
                    continue
                try:
                    self._advance()
                except errors.StarmillError as error:
                    self._failure = error
                    self._lock.notify_all()
                    raise

    def _advance(self) -> None:
        """Plays both to the next loop of either plan, and queues its observations."""
        if self._started:
            targets = [self._next[p] for p in (1, 2) if not self._done[p]]
            count = min(targets) - self._loop
            for player in self._players:
                player.send_step(count)
            for player in self._players:
                player.finish_step()
            self._loop += count
        self._started = True
        observations = {
            i + 1: player.observe() for i, player in enumerate(self._players)
        }
        over = any(self._players[p - 1].is_last(observations[p]) for p in (1, 2))
        for player_id in (1, 2):
            if not self._done[player_id]:
                self._queue_up(player_id, observations, over)

    def _queue_up(
        self, player_id: int, observations: dict[int, Observation], over: bool
    ) -> None:
        own, other = observations[player_id], observations[3 - player_id]
        if own.loop != other.loop:
            raise errors.EngineDesync("the two players' games are on different loops")
        if not over and self._next.get(player_id, 0) != self._loop:
            self._kept[player_id] += reported_actions(own.data)
            return
        data = self._kept[player_id] + own.data
        self._kept[player_id] = b""
        target = next(self._targets[player_id], None)
        if over or target is None:
            self._done[player_id] = True
            check_end(own, self._frames.get(player_id, []))
        else:
            self._next[player_id] = target
        if self._open[player_id]:
            self._queues[player_id].append((own.loop, Observed(data, other.data)))
            self._lock.notify_all()


def _targets(frames: Sequence[int]) -> Iterator[int]:
    """Yields the loops after loop 0 that are to be observed, ascending."""
    plan = timing.step_plan(frames)
    loop = 0
    for count in _positive(plan) if plan else _endless():
        loop += count
        yield loop
