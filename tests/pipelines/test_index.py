"""The index: one row for every input, the same bytes each time, and it carries on."""

import json
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import duckdb
import fsspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from starmill import cli
from starmill.pipelines import index
from starmill.pipelines.inputs import sources, unit_list
from starmill.schema import errors, replay_index, selection, storage
from starmill.schema.replay_row import COLUMNS
from tests import replay_factory as factory
from tests.factories import replay_rows
from tests.pipelines.inputs import test_packs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Seven files and two packs: twelve inputs, of which five are broken."""
    where = tmp_path / "replays"
    where.mkdir()
    for number in range(4):
        loops = 1000 + number
        data = factory.replay(user_data=factory.header(loops=loops))
        (where / f"good{number}.SC2Replay").write_bytes(data)
    (where / "low.SC2Replay").write_bytes(
        factory.replay(
            **{"replay.gamemetadata.json": factory.metadata(Players=[])},
        )
    )
    (where / "empty.SC2Replay").write_bytes(b"")
    (where / "cut.SC2Replay").write_bytes(factory.replay()[:-5])
    members = {
        "x/in.SC2Replay": factory.replay(user_data=factory.header(loops=7)),
        "x/bad.SC2Replay": b"nonsense",
    }
    (where / "pack.zip").write_bytes(test_packs.plain_pack(members))
    (where / "secret.zip").write_bytes(test_packs.encrypted_pack(members))
    (where / "torn.zip").write_bytes(b"PK")
    return where


STATUSES = {
    "good0.SC2Replay": "ok",
    "good1.SC2Replay": "ok",
    "good2.SC2Replay": "ok",
    "good3.SC2Replay": "ok",
    "low.SC2Replay": "ok",
    "empty.SC2Replay": "not_a_replay",
    "cut.SC2Replay": "truncated",
    "pack.zip!x/in.SC2Replay": "ok",
    "pack.zip!x/bad.SC2Replay": "not_a_replay",
    "secret.zip!x/in.SC2Replay": "ok",
    "secret.zip!x/bad.SC2Replay": "not_a_replay",
    "torn.zip": "unreadable",
}


def _command(folder: Path, out: Path, *more: str) -> list[str]:
    return [
        "index", str(folder), "--out", str(out), "--pack-password", test_packs.PASSWORD,
        "--accept-license", *more,
    ]  # fmt: skip


def test_every_input_has_one_row_and_broken_ones_are_listed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "index.parquet"
    assert cli.main(_command(folder, out)) == 1
    said = capsys.readouterr().out
    rows = {
        row.source.removeprefix(f"{folder}/"): row
        for row in replay_index.read_rows(str(out))
    }
    assert {source: row.status for source, row in rows.items()} == STATUSES
    for source, status in STATUSES.items():
        assert (f"{folder}/{source}: {status}: " in said) == (status != "ok")
    assert "12 replays, 7 ok, 5 not" in said
    assert rows["good2.SC2Replay"].duration_loops == 1002
    assert rows["secret.zip!x/in.SC2Replay"].duration_loops == 7
    assert rows["secret.zip!x/in.SC2Replay"].file_stem == "in"
    assert not Path(index.parts_folder(str(out))).exists()


def test_the_file_opens_in_pandas_polars_and_duckdb(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "index.parquet"
    cli.main(_command(folder, out))
    frame = pd.read_parquet(out)
    assert list(frame.columns) == list(COLUMNS)
    assert len(frame) == len(pl.read_parquet(out)) == 12
    query = f"select count(*) from '{out}' where status = 'ok' and p1_mmr > 3500"
    assert duckdb.sql(query).fetchall() == [(6,)]
    assert pq.read_schema(out).field("p1_mmr").type == "int64"


def test_the_same_inputs_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    settings = index.IndexSettings(password=test_packs.PASSWORD)
    for number, per_unit in enumerate((512, 1, 3)):
        inputs = sources.find([str(folder)], per_unit)
        index.run(inputs, str(tmp_path / f"{number}.parquet"), settings)
    first = (tmp_path / "0.parquet").read_bytes()
    assert (tmp_path / "1.parquet").read_bytes() == first
    assert (tmp_path / "2.parquet").read_bytes() == first


def _graph_bytes(folder: Path, units: int) -> int:
    """Returns the size of the job's graph for units of 512 loose files."""
    result = [
        sources.Unit(
            files=tuple(f"s3://bucket/{n}/{i:064x}.SC2Replay" for i in range(512)),
            digest=f"{n:064x}",
        )
        for n in range(units)
    ]
    name = unit_list.write(str(folder), result)
    pipeline = beam.Pipeline()
    settings = index.IndexSettings(selection=selection.PRESETS["unplugged"])
    index.build(pipeline, name, "s3://bucket/index.parquet", settings, str(folder))
    return int(pipeline.to_runner_api().ByteSize())


