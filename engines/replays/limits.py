"""What reading an untrusted replay may cost, in bytes, values and time.

In: a number of limits. Out: a `Meter` that raises ReplayError once decoding exceeds them.
Knows nothing of what is decoded.
"""

import dataclasses
import time

from starmill.schema import errors
from starmill.schema.reasons import RejectReason

_MIB = 1 << 20
_VALUES_BETWEEN_CLOCK_READINGS = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a replay may cost.

    With the defaults, any file is read in less than two seconds and 512 MB. They are several
    times what the largest real replays need.

    Attributes:
        file_bytes: size of the file. The largest known replay is under 4 MiB.
        table_entries: of each of the archive's two tables. Replays have up to 32 and 18.
        metadata_bytes: unpacked size of replay.gamemetadata.json.
        details_bytes: unpacked size of replay.details.
        init_data_bytes: unpacked size of replay.initData.
        events_bytes: unpacked size of each event stream.
        events: game events of one replay, and tracker events.
        values: Python objects built when a member, or one event, is decoded whole.
        seconds: CPU time for decoding it.
    """

    file_bytes: int = 32 * _MIB
    table_entries: int = 4096
    metadata_bytes: int = _MIB
    details_bytes: int = _MIB
    init_data_bytes: int = _MIB
    events_bytes: int = 16 * _MIB
    events: int = 1_000_000
    values: int = 300_000
    seconds: float = 2.0

    def __post_init__(self) -> None:
        """Checks that no limit is zero or negative."""
        bad = [name for name, value in vars(self).items() if value <= 0]
        if bad:
            raise errors.ConfigError(f"limits: expected positive values for {bad}")

    def meter(self) -> "Meter":
        """Returns a meter for decoding one member or event; its clock starts now."""
        return Meter(self.values, time.thread_time() + self.seconds)


DEFAULT_LIMITS = Limits()


@dataclasses.dataclass
class Meter:
    """Counts decoded values, and raises ReplayError once there are too many.

    Attributes:
        left: how many more values may be decoded.
        deadline: value of `time.thread_time()` after which decoding stops. This is CPU
            time, so that a busy machine gives the same rows.
    """

    left: int
    deadline: float

    def tick(self) -> None:
        """Counts one value; raises ReplayError beyond the number or the deadline."""
        self.left -= 1
        if self.left < 0:
            raise errors.ReplayError(
                RejectReason.TOO_LARGE, "more values to decode than the limit"
            )
        if (
            self.left % _VALUES_BETWEEN_CLOCK_READINGS == 0
            and time.thread_time() > self.deadline
        ):
            raise errors.ReplayError(
                RejectReason.TOO_SLOW, "decoding took longer than the limit"
            )
