"""Progress of a long command: a bar on a terminal, a status line every ten seconds else.

In: a function that says how much is done. It is asked from a thread, so the work itself
needs no hooks and can run anywhere, on a cluster too.
"""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

_TERMINAL_SECONDS = 0.5
_PLAIN_SECONDS = 10.0


class Progress:
    """Shows progress while the `with` block runs.

    label: the command's name.  total: when `done()` reaches this, all is done.
    unit: what is counted.  done: asked now and then; must be safe to call from a thread.
    """

    def __init__(
        self,
        label: str,
        total: int,
        unit: str,
        done: Callable[[], int],
        stream: TextIO | None = None,
    ) -> None:
        self._label, self._total, self._unit, self._done = label, total, unit, done
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Progress":
        """Starts showing."""
        self._first = self._done()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops showing, with a last line if all went well."""
        self._stop.set()
        self._thread.join()
        if kind is None:
            self._show(self._total)
        if self._terminal:
            self._stream.write("\n")

    def _watch(self) -> None:
        pause = _TERMINAL_SECONDS if self._terminal else _PLAIN_SECONDS
        while not self._stop.wait(pause):
            self._show(min(self._done(), self._total))

    def _show(self, done: int) -> None:
        text = line(
            self._label,
            done,
            self._total,
            self._unit,
            seconds=time.monotonic() - self._began,
            before=self._first,
        )
        if self._terminal:
            filled = 20 * done // max(1, self._total)
            self._stream.write(f"\r[{'#' * filled:<20}] {text}\x1b[K")
        else:
            self._stream.write(text + "\n")
        self._stream.flush()


def line(
    label: str, done: int, total: int, unit: str, *, seconds: float, before: int = 0
) -> str:
    """Returns one status line: how much is done, how fast, and how long it will take.

    before: what was done already when the clock started; it does not count as speed.
    """
    rate = (done - before) / seconds if seconds > 0 else 0.0
    parts = [f"{label}  {done:,}/{total:,} {unit}"]
    if rate > 0:
        # Games and replays take seconds each: those are counted by the minute.
        parts.append(f"{rate:,.1f}/s" if rate >= 1 else f"{60 * rate:,.1f}/min")
        if done < total:
            left = int((total - done) / rate)
            parts.append(
                f"left {left // 3600}h{left % 3600 // 60:02d}m{left % 60:02d}s"
            )
    return "  ".join(parts)
