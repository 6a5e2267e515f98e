import dataclasses
import importlib
import json
import runpy
import sys

import numpy as np
import pytest

import starmill
from starmill import cli
from starmill.pipelines.exports import alphastar, export, npz
from starmill.schema import episode, errors, specs, storage
from tests.factories import records


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    items = [records.episode(seed, steps=10 + 130 * seed) for seed in range(3)]
    items.append(records.episode(3, steps=1, mmr=None, opponent_mmr=None))
    records.dataset(str(path), items)
    return str(path)


@pytest.fixture
def opened(folder):
    return starmill.open_dataset(folder)


@pytest.fixture
def source(folder):
    return export.Source(reference=folder)


def test_npz_has_every_array_and_the_derived_ones(opened, source, tmp_path):
    assert export.export(source, "npz", str(tmp_path)) == []
    for number, meta in enumerate(opened.metas):
        with np.load(tmp_path / f"{meta.episode_id}.npz") as file:
            arrays = {key: file[key] for key in file}
        expected = opened[number][:]
        assert set(expected) == {*opened.specs, *episode.DERIVED}
        assert arrays.keys() == expected.keys()
        for key, array in expected.items():
            assert arrays[key].dtype == array.dtype
            np.testing.assert_array_equal(arrays[key], array, err_msg=key)


def test_exports_carry_on_and_have_the_same_bytes(opened, source, tmp_path):
    for layout in ("npz", "alphastar"):
        out = tmp_path / layout
        export.export(source, layout, str(out))
        files = {p: p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}
        victim = next(path for path in files if path.suffix in (".npz", ".tfrecord"))
        victim.unlink()
        stamps = {
            p: p.stat().st_mtime_ns
            for p in files
            if p.suffix == victim.suffix and p != victim
        }
        export.export(source, layout, str(out))
        assert {
            p: p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()
        } == files
        # What was there was not written again.
        assert {p: p.stat().st_mtime_ns for p in stamps} == stamps


