"""Which game loops become steps, and how long each action waited.

In: a replay's game events as (loop, user, kind). Out: the loops on which each player acted,
a step plan for the engine, and the training steps of an observation stream with their
delays. Knows nothing of protos or the engine; all of it is arithmetic on integers.

    loop      0 ....... k ........ k+1 ......... m ........ m+1
    observed  yes       yes        yes           yes        yes
    reported            -          action of k   -          action of m
    step      o[0]      o[k]                     o[m]       (last frame: once more)

An action taken on loop k is reported by the observation of k + 1, so both are observed, and
the step is the observation *before* the action took effect. The rules, down to those for a
frame on loop 0, are those of the reference (`pysc2.lib.replay`), so that its dataset can be
made again.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from starmill.schema import errors, reasons

Observation = TypeVar("Observation")

# Not actions, or (CmdUpdateTargetPoint) always beside an event that is counted, or of the
# visual interface only.
IGNORED_KINDS = frozenset(
    {
        "SetSyncLoadingTime",
        "SetSyncPlayingTime",
        "TriggerSoundLengthSync",
        "UserFinishedLoadingSync",
        "UserOptions",
        "CmdUpdateTargetPoint",
        "CameraSave",
        "ControlGroupUpdate",
        "SelectionDelta",
    }
)
CAMERA = "CameraUpdate"
LEAVE = "GameUserLeave"


class GameEvent(NamedTuple):
    """One event of `replay.game.events`.

    Attributes:
        loop: game loop on which it happened.
        user_id: who caused it: the player id minus one.
        kind: the event type's name between "NNet.Game.S" and "Event", like "Cmd".
    """

    loop: int
    user_id: int
    kind: str


class Step(NamedTuple, Generic[Observation]):
    """A training step.

    Attributes:
        loop: game loop of the observation.
        observation: the state before the action took effect.
        reporting: the observation that reports the action; itself for the last step.
        delay_loops: game loops until the next step; the last step repeats the delay
            before it.
    """

    loop: int
    observation: Observation
    reporting: Observation
    delay_loops: int


def action_frames(events: Iterable[GameEvent]) -> dict[int, list[int]]:
    """Returns, per player id, the ascending game loops on which the player acted.

    Reading stops at the first player who leaves. Every list ends with the last loop read;
    a player who did nothing has no list. Raises ReplayError if anyone but users 0 and 1
    acted.
    """
    entries: dict[int, list[tuple[int, bool]]] = {}  # loop, and whether only the camera
    last_loop = 0
    for loop, user_id, kind in events:
        if kind in IGNORED_KINDS:
            continue
        last_loop = loop
        if kind == LEAVE:
            break
        if user_id not in (0, 1):
            raise errors.ReplayError(
                reasons.RejectReason.PLAYERS,
                f"game events: expected users 0 and 1, found user {user_id} "
                f"on loop {loop} ({kind})",
            )
        mine = entries.setdefault(user_id + 1, [])
        camera = kind == CAMERA
        if not mine or mine[-1][0] != loop:
            mine.append((loop, camera))
        elif not camera:
            mine[-1] = (loop, False)
    return {player: _frames(entries[player], last_loop) for player in sorted(entries)}


def _frames(entries: Sequence[tuple[int, bool]], last_loop: int) -> list[int]:
    """Returns the loops left after thinning out camera moves, ended by `last_loop`."""
    # Of consecutive camera moves the last one counts, unless no action follows it.
    frames = [
        loop
        for i, (loop, camera) in enumerate(entries)
        if not camera or (i + 1 < len(entries) and not entries[i + 1][1])
    ]
    if not frames or frames[-1] != last_loop:
        frames.append(last_loop)
    return frames


def step_plan(frames: Sequence[int]) -> list[int]:
    """Returns the numbers of game loops to step, one observation after each.

    The stream is one observation at loop 0 and one after each of these. A first frame of
    0 gives a step of 0, and then the second frame as it is: the reference does so.
    """
    plan = []
    previous = 0
    for frame in frames:
        gap = frame - previous
        if gap < 0:
            raise errors.ConverterError(
                f"action frames: expected ascending loops, found {frame} after {previous}"
            )
        if previous == 0:
            plan.append(frame)
        elif gap > 0:
            plan.append(1)
            if gap > 1:
                plan.append(gap - 1)
        previous = frame
    return plan


def training_steps(
    stream: Iterable[tuple[int, Observation]], frames: Iterable[int]
) -> Iterator[Step[Observation]]:
    """Yields the training steps of an observation stream, as soon as each is known.

    Args:
        stream: (game loop, observation) in order, beginning at loop 0, as observed by
            following `step_plan(frames)`.
        frames: the player's action frames.

    A step's delay is known when the next step is, so at most three observations are held.
    """
    acted = frozenset(frames)
    observations = iter(stream)
    first = next(observations, None)
    if first is None or first[0] != 0:
        raise errors.ConverterError(
            "observation stream: expected a first observation at loop 0, found "
            + ("none" if first is None else f"loop {first[0]}")
        )
    current_loop, current = first
    # The step whose delay is not known yet: (loop, observation, reporting).
    waiting: tuple[int, Observation, Observation] | None = None
    previous_delay = 1
    emitted = False  # whether an observation after loop 0 has closed a step
    for loop, observation in observations:
        if loop < current_loop:
            raise errors.ConverterError(
                f"observation stream: expected loop {current_loop} or later, "
                f"found {loop}"
            )
        if loop != 0 and (not emitted or loop - 1 in acted):
            if waiting is not None:
                yield Step(*waiting, current_loop - waiting[0])
            waiting = (current_loop, current, observation)
            emitted = True
        current_loop, current = loop, observation
    if waiting is not None:
        previous_delay = current_loop - waiting[0]
        yield Step(*waiting, previous_delay)
    yield Step(current_loop, current, current, previous_delay)
