"""Progress of a long command: a bar on a terminal, otherwise a line every ten seconds.

In: a function that returns how much is done. Out: text on a stream. A thread calls the function,
so the work needs no hooks and can run anywhere, even on a cluster.
"""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

_TERMINAL_SECONDS = 0.5
_PLAIN_SECONDS = 10.0


class _Shown:
    """Shows a text while the `with` block runs; subclasses provide the text."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._written = False

    def __enter__(self) -> Self:
        """Starts showing."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops showing; writes a last text if the block succeeded."""
        self._stop.set()
        self._thread.join()
        if kind is None:
            self._write(self._last())
        if self._terminal and self._written:
            self._stream.write("\n")

    def _now(self) -> str:
        """Returns the text of this moment."""
        raise NotImplementedError

    def _last(self) -> str:
        """Returns the text to end with; empty for none."""
        raise NotImplementedError

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _watch(self) -> None:
        pause = _TERMINAL_SECONDS if self._terminal else _PLAIN_SECONDS
        while not self._stop.wait(pause):
            self._write(self._now())

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(f"\r{text}\x1b[K" if self._terminal else f"{text}\n")
            self._stream.flush()
            self._written = True


class Progress(_Shown):
    """Shows how much of a known amount is done.

    label: the command's name.  total: when `done()` reaches this, all is done.
    unit: what is counted.  done: asked now and then; must be safe to call from a thread.
    starting: what goes on until the first of them is done, instead of zero; empty to show zero.
    """

    def __init__(
        self,
        label: str,
        total: int,
        unit: str,
        done: Callable[[], int],
        stream: TextIO | None = None,
        *,
        starting: str = "",
    ) -> None:
        super().__init__(stream)
        self._label, self._total, self._unit, self._done = label, total, unit, done
        self._starting = starting

    def __enter__(self) -> Self:
        """Starts showing."""
        self._first = self._done()
        return super().__enter__()

    def _now(self) -> str:
        done = self._done()
        if self._starting and done == self._first:
            return f"{self._label}  {self._starting}  {self._seconds():.0f} s"
        return self._text(min(done, self._total))

    def _last(self) -> str:
        return self._text(self._total)

    def _text(self, done: int) -> str:
        text = line(
            self._label,
            done,
            self._total,
            self._unit,
            seconds=self._seconds(),
            before=self._first,
        )
        filled = 20 * done // max(1, self._total)
        return f"[{'#' * filled:<20}] {text}" if self._terminal else text


class Waiting(_Shown):
    """Shows how long something of unknown length has taken; nothing if it ends soon."""

    def __init__(self, label: str, text: str, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._label, self._text = label, text

    def _now(self) -> str:
        return f"{self._label}  {self._text}  {self._seconds():.0f} s"

    def _last(self) -> str:
        return self._now() if self._written else ""


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
