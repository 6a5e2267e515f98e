"""Where the predecessor's learner finds episodes, looked up as its own code does it."""

import os
import runpy

import pytest

import starmill
from starmill.pipelines.exports import alphastar, export
from tests.factories import records

# Its default configuration, and the answers of a few players: (version, MMR).
DEFAULT = ("4.8.2", "4.8.3", "4.8.4", "4.8.6", "4.9.0", "4.9.1", "4.9.2")
PLAYERS = [
    ("4.8.2.71663", 3499),
    ("4.8.2.71663", 3500),
    ("4.9.2.74741", 6400),
    ("4.9.2.74741", None),
    ("4.10.0.75689", 7100),
    ("4.9.3.75025", 4200),
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    items = [
        records.episode(seed, steps=4, game_version=version, mmr=mmr)
        for seed, (version, mmr) in enumerate(PLAYERS)
    ]
    records.dataset(str(folder / "data"), items)
    opened = starmill.open_dataset(str(folder / "data"))
    source = export.Source(reference=str(folder / "data"))
    assert export.export(source, "alphastar", str(folder / "out")) == []
    return opened, folder / "out"


def found(exported, versions, least, splits=("train", "valid", "test")):
    """(version, MMR) of the files for a configuration, joined as the learner joins paths."""
    opened, out = exported
    module = runpy.run_path(str(out / "paths.py"))
    rows = []
    for split in splits:
        pattern = module["RELATIVE_PATHS"].get((versions, split, least))
        if pattern is None:
            continue
        whole = os.path.join(module["BASE_PATH"], pattern)  # noqa: PTH118  # as the learner
        for path in sorted(out.glob(os.path.relpath(whole, out))):
            meta = opened.find(path.stem.replace("_", "-")).meta
            rows.append((meta.game_version, meta.mmr))
    return sorted(rows, key=str)


def test_the_default_configuration_finds_its_versions_and_ratings(exported):
    assert alphastar.DEFAULT_VERSIONS == DEFAULT
    assert found(exported, DEFAULT, 3500) == [
        ("4.8.2.71663", 3500),
        ("4.9.2.74741", 6400),
    ]


@pytest.mark.parametrize(
    ("versions", "least", "expected"),
    [
        (("4.8.2",), 3500, [("4.8.2.71663", 3500)]),
        (("4.8.2",), 0, [("4.8.2.71663", 3499), ("4.8.2.71663", 3500)]),
        (("4.8.2",), 4000, []),
        (("4.9.2",), 6000, [("4.9.2.74741", 6400)]),
        (("4.10.0",), 7000, [("4.10.0.75689", 7100)]),
        (("4.8.2.71663",), 0, []),
    ],
)
def test_a_single_version_has_the_players_of_a_rating(
    exported, versions, least, expected
):
    assert found(exported, versions, least) == expected


def test_all_versions_of_the_export_have_a_key_in_the_order_of_their_numbers(exported):
    own = ("4.8.2", "4.9.2", "4.9.3", "4.10.0")
    assert found(exported, own, 0) == sorted(PLAYERS, key=str)
    assert found(exported, own, 4000) == [
        ("4.10.0.75689", 7100),
        ("4.9.2.74741", 6400),
        ("4.9.3.75025", 4200),
    ]


@pytest.mark.slow
def test_tensorflow_matches_the_same_files(exported):
    tf = pytest.importorskip("tensorflow")
    _, out = exported
    module = runpy.run_path(str(out / "paths.py"))
    for pattern in module["RELATIVE_PATHS"].values():
        whole = os.path.join(module["BASE_PATH"], pattern)  # noqa: PTH118  # as the learner
        files = sorted(str(path) for path in out.glob(pattern))
        assert files
        listed = tf.data.Dataset.list_files(whole, shuffle=False)
        assert sorted(path.decode() for path in listed.as_numpy_iterator()) == files


def test_an_export_of_an_object_store_names_its_address():
    place = alphastar.place(records.episode_meta(1, mmr=5000), "train")
    text = alphastar.paths_module([place], "gs://bucket/records")
    module: dict[str, object] = {}
    exec(compile(text, "paths.py", "exec"), module)
    assert module["BASE_PATH"] == "gs://bucket/records"
