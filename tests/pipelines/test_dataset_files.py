"""The files of a dataset that grew: all are checked, and others than these are named."""

import json
import shutil

import pytest

from starmill.pipelines import dataset_files, verify
from starmill.schema import card, manifest
from tests.factories import datasets, grown


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files") / "data"
    grown.write(str(folder))
    return folder


@pytest.fixture
def folder(original, tmp_path):
    copy = tmp_path / "data"
    shutil.copytree(original, copy)
    return copy


def problems(folder) -> list[str]:
    content = manifest.read(str(folder))
    return [str(each) for each in dataset_files.check_files(str(folder), content)]


def all_problems(folder) -> list[str]:
    content = manifest.read(str(folder))
    return [str(each) for each in verify.verify(str(folder), content).problems]


def test_a_grown_dataset_has_no_problem(original):
    content = manifest.read(str(original))
    checked = verify.verify(str(original), content)
    assert checked.problems == []
    assert checked.episodes == 12
    assert checked.steps == content.steps
    assert checked.files == len(list(original.iterdir()))


@pytest.mark.parametrize(
    "name",
    [
        "manifest.0000.json",
        "manifest.0001.json",
        "episodes.0001.parquet",
        "quarantine.0002.parquet",
        "unselected.0001.parquet",
        "train-00000-of-00001.0002.tfrecord",
    ],
)
def test_a_missing_or_damaged_file_of_an_increment_is_named(folder, name):
    path = folder / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert any(name in text and "sha256" in text for text in all_problems(folder))
    path.unlink()
    assert f"{name}: is missing, although the manifest lists it" in problems(folder)


@pytest.mark.parametrize(
    "name",
    [
        "episodes.0004.parquet",
        "episodes.0000.parquet",
        "manifest.0003.json",
        "manifest.0001.txt",
        "train-00000-of-00001.0004.tfrecord",
        "train-00000-of-00001.0000.tfrecord",
        "README.0001.md",
    ],
)
def test_other_names_are_named(folder, name):
    (folder / name).write_bytes(b"x")
    assert problems(folder) == [
        f"{name}: is a file or folder that the manifest does not list"
    ]


def test_an_increment_that_is_being_made_is_no_problem(folder):
    for name in (
        "train-00000-of-00001.0003.tfrecord",
        "episodes.0003.parquet",
        "episodes.0003.parquet.4711.tmp",
        "manifest.0002.json",
        "manifest.json.4711.tmp",
    ):
        (folder / name).write_bytes(b"half")
    assert problems(folder) == []


def test_the_card_may_be_that_of_the_dataset_before(folder, tmp_path):
    """As a kill between the manifest and the card leaves it."""
    before = tmp_path / "before"
    grown.write(str(before), (6, 10))
    for name in (card.README, card.CROISSANT):
        shutil.copy(before / name, folder / name)
    assert problems(folder) == []
    (folder / card.README).write_text("another one")
    sentences = problems(folder)
    assert sentences and all(text.startswith(card.README) for text in sentences)


def test_rows_in_the_table_of_another_increment_are_named(folder):
    """Its manifest lists the exchanged tables, so only their rows tell."""
    paths = [folder / f"episodes.000{number}.parquet" for number in (1, 2)]
    tables = [path.read_bytes() for path in paths]
    for path, data in zip(paths, reversed(tables), strict=True):
        path.write_bytes(data)
    loaded = json.loads((folder / manifest.NAME).read_bytes())
    entries = {entry["name"]: entry for entry in loaded["files"]}
    first, second = entries["episodes.0001.parquet"], entries["episodes.0002.parquet"]
    for key in ("size_bytes", "sha256"):
        first[key], second[key] = second[key], first[key]
    del loaded["checksum"]
    loaded["checksum"] = manifest._checksum(loaded)
    (folder / manifest.NAME).write_bytes(manifest._canonical(loaded))
    sentences = all_problems(folder)
    assert any("episodes.0001.parquet: " in text for text in sentences)


def test_a_side_that_is_in_two_increments_is_named(tmp_path):
    base = grown.write(str(tmp_path), (6,))
    again = datasets.episodes()[4:8]
    grown.add(str(tmp_path), base, again, "1.1.0")
    name = again[0].meta.episode_id
    assert f"{name}: is in the table twice" in all_problems(tmp_path)
