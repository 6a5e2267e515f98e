"""Action frames, step plans and training steps against the recorded reference."""

import json
import random
from pathlib import Path

import pytest

from starmill.converters import timing
from starmill.schema import errors

E = timing.GameEvent


@pytest.fixture(scope="module")
def cases(shared: Path) -> list[dict]:
    return json.loads((shared / "golden/replay_stream/cases.json").read_text())


def _stream(case: dict) -> list[tuple[int, list[int]]]:
    if "stream" in case:
        return [(loop, actions) for loop, actions in case["stream"]]
    # Where the stream is left out, every frame has exactly one action, reported a loop later.
    loops = [0]
    for step in case["step_sequence"]:
        loops.append(loops[-1] + step)
    skips, out, since = case["skips"], [], -1
    for i, loop in enumerate(loops):
        actions = [k for k in skips if since < k < loop] if i else []
        since = max(since, loop - 1) if i else -1
        out.append((loop, actions))
    return out


def test_step_plans_equal_the_reference(cases: list[dict]) -> None:
    assert len(cases) >= 20
    for case in cases:
        assert timing.step_plan(case["skips"]) == case["step_sequence"], case["name"]


def test_training_steps_equal_the_reference(cases: list[dict]) -> None:
    for case in cases:
        steps = [
            [step.loop, step.reporting, step.delay_loops]
            for step in timing.training_steps(
                [(loop, actions) for loop, actions in _stream(case)], case["skips"]
            )
        ]
        assert steps == case["yielded"], case["name"]


def test_a_step_comes_out_as_soon_as_its_delay_is_known() -> None:
    frames = list(range(3, 300, 7))
    taken = 0

    def stream():
        nonlocal taken
        loop = 0
        for step in [0, *timing.step_plan(frames)]:
            loop += step
            taken += 1
            yield loop, loop

    loops = [0]
    for step in timing.step_plan(frames):
        loops.append(loops[-1] + step)
    for number, step in enumerate(timing.training_steps(stream(), frames)):
        # Two observations per frame, and the next step's two, are all it may have read.
        assert taken <= loops.index(step.loop) + 4, (number, step)


def test_only_observation_and_empty_stream() -> None:
    assert list(timing.training_steps([(0, "a")], [])) == [(0, "a", "a", 1)]
    with pytest.raises(errors.ConverterError, match="found none"):
        list(timing.training_steps([], [1]))
    with pytest.raises(errors.ConverterError, match="found loop 4"):
        list(timing.training_steps([(4, "a")], [1]))
    with pytest.raises(errors.ConverterError, match="loop 5 or later"):
        list(timing.training_steps([(0, "a"), (5, "b"), (4, "c")], [1]))


def test_step_plan_rejects_descending_frames() -> None:
    with pytest.raises(errors.ConverterError, match="ascending"):
        timing.step_plan([5, 4])


def test_action_frames_by_hand() -> None:
    events = [
        E(0, 0, "UserOptions"),
        E(3, 0, "CameraUpdate"),
        E(5, 0, "CameraUpdate"),  # the last of a run stands
        E(7, 0, "Cmd"),
        E(7, 0, "CameraUpdate"),  # does not replace the command
        E(8, 1, "SelectionDelta"),  # ignored
        E(9, 1, "CameraUpdate"),
        E(9, 1, "Cmd"),  # replaces the camera move
        E(12, 0, "CameraUpdate"),  # nothing follows: removed
        E(20, 1, "GameUserLeave"),
        E(30, 0, "Cmd"),  # after someone left
    ]
    assert timing.action_frames(events) == {1: [5, 7, 20], 2: [9, 20]}


def test_a_player_without_actions_has_no_list() -> None:
    assert timing.action_frames([E(4, 1, "Cmd")]) == {2: [4]}
    assert timing.action_frames([]) == {}


def test_a_third_user_is_an_error() -> None:
    with pytest.raises(errors.ReplayError) as caught:
        timing.action_frames([E(4, 2, "Cmd")])
    assert caught.value.reason == "players"
    # Ignored kinds and whoever leaves do not act.
    assert timing.action_frames([E(4, 16, "SetSyncLoadingTime")]) == {}
    assert timing.action_frames([E(1, 0, "Cmd"), E(4, 5, "GameUserLeave")]) == {
        1: [1, 4]
    }


def _thinned(pairs: list[tuple[int, str]]) -> list[int]:
    i = 0
    while i + 1 < len(pairs):
        if pairs[i][1] == pairs[i + 1][1] == "CameraUpdate":
            del pairs[i]
        else:
            i += 1
    if pairs and pairs[-1][1] == "CameraUpdate":
        del pairs[-1]
    return [loop for loop, _ in pairs]


def _slow_frames(events: list[timing.GameEvent]) -> dict[int, list[int]]:
    """The rule of golden/action_skips, clause by clause."""
    counted = [e for e in events if e.kind not in timing.IGNORED_KINDS]
    left = [i for i, e in enumerate(counted) if e.kind == "GameUserLeave"][:1]
    last = counted[left[0] if left else -1].loop if counted else None
    kept = counted[: left[0]] if left else counted
    out = {}
    for user in (0, 1):
        mine = [e for e in kept if e.user_id == user]
        pairs = []
        for loop in sorted({e.loop for e in mine}):
            names = [e.kind for e in mine if e.loop == loop]
            others = [name for name in names[1:] if name != "CameraUpdate"]
            pairs.append((loop, (names[:1] + others)[-1]))
        if mine:
            frames = _thinned(pairs)
            out[user + 1] = frames if frames[-1:] == [last] else [*frames, last]
    return out


def test_action_frames_equal_the_slow_rule() -> None:
    generator = random.Random(7)
    kinds = [
        "CameraUpdate",
        "CameraUpdate",
        "Cmd",
        "CommandManagerState",
        "UserOptions",
    ]
    for _ in range(300):
        loop, events = 0, []
        for _ in range(generator.randrange(40)):
            loop += generator.choice([0, 0, 1, 2, 9])
            kind = (
                "GameUserLeave"
                if generator.random() < 0.02
                else generator.choice(kinds)
            )
            events.append(E(loop, generator.randrange(2), kind))
        assert timing.action_frames(events) == _slow_frames(events)
