"""Columns: the rows of a batch, by hand, and files that do not belong."""

import numpy as np
import pytest

from starmill.learners import columns
from starmill.schema import errors
from starmill.schema.loader.batch_options import BatchOptions
from tests.factories import small_agents


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_agents.write_dataset(tmp_path_factory.mktemp("data"))


def _numbered(data):
    """Each row says which step of which episode it belongs to."""
    ids = data.table.column("episode_id").to_pylist()
    lengths = data.table.column("steps").to_pylist()
    rows = [
        (int(name[:6], 16), step)
        for name, length in zip(ids, lengths, strict=True)
        for step in range(length)
    ]
    return columns.of_dataset(data, {"number": np.array(rows)})


def test_a_batch_gets_the_rows_of_its_steps(data):
    part = data.filter(split="train")
    ids = part.table.column("episode_id").to_pylist()
    look_up = columns.LookUp(_numbered(data), part)
    options = BatchOptions(batch_size=4, rollout=7, seed=3, form="compact")
    for batch, _ in zip(part.batches(options), range(5), strict=False):
        numbers = look_up.of(batch)["number"]
        for place in np.argwhere(batch["valid"]):
            where = tuple(place)
            name = ids[batch["episode"][where]]
            assert numbers[where].tolist() == [int(name[:6], 16), batch["step"][where]]


def test_files_hold_columns(data, tmp_path):
    path = tmp_path / "columns.npz"
    columns.write(path, _numbered(data))
    stored = columns.read(path)
    assert stored.episode_ids == data.table.column("episode_id").to_pylist()
    np.testing.assert_array_equal(
        stored.arrays["number"], _numbered(data).arrays["number"]
    )
    first = columns.digest(path)
    columns.write(path, columns.of_dataset(data, {"number": np.zeros(data.steps)}))
    assert columns.digest(path) != first


def test_other_episodes_and_other_files_are_refused(data, tmp_path):
    part = data.filter(split="test")
    with pytest.raises(errors.ManifestMismatch, match="Make them again"):
        columns.LookUp(columns.of_dataset(part, {}), data)
    path = tmp_path / "other.npz"
    np.savez(path, something=np.zeros(3))
    with pytest.raises(errors.FormatError, match="starmill critic"):
        columns.read(path)
    with pytest.raises(errors.ConfigError, match="missing"):
        columns.digest(tmp_path / "missing")
