"""Verifying: a good dataset passes, and every way of damaging one is named."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from starmill import cli
from starmill.pipelines import replaying, verify
from starmill.schema import codec, errors, manifest, shards, storage, table
from tests.factories import records as factories


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("verify") / "data"
    factories.dataset(str(folder))
    return folder


@pytest.fixture
def folder(original, tmp_path) -> Path:
    copy = tmp_path / "data"
    shutil.copytree(original, copy)
    return copy


def problems(folder: Path, content: manifest.Manifest | None = None) -> list[str]:
    result = content or manifest.read(str(folder))
    return [str(problem) for problem in verify.verify(str(folder), result).problems]


def shard(folder: Path) -> Path:
    return sorted(folder.glob("*.tfrecord"))[0]


def test_a_good_dataset_has_no_problem(original):
    content = manifest.read(str(original))
    checked = verify.verify(str(original), content)
    assert checked.problems == []
    assert checked.episodes == content.episodes
    assert checked.steps == content.steps
    assert checked.files == len(list(original.iterdir()))


def test_a_flipped_bit_in_a_shard_names_the_file_and_the_episode(folder):
    path = shard(folder)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    reports = problems(folder)
    assert any(path.name in text and "sha256" in text for text in reports)
    assert any("crc32c" in text and path.name in text for text in reports)


def test_a_truncated_shard_is_named(folder):
    path = shard(folder)
    path.write_bytes(path.read_bytes()[:-10])
    reports = problems(folder)
    assert any(path.name in text and "bytes" in text for text in reports)


def test_a_missing_file_and_one_too_many_are_named(folder):
    shard(folder).rename(folder / "train-00000-of-00099.tfrecord")
    reports = problems(folder)
    assert any("is missing" in text for text in reports)
    assert any("does not list" in text for text in reports)


@pytest.mark.parametrize(
    "name", ["notes.txt", ".hidden", "train-00000-of-00009.tfrecord"]
)
def test_a_dataset_has_no_other_files(folder, name):
    (folder / name).write_bytes(b"x")
    assert problems(folder) == [
        f"{name}: is a file or folder that the manifest does not list"
    ]


def test_what_an_unfinished_build_leaves_is_no_problem(folder):
    (folder / "_work").mkdir()
    (folder / "_claim.json").write_bytes(b"{}")
    assert problems(folder) == []


def test_a_replay_in_another_shard_than_its_hash_says_is_found(tmp_path, monkeypatch):
    """All digests fit: only the rule of docs/format.md tells where it belongs."""
    monkeypatch.setattr(
        shards, "shard_of", lambda name, count: int(name[0], 16) % count
    )
    factories.dataset(str(tmp_path / "data"))
    assert problems(tmp_path / "data") == []
    monkeypatch.undo()
    reports = problems(tmp_path / "data")
    assert any("but belongs in shard" in text for text in reports)


def test_a_damaged_card_is_named(folder):
    (folder / "README.md").write_text("another")
    assert any(text.startswith("README.md: ") for text in problems(folder))


def rewrite(folder: Path, name: str, change, quarantined: int = 0) -> None:
    """Replaces a table, with the manifest's hashes made to fit."""
    content = manifest.read(str(folder))
    schema = pq.read_table(folder / name).schema
    rows = pq.read_table(folder / name).to_pylist()
    changed = (
        pq.read_table(folder / name)
        .schema.empty_table()
        .from_pylist(change(rows), schema=schema)
    )
    written = table.write_table(str(folder / name), changed)
    files = tuple(
        dataclasses.replace(entry, **written._asdict()) if entry.name == name else entry
        for entry in content.files
    )
    manifest.write(
        str(folder),
        dataclasses.replace(content, files=files, quarantined=quarantined),
    )


def set_in_first(**values):
    return lambda rows: [{**rows[0], **values}, *rows[1:]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda rows: [{**rows[0], "steps": rows[0]["steps"] ^ 1}, *rows[1:]],
            "steps: the table says",
        ),
        (set_in_first(steps=70), "offsets: expected those of a header, 3 chunks"),
        (set_in_first(game_loops=1), "game_loops: the table says 1"),
        (set_in_first(sha256="0" * 64), "expected sha256 0000"),
        (set_in_first(shard="train-00007-of-00008.tfrecord"), "the manifest lacks"),
        (set_in_first(episode_id=f"{'a' * 64}-1"), "not replay_id and player_id"),
        (set_in_first(episode_id="x-1"), "episode_id: expected 64 hex digits"),
        (lambda rows: rows[1:], "expected 12 rows, found 11"),
        (lambda rows: [*rows[:-1], rows[0]], "twice"),
        (set_in_first(outcome=7), "outcome: expected -1 to 1, found -1 to 7"),
        (set_in_first(steps=2**31 - 1), "2,147,483,647 steps"),
        (set_in_first(map_name=None), "expected values"),
        (set_in_first(offsets=None), "expected values"),
        (set_in_first(offsets=[]), "offsets: expected those of a header"),
        (
            lambda rows: [
                {**rows[0], "offsets": [-60, *rows[0]["offsets"][1:]]},
                *rows[1:],
            ],
            "ascending places inside",
        ),
        (set_in_first(offsets=[0, None, 5]), "expected values"),
    ],
)
def test_a_table_that_disagrees_with_the_records_is_found(folder, change, said):
    rewrite(folder, table.EPISODES, change)
    assert any(said in text for text in problems(folder)), problems(folder)


def test_episodes_of_the_table_must_fill_the_shard(folder):
    def shifted(rows):
        row = rows[0]
        offsets = [row["offsets"][0] + 1, *row["offsets"][1:]]
        return [{**row, "offsets": offsets}, *rows[1:]]

    rewrite(folder, table.EPISODES, shifted)
    reports = problems(folder)
    assert any("expected to begin at byte" in text for text in reports), reports