def test_the_graph_has_the_same_size_whatever_the_number_of_replays(tmp_path):
    sizes = [_graph_bytes(tmp_path, units) for units in (1, 100)]
    # The graph has compressed pickles, whose lengths differ by a few bytes.
    assert abs(sizes[0] - sizes[1]) < 100
    assert sizes[0] < 100_000  # Dataflow refuses 10 MB


@pytest.mark.slow
@pytest.mark.timeout(900)  # two cold starts of Beam's worker processes
def test_processes_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
    base = [sys.executable, "-m", "starmill"]
    for out, workers in ((one, "1"), (two, "2")):
        done = subprocess.run(
            [*base, *_command(folder, out, "--workers", workers)], check=False
        )
        assert done.returncode == 1
    assert one.read_bytes() == two.read_bytes()


def test_finished_parts_are_not_made_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "index.parquet")
    settings = index.IndexSettings(password=test_packs.PASSWORD)
    inputs = sources.find([str(folder)], per_unit=2)
    collected = []
    rows_of = index.rows_of

    def counted(unit: sources.Unit, given: index.IndexSettings) -> object:
        collected.append(unit)
        if len(collected) == 4:
            raise OSError("the disk is gone")
        return rows_of(unit, given)

    monkeypatch.setattr(index, "rows_of", counted)
    with pytest.raises(Exception, match="the disk is gone"):
        index.run(inputs, out, settings)
    assert not storage.exists(out)
    assert len(collected) == 4
    index.run(inputs, out, settings)
    assert len(collected) == 4 + len(inputs.units) - 3  # three parts were there
    assert len(list(replay_index.read_rows(out))) == 12
    # Other settings are other parts.
    index.run(
        inputs, out, index.IndexSettings(events=False, password=test_packs.PASSWORD)
    )
    assert len(collected) == 4 + len(inputs.units) - 3 + len(inputs.units)


def test_a_selection_spares_events(folder: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "index.parquet")
    rules = selection.PRESETS["unplugged"]
    index.run(
        sources.find([str(folder / "low.SC2Replay"), str(folder / "good1.SC2Replay")]),
        out,
        index.IndexSettings(selection=rules),
    )
    good, low = replay_index.read_rows(out)
    assert (good.complete, good.game_events) == (True, 8)
    assert (low.complete, low.game_events) == (False, None)


def test_encrypted_packs_need_password_and_consent(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "index.parquet")
    base = ["index", str(folder), "--out", out]
    for more in ([], ["--accept-license"], ["--pack-password", "x"]):
        assert cli.main([*base, *more]) == 2
        assert "--accept-license" in capsys.readouterr().err
    assert cli.main([*base, "--pack-password", "x", "--accept-license"]) == 1
    assert "the password does not fit" in capsys.readouterr().out


