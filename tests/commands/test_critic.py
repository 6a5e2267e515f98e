"""`starmill critic` on the command line."""

import json

import numpy as np
import pytest

from starmill import cli
from starmill.learners import columns
from tests.factories import small_agents


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Enough games that each fold has one."""
    folder = tmp_path_factory.mktemp("data")
    return small_agents.write_dataset(folder, episodes=30)


def test_it_writes_values_and_says_how_good_they_are(data, tmp_path, capsys):
    out = tmp_path / "critic.npz"
    command = ["critic", "--dataset", data.url, "--out", str(out), "--looks", "2"]
    assert cli.main(command) == 0
    train = data.filter(split="train")
    text = capsys.readouterr().out
    assert "| critic |" in text
    assert f"{train.steps:,} steps" in text
    stored = columns.read(out)
    assert stored.episode_ids == train.table.column("episode_id").to_pylist()
    values = stored.arrays["critic_values"]
    assert values.shape == (train.steps,)
    assert np.abs(values).max() <= 1
    summary = json.loads(out.with_suffix(".json").read_text())
    assert summary["dataset"] == train.reference
    assert summary["calibration"]["all"]["steps"] == train.steps
    assert cli.main(command) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_too_few_games_are_refused(tmp_path, capsys):
    small = small_agents.write_dataset(tmp_path, episodes=3)
    out = str(tmp_path / "critic.npz")
    assert cli.main(["critic", "--dataset", small.url, "--out", out]) == 2
    assert "folds" in capsys.readouterr().err