def test_a_quarantine_that_makes_no_sense_is_found(folder):
    result = pq.read_table(folder / table.EPISODES).to_pylist()[0]
    row = {
        "replay_id": result["replay_id"],
        "player_id": result["player_id"],
        "source": "x",
        "reason": "bad luck",
        "detail": "",
    }
    rewrite(folder, table.QUARANTINE, lambda rows: [*rows, row])
    assert any("expected 0 rows, found 1" in text for text in problems(folder))
    rewrite(folder, table.QUARANTINE, lambda rows: rows, 1)
    reports = problems(folder)
    assert any("is not a reason" in text for text in reports)
    assert any("among the episodes too" in text for text in reports)


def test_a_side_in_two_tables_is_found(folder):
    row = {"replay_id": "a" * 64, "player_id": 2, "source": "x", "reason": "mmr"}
    rewrite(folder, table.UNSELECTED, lambda rows: [*rows, row])
    assert problems(folder) == []
    rewrite(folder, table.QUARANTINE, lambda rows: [*rows, {**row, "detail": "y"}], 1)
    assert any(
        f"{'a' * 64}-2: is among the rows of quarantine.parquet too" in text
        for text in problems(folder)
    )


def test_arrays_outside_the_spec_are_found(tmp_path):
    settings = factories.SMALL
    good = factories.episode(1, settings=settings)
    bad_function = good.arrays["action/function"].copy()
    bad_function[3] = settings.num_action_types + 5
    loops = good.arrays["game_loop"].copy()
    loops[5] = loops[4]
    episodes = [
        factories.episode(1, arrays={"action/function": bad_function}),
        factories.episode(2, arrays={"game_loop": loops}),
    ]
    factories.dataset(str(tmp_path / "data"), episodes)
    reports = problems(tmp_path / "data")
    assert any("action/function: expected 0 to" in text for text in reports)
    assert any("ascending loops" in text for text in reports)
    assert any("action/delay" in text for text in reports)


def test_a_sample_is_the_same_every_time(original):
    rows = pq.read_table(original / table.EPISODES)
    assert replaying.sample(rows, 3) == replaying.sample(rows, 3)
    assert len(set(replaying.sample(rows, 3))) == 3
    assert len(replaying.sample(rows, 1000)) == manifest.read(str(original)).replays


def test_the_command_says_yes_or_lists_what_is_wrong(folder, capsys):
    assert cli.main(["verify", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[-2].startswith("ok")
    path = shard(folder)
    path.write_bytes(b"x" + path.read_bytes()[1:])
    assert cli.main(["verify", str(folder), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["problems"] and path.name in result["problems"][0]["where"]


def test_another_digest_than_asked_for_could_not_even_start(folder, capsys):
    reference = f"{folder}#sha256:{'0' * 64}"
    assert cli.main(["verify", reference]) == 2
    assert "expected sha256:000" in capsys.readouterr().err


def test_a_manifest_that_cannot_be_read_could_not_start(folder, capsys):
    (folder / manifest.NAME).write_text("{}")
    assert cli.main(["verify", str(folder)]) == 2


def test_playing_again_needs_to_know_where_the_replays_are(folder, capsys):
    assert cli.main(["verify", str(folder), "--replay", "1"]) == 2
    assert "--replays" in capsys.readouterr().err


def test_records_that_differ_name_the_arrays(original):
    content = manifest.read(str(original))
    rows = pq.read_table(original / table.EPISODES).to_pylist()
    keys = factories.episode(0).arrays
    reader = storage.RangeReader(str(original))
    collected = []
    for row in rows:
        data = reader.read(row["shard"], row["offsets"][0], row["offsets"][-1])
        records = list(shards.records_of(data, ""))
        assert list(replaying._compare(reader, row, records, content)) == []
        stored = {
            key: np.concatenate(
                [chunk[key] for chunk in verify.chunks(records, content, "")]
            )
            for key in keys
        }
        stored["mmr"] = stored["mmr"] + 1
        other = codec.encode(stored, content.settings)
        collected += list(replaying._compare(reader, row, other, content))
    assert len(collected) == len(rows)
    assert all("differs in ['mmr']" in problem.what for problem in collected)


def test_a_shard_that_cannot_be_decoded_is_a_problem_not_a_crash(folder):
    with pytest.raises(errors.ShardCorrupt):
        list(verify.chunks([], manifest.read(str(folder)), "x"))


def test_processes_and_a_beam_job_find_the_same(folder, capsys):
    """Of a damaged dataset, so that there is something to find."""
    path = shard(folder)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    here = verify.verify(str(folder), manifest.read(str(folder)))
    assert here.problems
    collected = []
    for more in (["--workers=1"], ["--workers=3"], ["--runner=FnApiRunner"]):
        assert cli.main(["verify", str(folder), "--json", *more]) == 1
        collected.append(json.loads(capsys.readouterr().out))
    assert collected[0] == collected[1] == collected[2]
    assert collected[0]["problems"] == [problem._asdict() for problem in here.problems]
    assert collected[0]["steps"] == here.steps
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        {entry.name for entry in manifest.read(str(folder)).files}
        | {entry.name for entry in manifest.read(str(folder)).shards}
        | {manifest.NAME}
    )


def test_a_manifest_that_changes_meanwhile_is_refused(folder):
    work = verify.CheckShard(folder=str(folder), digest="sha256:" + "0" * 64)
    with pytest.raises(errors.ManifestMismatch, match="it changed while"):
        work(0)
