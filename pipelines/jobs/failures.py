"""Finds the message of an error that a stage raised inside what Beam makes of it.

In: an error of Beam. Out: a ConfigError with one line.
"""

import contextlib
import re
from collections.abc import Iterator

from starmill.pipelines import local_runner
from starmill.schema import errors

# What our own errors look like inside the errors that Beam makes of them.
_OURS = re.compile(r"(?:starmill\.schema\.errors\.)?ConfigError: ([^\n]+)")
_SYSTEM = re.compile(r"(?:OSError|PermissionError): (\[Errno \d+\][^\n]+)")
_BEAM_ERRORS = (RuntimeError, ValueError, OSError, errors.StarmillError)


@contextlib.contextmanager
def run_errors() -> Iterator[None]:
    """Turns Beam's account of an error that a stage raised back into that error's message."""
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
