"""The exception tree. The branch an error is on decides who handles it, and how.

    StarmillError
    ├── ReplayError(reason)    this replay cannot be used: a quarantined row, counted by reason
    ├── EngineError            the game failed, the replay may be fine: retried on a fresh process
    │   ├── EngineCrashed
    │   │   └── EngineKilled   by a signal from outside: retried, not counted as an attempt
    │   ├── EngineTimeout
    │   ├── EngineDesync       the playback differs from the recorded game
    │   └── EngineMissing      not retried: the version is not installed
    ├── AgentError             a player failed: its game is not played, and not retried
    │   └── AgentLost          the process in which it acts ended or hangs: retried
    ├── ConverterError         a message cannot become arrays: quarantined with its reason
    ├── SpecError              arrays and spec disagree: our bug
    ├── FormatError            bytes on disk are not what was promised: exit 2
    │   ├── ShardCorrupt
    │   └── ManifestMismatch
    ├── DownloadError          a server refuses, or fails too often: listed, exit 1
    └── ConfigError            the request makes no sense: exit 2

A message says what was expected, what was found, where, and what to do about it.
"""

import difflib
from collections.abc import Collection

# A list of choices longer than this is cut short in a message.
_MOST_LISTED = 40


class StarmillError(Exception):
    """Anything that starmill raises on purpose."""


class ReplayError(StarmillError):
    """This replay cannot be used.

    reason: a short fixed word, the value of a `RejectReason`; what counters and tables show.
    detail: the sentence for people.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type["ReplayError"], tuple[str, str]]:
        """Keeps reason and detail apart when Beam pickles the error."""
        return type(self), (self.reason, self.detail)


class EngineError(StarmillError):
    """The game process failed; another process may succeed on the same replay."""


class EngineCrashed(EngineError):
    """The process ended, its connection broke, or its answer made no sense."""


class EngineKilled(EngineCrashed):
    """A signal from outside ended the process; the replay is not to blame.

    in_play: whether some of the replay had been played by then.
    """

    in_play = False


class EngineTimeout(EngineError):
    """The process did not answer before the deadline."""


class EngineDesync(EngineError):
    """The playback differs from the recorded game: other loops, an early end, a stub."""


class EngineMissing(EngineError):
    """No installed game can play this; another attempt would not help."""


class AgentError(StarmillError):
    """A player's own program failed during a game: it crashed, or it was silent for too long."""


class AgentLost(AgentError):
    """The process in which an agent acts ended, or did not answer; another may succeed."""


class ConverterError(StarmillError):
    """A game message or an agent's action cannot be converted."""


class SpecError(StarmillError):
    """Arrays do not satisfy the spec they were made for."""


class FormatError(StarmillError):
    """Stored bytes are not what the format promises."""


class ShardCorrupt(FormatError):
    """A shard's bytes are damaged: names the file, the episode and the chunk."""


class ManifestMismatch(FormatError):
    """A dataset, checkpoint or reference belongs to another schema or dataset."""


class DownloadError(StarmillError):
    """A server refused for good, or failed at every attempt."""


class ConfigError(StarmillError):
    """The request makes no sense or cannot be carried out as it stands."""


def choice_problem(name: str, value: object, choices: Collection[object]) -> str | None:
    """Returns None if `value` is one of the choices, otherwise what to say about it.

    For example "split 'tran': there are train, valid, test; did you mean 'train'?".
    """
    # Not `value in choices`: a value that cannot be hashed is as wrong as any other.
    if any(value == choice for choice in choices):
        return None
    names = [str(choice) for choice in choices]
    listed = ", ".join(names[:_MOST_LISTED])
    if len(names) > _MOST_LISTED:
        listed += f" and {len(names) - _MOST_LISTED} more"
    text = f"{name} {value!r}: there are {listed}" if names else f"{name} {value!r}"
    nearest = difflib.get_close_matches(str(value), names, n=1)
    return f"{text}; did you mean {nearest[0]!r}?" if nearest else text
