"""Optional packages: a reader needs none, and every error names the extra to install."""

import importlib.metadata
import re
import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from starmill import cli, extras
from tests.conftest import ROOT

DATASET = Path(__file__).with_name("golden") / "formats_0_1/small_dataset"
# Imports fail as in an installation without these extras.
WITHOUT = """
import importlib.abc, sys
from starmill import cli, extras
absent = set(sys.argv.pop(1).split(","))
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        error = ModuleNotFoundError(f"No module named {name!r}", name=name)
        if extras.extra_for(error) in absent:
            raise error
sys.meta_path.insert(0, Finder())
"""
RUN = WITHOUT + "sys.exit(cli.main(sys.argv[1:]))"
OPTIONAL = ",".join(sorted(set(extras.EXTRA_OF_MODULE.values())))


def _without(absent: str, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", RUN, absent, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def _requirements() -> Mapping[str, set[str]]:
    """Returns the distributions of each extra, and of the core as "", as setup.py lists them."""
    with mock.patch("setuptools.setup") as setup, mock.patch.object(sys, "argv", ["x"]):
        runpy.run_path(str(ROOT / "setup.py"))
    listed: dict[str, Any] = {
        "": setup.call_args.kwargs["install_requires"],
        **setup.call_args.kwargs["extras_require"],
    }
    return {
        extra: {re.split(r"[\[<>=]", text)[0] for text in texts}
        for extra, texts in listed.items()
    }


def test_each_module_is_installed_by_its_extra_alone() -> None:
    requirements = _requirements()
    distributions = importlib.metadata.packages_distributions()
    for module, extra in extras.EXTRA_OF_MODULE.items():
        names = {re.sub("[-_.]+", "-", name).lower() for name in distributions[module]}
        assert names & requirements[extra], (module, extra)
        assert not names & requirements[""], module
    for extra in ("generate", "learners", "tensorflow", "gcp", "s3", "hub", "wandb"):
        assert requirements[extra] <= requirements["all"] <= requirements["dev"]


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("skirmish", "ladder", "--games", "1", "--out", "x"), "generate"),
        (("index", "x", "--out", "y"), "generate"),
        (("generate", "--replays", "x", "--output", "y"), "generate"),
        (("convert", "x.npz"), "generate"),
        (("evaluate", "--agent", "rush"), "generate"),
        (("train", "--agent", "bc", "--dataset", str(DATASET)), "learners"),
        (("pack", "x", "y.agent"), "learners"),
        (("export", "--format", "rlds", str(DATASET), "--out", "x"), "tensorflow"),
        (("info", "s3://bucket/data"), "s3"),
        (("info", "gs://bucket/data"), "gcp"),
        (("info", "hf://datasets/me/data"), "hub"),
    ],
)
def test_a_command_without_its_extra_says_which(
    words: tuple[str, ...], extra: str
) -> None:
    done = _without(OPTIONAL, *words)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"pip install 'starmill[{extra}]'")


def test_a_reader_needs_no_extra() -> None:
    for words in (("info", str(DATASET)), ("completion", "bash"), ("doctor",)):
        done = _without(OPTIONAL, *words)
        assert done.returncode == 0, done.stderr
    assert "[generate]" in _without(OPTIONAL, "doctor").stdout


def test_public_names_say_which_extra_they_need() -> None:
    code = WITHOUT + "import starmill; starmill.Environment"
    done = subprocess.run(
        [sys.executable, "-c", code, OPTIONAL],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "starmill.Environment needs the package" in done.stderr
    assert "pip install 'starmill[generate]'" in done.stderr


def test_a_module_of_no_extra_is_a_plain_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = ModuleNotFoundError("No module named 'nonsense'", name="nonsense")
    assert extras.advice("starmill info", error) is None

    def load(name: str) -> None:
        raise error

    monkeypatch.setattr(cli, "_load", load)
    with pytest.raises(ModuleNotFoundError, match="nonsense"):
        cli.main(["info", "x"])
