"""Status lines, on a terminal and elsewhere."""

import io
import time

import pytest

from starmill import progress


def test_line() -> None:
    assert (
        progress.line("index", 0, 10, "replays", seconds=0.0) == "index  0/10 replays"
    )
    half = progress.line("index", 5_000, 10_000, "replays", seconds=10.0, before=1_000)
    assert half == "index  5,000/10,000 replays  400.0/s  left 0h00m12s"
    done = progress.line("index", 10, 10, "replays", seconds=5.0)
    assert done == "index  10/10 replays  2.0/s"
    slow = progress.line("generate", 3, 10, "replays", seconds=30.0)
    assert slow == "generate  3/10 replays  6.0/min  left 0h01m10s"
    long = progress.line("index", 1, 10_000, "x", seconds=1.0)
    assert long.endswith("left 2h46m39s")


def test_the_last_line_says_that_all_is_done() -> None:
    stream = io.StringIO()
    with progress.Progress("index", 3, "replays", lambda: 1, stream):
        pass
    assert stream.getvalue().startswith("index  3/3 replays")


def test_a_failure_does_not_say_so() -> None:
    stream = io.StringIO()
    with (
        pytest.raises(ValueError, match="no"),
        progress.Progress("index", 3, "replays", lambda: 1, stream),
    ):
        raise ValueError("no")
    assert "3/3" not in stream.getvalue()


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    with progress.Progress("index", 2, "replays", lambda: 0, stream):
        pass
    text = stream.getvalue()
    assert text.startswith("\r[####################] index  2/2 replays")
    assert text.endswith("\n")


def test_waiting_counts_seconds_and_is_silent_when_soon_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    with progress.Waiting("skirmish", "compiling", stream):
        pass
    assert stream.getvalue() == ""
    monkeypatch.setattr(progress, "_PLAIN_SECONDS", 0.01)
    with progress.Waiting("skirmish", "compiling", stream):
        while stream.getvalue().count("\n") < 3:
            time.sleep(0.01)
    assert set(stream.getvalue().splitlines()) == {"skirmish  compiling  0 s"}


def test_until_the_first_is_done_it_says_what_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "_PLAIN_SECONDS", 0.01)
    stream, done = io.StringIO(), 0
    with progress.Progress(
        "train", 9, "frames", lambda: done, stream, starting="compiling"
    ):
        while stream.getvalue().count("\n") < 2:
            time.sleep(0.01)
        done = 3
        while "3/9" not in stream.getvalue():
            time.sleep(0.01)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "train  compiling  0 s"
    assert not any("0/9" in line for line in lines)
