import pytest

from starmill.pipelines import local_runner
from starmill.pipelines.jobs import failures
from starmill.schema import errors


def test_our_message_is_found_in_the_trace_of_beam():
    trace = (
        "Traceback (most recent call last):\n  ...\n"
        "starmill.schema.errors.ConfigError: no such bucket: 'x'\n\nmore"
    )
    with (
        pytest.raises(errors.ConfigError, match=r"^no such bucket: 'x'$"),
        failures.run_errors(),
    ):
        raise RuntimeError(trace)


def test_other_errors_stay_as_they_are():
    with pytest.raises(RuntimeError, match="^what$"), failures.run_errors():
        raise RuntimeError("what")
    with pytest.raises(local_runner.WorkerLost), failures.run_errors():
        raise local_runner.WorkerLost("ConfigError: of another")