def test_folders_with_other_things_in_them_are_refused(opened, source, tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(errors.ConfigError, match="is not empty"):
        export.export(source, "npz", str(tmp_path))
    export.export(source, "npz", str(tmp_path / "a"))
    with pytest.raises(errors.ConfigError, match="holds another export"):
        export.export(
            dataclasses.replace(source, split=("train",)), "npz", str(tmp_path / "a")
        )
    with pytest.raises(errors.ConfigError, match="expected one of"):
        export.export(source, "hdf5", str(tmp_path / "b"))


def test_the_command_exports_what_was_asked_for(folder, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["export", folder, "--format", "npz", "--out", str(out)]
    assert cli.main([*arguments, "--mmr-above", "1"]) == 0
    assert len(list(out.glob("*.npz"))) == 3
    assert "3 episodes as npz" in capsys.readouterr().out
    assert cli.main([*arguments, "--mmr-above", "99999"]) == 2
    assert "no episode" in capsys.readouterr().err


def test_without_tensorflow_rlds_says_what_to_install(
    opened, source, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(errors.ConfigError, match=r"starmill\[tensorflow\]"):
        export.export(source, "rlds", str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


class ReferenceCoder:
    """The predecessor's `TFExampleCoder.decode`, from its description.

    The features it is built with are a nest {observation: {key: spec}, step_type: spec}; it
    flattens the nest in sorted order, joins paths by "/", parses one bytes value for each,
    and pairs *positions*: the n-th parsed value with the n-th feature. Each value is inflated
    (zlib), read as the feature's dtype, and reshaped to (-1, *shape).
    """

    def __init__(self, settings):
        self.tf = importlib.import_module("tensorflow")
        # Its `spec_to_feature`: shape (1,) becomes (None,), else (None, *shape).
        self.features = {
            f"observation/{key}": (
                spec.dtype,
                (-1,) if spec.shape == (1,) else (-1, *spec.shape),
            )
            for key, spec in sorted(specs.observation_specs(settings).items())
        }
        self.features["step_type"] = ("int32", (-1,))

    def decode(self, serialized):
        tf = self.tf
        parsed = tf.io.parse_single_example(
            serialized,
            {path: tf.io.FixedLenFeature((), tf.string) for path in self.features},
        )
        values = []
        for value, (dtype, shape) in zip(
            parsed.values(), self.features.values(), strict=True
        ):
            inflated = tf.io.decode_compressed(value, compression_type="ZLIB")
            values.append(tf.reshape(tf.io.decode_raw(inflated, dtype), shape).numpy())
        return dict(zip(self.features, values, strict=True))


@pytest.mark.slow
def test_the_predecessors_decoder_reads_its_own_layout(opened, source, tmp_path):
    tf = pytest.importorskip("tensorflow")
    assert export.export(source, "alphastar", str(tmp_path)) == []
    coder = ReferenceCoder(records.SMALL)
    paths = runpy.run_path(str(tmp_path / "paths.py"))
    seen = 0
    for (versions, split, least), pattern in paths["RELATIVE_PATHS"].items():
        if (versions, least) != (("4.9.2",), 0):
            continue
        for path in sorted(tmp_path.glob(pattern)):
            assert paths["BASE_PATH"] == str(tmp_path)
            (record,) = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
            result = coder.decode(record)
            replay, player = path.stem.split("_")
            original = opened.find(f"{replay}-{player}")
            assert opened.table.column("split")[original.number].as_py() == split
            expected = original.read(keys=[*opened.specs, "step_type"])
            assert set(result) == {
                key if key == "step_type" else f"observation/{key}" for key in expected
            }
            for key, array in expected.items():
                name = key if key == "step_type" else f"observation/{key}"
                assert result[name].dtype == array.dtype
                np.testing.assert_array_equal(result[name], array, err_msg=key)
            seen += 1
    assert seen == len(opened)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # TensorFlow's own
def test_tfds_opens_the_rlds_one(opened, source, tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets")
    assert export.export(source, "rlds", str(tmp_path)) == []
    builder = tfds.builder_from_directory(str(tmp_path / "factory" / "1.0.0"))
    splits = opened.table.column("split").to_pylist()
    assert {name: info.num_examples for name, info in builder.info.splits.items()} == {
        name: splits.count(name) for name in set(splits)
    }
    seen = 0
    for split in sorted(set(splits)):
        for item in builder.as_dataset(split=split):
            name = item["episode_metadata"]["episode_id"].numpy().decode()
            original = opened.find(name)
            expected, meta = original[:], original.meta
            steps = list(item["steps"].as_numpy_iterator())
            assert len(steps) == meta.steps
            assert item["episode_metadata"]["mmr"].numpy() == (meta.mmr or -1)
            for t, step in enumerate(steps):
                for key in opened.specs:
                    place, _, rest = key.rpartition("action/")
                    result = (
                        step["action"][rest]
                        if key.startswith("action/")
                        else step["observation"][key]
                    )
                    assert place == ""
                    np.testing.assert_array_equal(result, expected[key][t], err_msg=key)
                assert step["is_first"] == (t == 0)
                assert step["is_last"] == (t == meta.steps - 1)
            rewards = [float(step["reward"]) for step in steps]
            assert rewards[max(meta.steps - 2, 0)] == meta.outcome
            assert sum(map(abs, rewards)) == abs(meta.outcome)
            seen += 1
    assert seen == len(opened)
    # Again: it is there, and nothing is left of the work.
    assert export.export(source, "rlds", str(tmp_path)) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "export.json",
        "factory",
    ]


def test_episodes_beyond_protobufs_limit_are_listed(
    opened, source, tmp_path, monkeypatch
):
    monkeypatch.setattr(alphastar, "MOST_RECORD_BYTES", 30_000)
    problems = export.export(source, "alphastar", str(tmp_path))
    assert problems
    assert all("exceeds protobuf's limit" in problem for problem in problems)
    assert len(list(tmp_path.rglob("*.tfrecord"))) == len(opened) - len(problems)


def test_info_and_diff(folder, tmp_path, capsys):
    assert cli.main(["info", folder, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["episodes"] == 4
    assert facts["reference"] == f"factory@1.0.0#{facts['digest']}"
    for key in ("digest", "name", "version", "engine", "steps", "bytes", "schema"):
        assert facts[key]
    register = tmp_path / "registry.json"
    assert cli.main(["info", folder, "--register", str(register)]) == 0
    assert "4 of 4 replays" in capsys.readouterr().out
    assert cli.main(["info", "factory@1.0.0", "--registry", str(register)]) == 0
    capsys.readouterr()
    assert cli.main(["info", f"{folder}#sha256:{'0' * 64}"]) == 2
    assert "ManifestMismatch" in capsys.readouterr().err
    assert cli.main(["diff", folder, folder]) == 0
    assert "the same: 4 episodes" in capsys.readouterr().out


def test_diff_names_what_differs(folder, tmp_path, capsys):
    items = [records.episode(seed, steps=10 + 130 * seed) for seed in range(3)]
    items[1].arrays["player"][7, 1] += 1
    items[2] = dataclasses.replace(
        items[2], meta=dataclasses.replace(items[2].meta, map_name="Automaton")
    )
    items.append(records.episode(9, steps=5))
    records.dataset(str(tmp_path), items, version="1.1.0", engine="other")
    assert cli.main(["diff", folder, str(tmp_path), "--json"]) == 1
    content = json.loads(capsys.readouterr().out)
    assert content["changed"] == {
        items[1].meta.episode_id: ["player: 1 of 140 steps, first 7"],
        items[2].meta.episode_id: ["map_name: 'Year Zero' -> 'Automaton'"],
    }
    assert content["only_first"] == [records.episode(3, steps=1).meta.episode_id]
    assert content["only_second"] == [items[3].meta.episode_id]
    assert content["same_episodes"] == 1
    facts = {name: (one, two) for name, one, two in content["facts"]}
    assert facts["engine"] == ("factory", "other")
    assert facts["version"] == ("1.0.0", "1.1.0")
    assert cli.main(["diff", folder, str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert "player: 1 of 140 steps, first 7" in text
    assert "only in A: 1 episodes" in text


def test_diff_names_settings_and_arrays(folder, tmp_path, capsys):
    settings = dataclasses.replace(records.SMALL, max_num_upgrades=7, mmr=1)
    items = [records.episode(0, steps=10, settings=settings)]
    records.dataset(str(tmp_path), items, settings=settings)
    assert cli.main(["diff", folder, str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert "settings.max_num_upgrades: 40 -> 7" in text
    assert "upgrades_fixed_length: 'int32 (40,)' -> 'int32 (7,)'" in text
    assert "upgrades_fixed_length: int32 (10, 40) -> int32 (10, 7)" in text


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("layout", ["npz", "alphastar"])
def test_processes_and_a_beam_job_write_the_same_bytes(folder, tmp_path, layout):
    for name, more in (
        ("alone", "--workers=1"),
        ("processes", "--workers=3"),
        ("beam", "--runner=FnApiRunner"),
    ):
        out = str(tmp_path / name)
        words = ["export", folder, "--format", layout, "--out", out, more]
        assert cli.main(words) == 0
    expected = files_of(tmp_path / "alone")
    assert len(expected) == 5 if layout == "npz" else 6
    assert files_of(tmp_path / "processes") == expected
    assert files_of(tmp_path / "beam") == expected


def test_an_export_goes_to_any_address(opened, source, tmp_path):
    export.export(source, "npz", str(tmp_path))
    export.export(source, "npz", "memory://exports/npz")
    names = storage.names("memory://exports/npz")
    assert names == sorted(files_of(tmp_path))
    for name in names:
        data = storage.read(f"memory://exports/npz/{name}")
        assert data == (tmp_path / name).read_bytes()


def test_many_episodes_are_in_folders_by_their_ids(
    opened, source, tmp_path, monkeypatch
):
    monkeypatch.setattr(npz, "MOST_FLAT", 3)
    export.export(source, "npz", str(tmp_path))
    path = json.loads((tmp_path / "export.json").read_text())["path"]
    for meta in opened.metas:
        file = tmp_path / path.format(episode_id=meta.episode_id)
        assert file.parent.name == meta.episode_id[:3]
        assert file.name == f"{meta.episode_id}.npz"
        assert file.exists()


def test_options_of_beam_need_a_runner(folder, tmp_path, capsys):
    words = ["export", folder, "--format", "npz", "--out", str(tmp_path / "x")]
    assert cli.main([*words, "--flink_master=host:8081"]) == 2
    assert "--flink_master: expected an option of export" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