def test_what_cannot_start(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "index.parquet")
    good = str(folder / "good0.SC2Replay")
    assert cli.main(["index", good, "--out", out]) == 0
    assert cli.main(["index", good, "--out", out]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert cli.main(["index", good, "--out", out, "--overwrite"]) == 0
    more = str(tmp_path / "more.parquet")
    for arguments in (
        ["nothing.SC2Replay"],
        [good, "--limit", "speed=1"],
        [good, "--limit", "events=many"],
        [good, "--limit", "events=0"],
        [good, "--workers", "0"],
        [good, "--selection", "nope"],
    ):
        assert cli.main(["index", *arguments, "--out", more]) == 2
    (folder / "void.zip").write_bytes(test_packs.plain_pack({"readme": b""}))
    assert cli.main(["index", str(folder / "void.zip"), "--out", more]) == 2


def test_limits_are_options(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, out = str(folder / "good0.SC2Replay"), str(tmp_path / "index.parquet")
    assert cli.main(["index", good, "--out", out, "--limit", "file_bytes=100"]) == 1
    assert "too_large" in capsys.readouterr().out


def test_urls_in_and_out() -> None:
    filesystem = fsspec.filesystem("memory")
    filesystem.pipe_file("/index-test/a.SC2Replay", factory.replay())
    try:
        out = "memory://index-test/index.parquet"
        index.run(sources.find(["memory://index-test"]), out, index.IndexSettings())
        (row,) = replay_index.read_rows(out)
        assert (row.status, row.source) == ("ok", "memory:///index-test/a.SC2Replay")
        index.remove_parts(out)
        assert not filesystem.exists("/index-test/index.parquet.parts")
    finally:
        filesystem.rm("/index-test", recursive=True)


def test_a_file_that_goes_away_has_a_row(folder: Path, tmp_path: Path) -> None:
    inputs = sources.find(
        [str(folder / "good0.SC2Replay"), str(folder / "good1.SC2Replay")]
    )
    (folder / "good0.SC2Replay").unlink()
    out = str(tmp_path / "index.parquet")
    index.run(
        inputs, out, index.IndexSettings(), PipelineOptions(["--runner=FnApiRunner"])
    )
    assert [row.status for row in replay_index.read_rows(out)] == ["unreadable", "ok"]


def test_the_password_is_in_no_name_and_no_text() -> None:
    settings = index.IndexSettings(password="hush")  # noqa: S106 - of this test
    assert "hush" not in repr(settings)
    assert settings.fingerprint() == index.IndexSettings().fingerprint()


def test_select_command(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "index.parquet")
    cli.main(_command(folder, Path(out)))
    capsys.readouterr()
    base = ["select", out, "--selection", "unplugged"]
    assert cli.main([*base, "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["replays"], counts["kept_replays"], counts["kept_episodes"]) == (
        12,
        6,
        12,
    )
    assert counts["reasons"]["players"] == 1
    assert counts["selection"]["min_mmr"] == 3500
    assert cli.main([*base, "--set", "min_mmr=3950"]) == 0
    text = capsys.readouterr().out
    assert "6 of 12 replays kept, 6 episodes" in text
    assert cli.main([*base, "--set", "min_mmr=9000"]) == 1  # nothing is kept
    for change in ("min_mmr=high", "speed=3", "min_mmr"):
        assert cli.main([*base, "--set", change]) == 2
    capsys.readouterr()
    assert cli.main([*base, "--dry-run", "--set", "mmr_scope=both"]) == 0
    assert json.loads(capsys.readouterr().out)["mmr_scope"] == "both"
    with pytest.raises(errors.ConfigError):
        selection.load("nope")


def test_every_flipped_bit_of_an_index_is_noticed(folder, tmp_path):
    out = tmp_path / "index.parquet"
    index.run(sources.find([str(folder)]), str(out), index.IndexSettings())
    rows = list(replay_index.read_rows(str(out)))
    data = out.read_bytes()
    noticed = 0
    for at in range(0, len(data), max(1, len(data) // 400)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        out.write_bytes(changed)
        try:
            # A flip in the name of the digest hides the digest, and nothing else.
            assert list(replay_index.read_rows(str(out))) == rows
        except errors.FormatError:
            noticed += 1
    assert noticed > 380


def test_an_index_of_an_earlier_release_has_no_digest(folder, tmp_path):
    out = tmp_path / "index.parquet"
    rows = index.rows_of(sources.find([str(folder)]).units[0], index.IndexSettings())
    pq.write_table(replay_index.table_from_rows(rows), out)
    assert list(replay_index.read_rows(str(out)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": "fine"}, "status: expected one of .*ok.*, found 'fine'"),
        ({"p2_mmr_source": "x"}, "p2_mmr_source: expected one of"),
        ({"replay_id": "../../outside"}, "replay_id: expected a sha256 in hex"),
        ({"source": None}, "source: a value is missing"),
        ({"duration_loops": b"\xff"}, "expected Parquet"),
    ],
)
def test_values_that_no_index_has_are_refused(tmp_path, change, said):
    (name, value) = next(iter(change.items()))
    content = replay_index.table_from_rows([replay_rows.row(1)])
    place = content.column_names.index(name)
    kind = pa.binary() if isinstance(value, bytes) else pa.string()
    changed = content.set_column(place, name, pa.array([value], kind))
    pq.write_table(changed, tmp_path / "index.parquet")
    with pytest.raises(errors.FormatError, match=said):
        list(replay_index.read_rows(str(tmp_path / "index.parquet")))


def test_an_index_that_another_tool_wrote_again_is_read(tmp_path):
    rows = [replay_rows.row(number) for number in range(3)]
    content = replay_index.table_from_rows(rows)
    larger = [pa.field(f.name, pa.large_string() if f.type == pa.string() else f.type)
              for f in content.schema]  # fmt: skip
    pq.write_table(content.cast(pa.schema(larger)), tmp_path / "index.parquet")
    assert list(replay_index.read_rows(str(tmp_path / "index.parquet"))) == rows
