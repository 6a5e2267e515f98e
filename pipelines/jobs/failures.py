"""Extracts the message of a stage's error from the error that Beam raises in its place.

In: an error of Beam. Out: a ConfigError with one line.
"""

import contextlib
import re
from collections.abc import Iterator

from starmill.pipelines import local_runner
from starmill.schema import errors

# How our own errors are quoted in Beam's errors.
_OURS = re.compile(r"(?:starmill\.schema\.errors\.)?ConfigError: ([^\n]+)")
_SYSTEM = re.compile(r"(?:OSError|PermissionError): (\[Errno \d+\][^\n]+)")
_BEAM_ERRORS = (RuntimeError, ValueError, OSError, errors.StarmillError)


@contextlib.contextmanager
def run_errors() -> Iterator[None]:
    """Raises a stage's error with its own message instead of Beam's."""
    try:
        yield
    except local_runner.WorkerLost:
        raise
    except _BEAM_ERRORS as error:
        text = f"{type(error).__name__}: {error}"
        messages = _OURS.findall(text) or _SYSTEM.findall(text)
        if messages:
            raise errors.ConfigError(messages[-1].strip()) from error
        raise
