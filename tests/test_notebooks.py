"""The notebooks of the documents run from beginning to end, in an empty folder."""

import os
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


def run(path, folder):
    """Runs a notebook with this Python and returns it with its outputs; raises if a cell fails."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=1200, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return notebook


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path, monkeypatch):
    binaries = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", binaries)
    notebook = run(path, tmp_path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) >= 2
    # Each ends with something to see.
    assert code[-1].outputs


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} == {"first_look", "own_agent"}
