"""CSV and TensorBoard events."""

import importlib
import json
import os
import struct
import subprocess
import sys

import pytest

from starmill.learners import journal
from starmill.schema import errors, shards


def _write(folder, updates, start=0):
    with journal.Journal(folder, update=start) as notes:
        for update in updates:
            notes.add(
                update, 10 * update, {"loss": 1 / update, "accuracy/function": 0.5}
            )


def test_rows_are_numbers_by_name(tmp_path):
    _write(tmp_path, [1, 2, 3])
    rows = journal.read_rows(tmp_path / journal.CSV)
    assert [row["update"] for row in rows] == [1, 2, 3]
    assert rows[1] == {"update": 2, "frames": 20, "loss": 0.5, "accuracy/function": 0.5}


def test_a_resumed_journal_has_the_same_bytes(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    _write(tmp_path / "a", range(1, 7))
    _write(tmp_path / "b", range(1, 6))
    _write(tmp_path / "b", range(4, 7), start=3)
    name = journal.CSV
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert len(list((tmp_path / "b").glob("events.out.tfevents.*"))) == 2


def test_new_metrics_get_a_column(tmp_path):
    with journal.Journal(tmp_path) as notes:
        notes.add(1, 1, {"loss": 1.0})
        notes.add(2, 2, {"loss": 1.0, "rho": 0.5})
    rows = journal.read_rows(tmp_path / journal.CSV)
    assert "rho" not in rows[0]
    assert rows[1]["rho"] == 0.5


def test_events_are_what_tensorboard_reads(tmp_path):
    _write(tmp_path, [1, 300])
    (path,) = tmp_path.glob("events.out.tfevents.*")
    records = list(shards.records_of(path.read_bytes(), str(path)))
    assert records[0][9:] == b"\x1a\x0dbrain.Event:2"
    last = records[2]
    assert last[9:12] == b"\x10\xac\x02"  # step 300
    assert b"accuracy/function\x15" + struct.pack("<f", 0.5) in last
    assert b"loss\x15" + struct.pack("<f", 1 / 300) in last


@pytest.mark.slow
def test_tensorflow_reads_the_events(tmp_path):
    event_pb2 = pytest.importorskip("tensorflow.core.util.event_pb2")
    _write(tmp_path, [7])
    (path,) = tmp_path.glob("events.out.tfevents.*")
    record = list(shards.records_of(path.read_bytes(), str(path)))[1]
    event = event_pb2.Event.FromString(record)
    assert event.step == 7
    assert event.wall_time > 0
    assert {v.tag: v.simple_value for v in event.summary.value} == {
        "frames": 70.0,
        "loss": pytest.approx(1 / 7),
        "accuracy/function": 0.5,
    }


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TensorBoard's imports
def test_tensorboard_shows_the_metrics(tmp_path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    _write(tmp_path, [1, 2])
    shown = reader.EventAccumulator(str(tmp_path)).Reload()
    losses = [(event.step, event.value) for event in shown.Scalars("loss")]
    assert losses == [(1, 1.0), (2, 0.5)]


def test_csv_alone_writes_no_events(tmp_path):
    with journal.Journal(tmp_path, loggers=[journal.CSV_ONLY]) as notes:
        notes.add(1, 10, {"loss": 1.0})
    assert {path.name for path in tmp_path.iterdir()} == {journal.CSV}


def test_an_unknown_logger_is_refused(tmp_path):
    with pytest.raises(errors.ConfigError, match="did you mean 'wandb'"):
        journal.Journal(tmp_path, loggers=["wandbb"])


OFFLINE = """
import pathlib, sys
from starmill.learners import journal
folder, first, last = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
with journal.Journal(folder, update=first - 1, loggers=["wandb"]) as notes:
    for update in range(first, last + 1):
        notes.add(update, 10 * update, {"loss": 1 / update})
"""


def _offline(folder, first, last):
    subprocess.run(
        [sys.executable, "-c", OFFLINE, str(folder), str(first), str(last)],
        env={**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"},
        check=True,
        timeout=300,
    )


def _records(data):
    """Yields the records of a .wandb file: blocks of 32 KiB as in LevelDB's log, after a header."""
    begin, parts = 7, b""
    while begin + 7 <= len(data):
        if 32768 - begin % 32768 < 7:  # the rest of a block is too short for a record
            begin += 32768 - begin % 32768
            continue
        size, kind = struct.unpack_from("<HB", data, begin + 4)
        if kind == 0:
            return
        parts += data[begin + 7 : begin + 7 + size]
        begin += 7 + size
        if kind in (1, 4):  # whole, or the last piece
            yield parts
            parts = b""


def _logged(path):
    """The logged rows of a run of Weights & Biases, parsed by its own messages."""
    messages = importlib.import_module("wandb.proto.wandb_internal_pb2")
    rows = []
    for data in _records(path.read_bytes()):
        record = messages.Record.FromString(data)
        if record.HasField("history"):
            values = {
                item.key or ".".join(item.nested_key): json.loads(item.value_json)
                for item in record.history.item
            }
            rows.append({k: v for k, v in values.items() if not k.startswith("_")})
    return rows


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_wandb_gets_the_metrics_and_continues_its_run(tmp_path):
    pytest.importorskip("wandb")
    _offline(tmp_path, 1, 2)
    _offline(tmp_path, 3, 3)
    name = (tmp_path / journal.WANDB_ID).read_text().strip()
    files = sorted(tmp_path.glob(f"wandb/offline-run-*/run-{name}.wandb"))
    assert len(files) == 2
    rows = [row for path in files for row in _logged(path)]
    assert rows == [
        {"update": 1, "frames": 10, "loss": 1.0},
        {"update": 2, "frames": 20, "loss": 0.5},
        {"update": 3, "frames": 30, "loss": pytest.approx(1 / 3)},
    ]
