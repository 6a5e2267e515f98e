"""The metrics of a run: a CSV, and what other tools show.

In: a dict of numbers for each logged update. Out: files in the run's folder, and by choice
TensorBoard events and a run of Weights & Biases. The CSV holds no times, so a run gives the
same bytes whether or not it was interrupted.
"""

import csv
import importlib
import io
import os
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from starmill.schema import errors, protobuf, shards, storage

CSV, EVENTS = "metrics.csv", "events.out.tfevents.{number}.starmill"
# The CSV is always written, because a run that continues reads it.
CSV_ONLY, TENSORBOARD, WANDB = "csv", "tensorboard", "wandb"
LOGGERS = (CSV_ONLY, TENSORBOARD, WANDB)
# Names the run of Weights & Biases, so that a continued training continues it.
WANDB_ID = "wandb-id.txt"
Row = dict[str, float]


class Writer(Protocol):
    """What shows metrics to another tool."""

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the values of one update."""

    def close(self) -> None:
        """Ends writing."""


class Journal:
    """Appends rows. When a run continues, rows after its checkpoint are removed first.

    Args:
        folder: the run's folder.
        update: the update of the checkpoint that the run continues from.
        loggers: what else to write besides the CSV, of LOGGERS.
    """

    def __init__(
        self,
        folder: Path,
        *,
        update: int = 0,
        loggers: Collection[str] = (TENSORBOARD,),
    ) -> None:
        for name in loggers:
            problem = errors.choice_problem("logger", name, LOGGERS)
            if problem:
                raise errors.ConfigError(problem)
        self._folder = folder
        self._rows = [row for row in read_rows(folder / CSV) if row["update"] <= update]
        self._rewrite()
        self._writers: list[Writer] = []
        if TENSORBOARD in loggers:
            earlier = len(list(folder.glob(EVENTS.format(number="*"))))
            path = folder / EVENTS.format(number=f"{earlier:04d}")
            self._writers.append(EventWriter(path))
        if WANDB in loggers:
            self._writers.append(WandbWriter(folder))

    def __enter__(self) -> "Journal":
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all writing."""
        for writer in self._writers:
            writer.close()

    def add(self, update: int, frames: int, metrics: Mapping[str, float]) -> None:
        """Writes one row: update, frames, then the metrics by name."""
        row = {"update": float(update), "frames": float(frames)}
        row |= {name: float(metrics[name]) for name in sorted(metrics)}
        new_columns = self._rows and set(row) != set(self._rows[-1])
        self._rows.append(row)
        if new_columns or len(self._rows) == 1:
            self._rewrite()
        else:
            with (self._folder / CSV).open("a", encoding="utf-8", newline="") as file:
                csv.writer(file).writerow(_cells(row, list(row)))
        for writer in self._writers:
            writer.add(update, {k: v for k, v in row.items() if k != "update"})

    def _rewrite(self) -> None:
        if not self._rows:
            (self._folder / CSV).unlink(missing_ok=True)
            return
        names = list(dict.fromkeys(name for row in self._rows for name in row))
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(names)
        writer.writerows(_cells(row, names) for row in self._rows)
        storage.write(str(self._folder / CSV), text.getvalue().encode())


def read_rows(path: Path) -> list[Row]:
    """Returns the rows of a CSV without their empty cells; none if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {name: float(cell) for name, cell in row.items() if cell}
            for row in csv.DictReader(file)
        ]


class EventWriter:
    """Writes a TensorBoard event file without TensorFlow: TFRecords of protobuf messages.

    An Event has wall_time (1, double), step (2, varint), and file_version (3) or summary (5). A
    summary has values (1), each with a tag (1) and a simple_value (2, float).
    """

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self._write(protobuf.bytes_field(3, b"brain.Event:2"))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Writes one event with a scalar for each value."""
        summary = b"".join(
            protobuf.bytes_field(
                1,
                protobuf.bytes_field(1, name.encode()) + protobuf.float_field(2, value),
            )
            for name, value in values.items()
        )
        self._write(protobuf.varint_field(2, step) + protobuf.bytes_field(5, summary))

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _write(self, rest: bytes) -> None:
        event = protobuf.double_field(1, time.time()) + rest
        self._file.write(shards.frame_record(event))
        self._file.flush()


class WandbWriter:
    """Writes a run of Weights & Biases, in the project that WANDB_PROJECT names (starmill).

    Its own environment variables apply; with WANDB_MODE=offline it needs no account.
    """

    def __init__(self, folder: Path) -> None:
        wandb = importlib.import_module("wandb")
        path = folder / WANDB_ID
        if not path.exists():
            storage.write(str(path), f"{secrets.token_hex(8)}\n".encode())
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "starmill"),
            name=folder.resolve().name,
            id=path.read_text("utf-8").strip(),
            resume="allow",
            dir=str(folder),
        )
        # A continued run repeats some updates, which steps of wandb's own would refuse.
        self._run.define_metric("*", step_metric="update")

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Logs the values, with the update as their axis."""
        self._run.log({"update": step, **values})

    def close(self) -> None:
        """Ends the run."""
        self._run.finish()


def _cells(row: Row, names: Sequence[str]) -> list[str]:
    return [f"{row[name]:.9g}" if name in row else "" for name in names]
