"""Datasets, checkpoints and agent files that release 0.1 wrote still open.

The files under `tests/golden/formats_0_1` were written by that release and are never made
again. `facts.json` holds the digests of their arrays as that release read them.
"""

import hashlib
import json
import shutil
import zipfile

import numpy as np
import pytest

import starmill
from starmill import cli
from starmill.learners import agent_file, checkpoint, training
from tests.conftest import ROOT
from tests.factories import small_agents

FOLDER = ROOT / "tests/golden/formats_0_1"
FACTS = json.loads((FOLDER / "facts.json").read_text("utf-8"))


def _digest(arrays) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


@pytest.fixture
def run_folder(tmp_path):
    """A run of E-OAC that was stopped after 4 of its 6 updates."""
    folder = tmp_path / "run"
    with zipfile.ZipFile(FOLDER / "run.zip") as file:
        file.extractall(folder)
    return folder


def test_a_generated_dataset_opens_and_verifies(monkeypatch):
    monkeypatch.setattr(cli, "_configure_logging", lambda: None)
    facts = FACTS["dataset"]
    dataset = starmill.open_dataset(f"{FOLDER / 'dataset'}#{facts['digest']}")
    assert len(dataset) == facts["episodes"]
    assert sum(meta.steps for meta in dataset.metas) == facts["steps"]
    assert cli.main(["verify", str(FOLDER / "dataset")]) == 0


def test_arrays_of_a_dataset_are_as_they_were():
    facts = FACTS["small_dataset"]
    dataset = starmill.open_dataset(f"{FOLDER / 'small_dataset'}#{facts['digest']}")
    assert _digest(dataset[0].read()) == facts["first_episode"]


def test_arrays_of_a_checkpoint_keep_their_names_and_values(run_folder):
    meta, arrays = checkpoint.load(run_folder)
    assert meta.update == FACTS["run"]["update"]
    assert len(arrays) == FACTS["run"]["arrays"]
    assert _digest(arrays) == FACTS["run"]["digest"]


def test_arrays_of_an_agent_file_keep_their_names_and_values():
    _, arrays = agent_file.load(FOLDER / "run.agent")
    assert _digest(arrays) == FACTS["agent"]["digest"]


def test_a_stopped_run_goes_on_from_the_same_batch(run_folder, tmp_path):
    """The loader's state in the checkpoint is accepted, and training finishes."""
    folder = tmp_path / "data"
    shutil.copytree(FOLDER / "small_dataset", folder)
    run = small_agents.run("e-oac", save_every=2)
    summary = training.train(run, starmill.open_dataset(str(folder)), run_folder)
    assert summary.new_frames == 2 * run.frames_per_update
    assert checkpoint.load(run_folder)[0].update == 6
