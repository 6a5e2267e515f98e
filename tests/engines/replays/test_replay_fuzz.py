"""A bounded run of the fuzzer; `make fuzz` runs it longer."""

import pytest

from starmill.engines.replays import replay_file
from tests import fuzz_replays


def test_damaged_replays_only_raise_the_projects_errors() -> None:
    """In this process: quick, and a failure shows its traceback."""
    statuses = {fuzz_replays.check(number)[0] for number in range(10_000, 10_500)}
    assert len(statuses) > 8  # the inputs reach many parts of the reader


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_longer_run_stays_in_time_and_memory() -> None:
    result = fuzz_replays.run(first=500_000, inputs=20_000, seconds=240)
    assert result.problems == []
    assert result.inputs > 500


def test_the_fuzzer_sees_what_it_looks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("not a project error")

    monkeypatch.setattr(replay_file, "open_replay", broken)
    with pytest.raises(KeyError):
        fuzz_replays.check(0)


def test_a_dying_process_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    result = fuzz_replays.Result()

    class Reader:
        messages = iter([("begin", 7)])

        def recv(self) -> object:
            try:
                return next(self.messages)
            except StopIteration:
                raise EOFError from None

    class Child:
        exitcode = -11

        def join(self) -> None:
            """Already dead."""

    following = fuzz_replays._listen(Reader(), Child(), 0, result, float("inf"))
    assert following == 8
    assert result.problems == ["input 7: the process died (-11)"]


def test_inputs_are_functions_of_their_numbers() -> None:
    assert [fuzz_replays.make(n) for n in range(30)] == [
        fuzz_replays.make(n) for n in range(30)
    ]
