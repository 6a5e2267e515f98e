"""CSV, TensorBoard events and curves."""

import struct
import xml.etree.ElementTree as ElementTree

import pytest

from starmill.learners import journal
from starmill.schema import shards


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


def test_curves_are_a_picture_of_every_metric(tmp_path):
    _write(tmp_path, [1, 2, 3])
    tree = ElementTree.parse(tmp_path / journal.CURVES)
    lines = [e for e in tree.iter() if e.tag.endswith("polyline")]
    assert len(lines) == 2
    assert len(lines[0].attrib["points"].split()) == 3
