"""`starmill publish` and `starmill get`: what they print, and what they refuse."""

import subprocess
import sys

import pytest

import starmill
from starmill import cli
from tests.conftest import ROOT
from tests.factories import records

AGENT = ROOT / "tests/golden/formats_0_1/run.agent"


@pytest.fixture
def data(tmp_path):
    return str(tmp_path / "data"), records.dataset(str(tmp_path / "data"))


def last_line(capsys):
    return capsys.readouterr().out.splitlines()[-1]


def test_there_and_back(data, tmp_path, capsys):
    folder, content = data
    published, copy = str(tmp_path / "published"), str(tmp_path / "copy")
    assert cli.main(["publish", f"{folder}#{content.digest()}", published]) == 0
    reference = last_line(capsys)
    assert reference == f"{published}#{content.digest()}"
    assert cli.main(["get", reference, copy]) == 0
    assert last_line(capsys) == f"{copy}#{content.digest()}"
    assert cli.main(["verify", copy]) == 0


def test_by_name(data, tmp_path, capsys):
    folder, content = data
    registry, copy = str(tmp_path / "registry.json"), str(tmp_path / "copy")
    published = str(tmp_path / "published")
    assert cli.main(["publish", folder, published, "--register", registry]) == 0
    name = f"{content.name}@{content.version}"
    assert cli.main(["get", name, copy, "--registry", registry]) == 0
    capsys.readouterr()
    opened = starmill.open_dataset(name, registry_file=registry)
    assert opened.url == published
    assert opened.reference == content.reference()


def test_another_dataset_than_the_reference_is_refused(data, tmp_path, capsys):
    folder, _ = data
    wrong = f"{folder}#sha256:{'0' * 64}"
    for command in ("publish", "get"):
        assert cli.main([command, wrong, str(tmp_path / "copy")]) == 2
        assert "ManifestMismatch" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()


def test_an_agent_there_and_back(tmp_path, capsys):
    published = f"{tmp_path}/agents/bc.agent"
    assert cli.main(["publish", str(AGENT), published]) == 0
    reference = last_line(capsys)
    assert cli.main(["get", reference, f"{tmp_path}/new.agent"]) == 0
    path, _, digest = last_line(capsys).partition("#sha256:")
    assert path == f"{tmp_path}/new.agent"
    assert reference.endswith(digest)
    assert (tmp_path / "new.agent").read_bytes() == AGENT.read_bytes()
    done = subprocess.run(
        ["sha256sum", "--check", "new.agent.sha256"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "new.agent: OK\n"


def test_an_agent_that_differs_from_the_reference_is_refused(tmp_path, capsys):
    wrong = f"{AGENT}#sha256:{'0' * 64}"
    assert cli.main(["publish", wrong, f"{tmp_path}/bc.agent"]) == 2
    assert "ManifestMismatch" in capsys.readouterr().err
    assert cli.main(["get", wrong, f"{tmp_path}/bc.agent"]) == 2
    assert "damaged" in capsys.readouterr().err


def test_agents_are_not_registered(tmp_path, capsys):
    for command in ("publish", "get"):
        words = [command, str(AGENT), f"{tmp_path}/bc.agent", "--register", "x.json"]
        assert cli.main(words) == 2
        assert "a registry holds datasets" in capsys.readouterr().err


def test_a_hub_that_cannot_be_reached_is_one_sentence(tmp_path):
    """The hub's own client, and nothing listening where it looks for the hub."""
    code = (
        "import os, sys; os.environ['HF_ENDPOINT'] = 'http://127.0.0.1:9';"
        "from starmill import cli; sys.exit(cli.main(sys.argv[1:]))"
    )
    words = ["get", "hf://datasets/me/data", str(tmp_path / "data")]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("FormatError: hf://datasets/me/data")
