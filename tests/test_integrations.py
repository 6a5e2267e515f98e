"""Other libraries read a dataset in one line each: the real libraries, compared with our own reader.

PyTorch's wheel for Linux brings gigabytes of CUDA, so it is not among the development tools;
its tests run where it is installed.
"""

import collections

import numpy as np
import pytest

import starmill
from starmill import cli
from tests.factories import records
from tests.factories.datasets import assert_equal_batches

ROLLOUT = 8
EPISODES = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("integrations") / "data")
    records.dataset(folder, [records.episode(seed) for seed in range(EPISODES)])
    return folder


@pytest.fixture(scope="module")
def dataset(folder):
    return starmill.open_dataset(folder)


@pytest.fixture(scope="module")
def windows(dataset):
    return dataset.windows(rollout=ROLLOUT)


def stacked(windows, numbers):
    """What a library should make of these windows: each array stacked along a new axis."""
    items = [windows[number] for number in numbers]
    return {key: np.stack([item[key] for item in items]) for key in items[0]}


def as_arrays(batch):
    return {key: np.asarray(value) for key, value in batch.items()}


@pytest.mark.parametrize("workers", [0, 2])
def test_pytorch(windows, workers):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    loader = torch.utils.data.DataLoader(
        windows, batch_size=4, num_workers=workers, drop_last=True
    )
    batches = list(loader)
    assert len(batches) == len(windows) // 4 > 0
    for number, batch in enumerate(batches):
        assert isinstance(batch["player"], torch.Tensor)
        expected = stacked(windows, range(4 * number, 4 * number + 4))
        assert_equal_batches(as_arrays(batch), expected)


def test_pytorch_shuffles(windows):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    loader = torch.utils.data.DataLoader(
        windows,
        batch_size=len(windows),
        shuffle=True,
        generator=torch.Generator().manual_seed(1),
    )
    (batch,) = loader
    ordered = stacked(windows, range(len(windows)))
    loops = [tuple(row) for row in batch["game_loop"].tolist()]
    in_order = [tuple(row) for row in ordered["game_loop"].tolist()]
    assert loops != in_order
    assert collections.Counter(loops) == collections.Counter(in_order)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of grain's imports
def test_grain(windows):
    grain = pytest.importorskip("grain")
    batches = list(grain.MapDataset.source(windows).shuffle(seed=0).batch(4))
    assert len(batches) == -(-len(windows) // 4)
    order = grain.MapDataset.source(range(len(windows))).shuffle(seed=0)
    for number, batch in enumerate(batches):
        numbers = [order[i] for i in range(4 * number, min(4 * number + 4, len(order)))]
        assert_equal_batches(batch, stacked(windows, numbers))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TensorFlow's imports
def test_tf_data(windows):
    tf = pytest.importorskip("tensorflow")
    signature = tf.nest.map_structure(tf.type_spec_from_value, windows[0])
    data = tf.data.Dataset.from_generator(lambda: windows, output_signature=signature)
    batches = list(data.batch(4).as_numpy_iterator())
    assert len(batches) == -(-len(windows) // 4)
    assert_equal_batches(batches[0], stacked(windows, range(4)))
    last = range(4 * (len(batches) - 1), len(windows))
    assert_equal_batches(batches[-1], stacked(windows, last))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")  # TensorFlow Datasets' own
def test_tfds_loads_an_export(folder, dataset, tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets")
    out = tmp_path / "tensorflow_datasets"
    assert cli.main(["export", folder, "--format", "rlds", "--out", str(out)]) == 0
    loaded = tfds.load(dataset.manifest.name, data_dir=str(out))
    lengths = sorted(
        len(episode["steps"]) for split in loaded.values() for episode in split
    )
    assert lengths == sorted(map(len, dataset))


def test_polars_and_duckdb_read_the_table(folder, dataset):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    counts = collections.Counter(episode.meta.race for episode in dataset)
    races = polars.read_parquet(f"{folder}/episodes.parquet").group_by("race").len()
    assert dict(races.iter_rows()) == counts
    rows = duckdb.sql(
        f"select race, count(*) from '{folder}/episodes.parquet' group by race"
    ).fetchall()
    assert dict(rows) == counts
