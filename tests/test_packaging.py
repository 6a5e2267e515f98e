"""The wheel: every module and data file, also from a clone without symbolic links."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT

FOLDERS = ("schema", "converters", "engines", "pipelines", "learners", "benchmark")


def _tracked() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout to know which files belong to the project")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [name for name in listed.split("\0") if name]


def _copy(target: Path) -> Path:
    """Copies the checkout as git checks it out where it cannot make links."""
    for name in _tracked():
        source, copy = ROOT / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            copy.write_text(str(source.readlink()))
        elif source.is_file():
            shutil.copyfile(source, copy)
    return target


def _setup(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "setup.py", "--quiet", *words],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )


def test_a_clone_without_links_gives_the_whole_wheel(tmp_path: Path) -> None:
    folder = _copy(tmp_path / "clone")
    done = _setup(folder, "bdist_wheel", "--dist-dir", str(tmp_path / "wheel"))
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheel").iterdir()
    with zipfile.ZipFile(wheel) as file:
        packed = {name for name in file.namelist() if ".dist-info/" not in name}
    expected = {
        name if name.startswith("starmill/") else f"starmill/{name}"
        for name in _tracked()
        if name.split("/")[0] in (*FOLDERS, "starmill")
        and not (ROOT / name).is_symlink()
    }
    assert packed == expected


def test_an_editable_install_without_links_says_what_to_do(tmp_path: Path) -> None:
    done = _setup(_copy(tmp_path), "editable_wheel")
    assert done.returncode != 0
    assert "expected a link to ../schema" in done.stderr
    assert "core.symlinks" in done.stderr
