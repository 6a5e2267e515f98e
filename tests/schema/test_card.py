"""The dataset card: the code that it shows runs on the dataset that it describes."""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

from starmill import open_dataset
from starmill.schema import manifest
from tests.factories import small_agents


def test_the_code_on_the_card_runs(tmp_path):
    small_agents.write_dataset(tmp_path)
    card = (tmp_path / "README.md").read_text("utf-8")
    code = re.findall(r"```python\n(.*?)```", card, re.S)[0]
    names: dict = {}
    exec(code.replace("PATH OF THIS FOLDER", str(tmp_path)), names)
    assert names["batch"]["player"].shape[:2] == (16, 64)


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("card")
    small_agents.write_dataset(folder)
    return folder


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of rdflib
def test_croissant_is_valid_and_has_the_episodes(folder):
    """MLCommons' own validator has nothing to say, and its reader gives the table's rows."""
    mlcroissant = pytest.importorskip("mlcroissant")
    path = folder / "croissant.json"
    validator = Path(sys.executable).with_name("mlcroissant")
    done = subprocess.run(
        [validator, "validate", "--jsonld", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert "warning(s)" not in done.stderr
    rows = list(mlcroissant.Dataset(jsonld=path).records("episodes"))
    dataset = open_dataset(folder)
    assert {row["episodes/episode_id"].decode() for row in rows} == {
        episode.meta.episode_id for episode in dataset
    }
    assert sum(row["episodes/steps"] for row in rows) == sum(map(len, dataset))


def test_hugging_face_opens_the_folder(folder, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    table = datasets.load_dataset(
        str(folder), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert len(table) == len(open_dataset(folder))
    assert set(table["episode_id"]) == {
        episode.meta.episode_id for episode in open_dataset(folder)
    }


@pytest.mark.parametrize(
    "name",
    ["<img src=x onerror=alert(1)>", "a | b", "[a](http://b.example)", "`a`", "&lt;"],
)
def test_a_name_from_a_replay_stays_text(tmp_path, name):
    """No element, cell, link or code comes of a map's name, and it is shown as it is."""
    small_agents.write_dataset(tmp_path, map_name=name)
    card = (tmp_path / "README.md").read_text("utf-8")
    (line,) = [line for line in card.splitlines() if line.startswith("| maps |")]
    assert not set("<>[]`") & set(line)
    assert line.count("|") == 3
    assert html.unescape(line) == f"| maps | {name}: 8 |"


def test_a_line_break_in_a_name_begins_no_line(tmp_path):
    small_agents.write_dataset(tmp_path, map_name="a\n\n# b")
    card = (tmp_path / "README.md").read_text("utf-8")
    assert "| maps | a # b: 8 |" in card.splitlines()


def test_ordinary_names_stay_as_they_are(tmp_path):
    small_agents.write_dataset(tmp_path, map_name="King's Cove LE (4.9_x)")
    assert manifest.read(str(tmp_path)).statistics["by_map"] == {
        "King's Cove LE (4.9_x)": 8
    }
    card = (tmp_path / "README.md").read_text("utf-8")
    assert "| maps | King's Cove LE (4.9_x): 8 |" in card
