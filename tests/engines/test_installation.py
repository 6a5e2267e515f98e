"""Finding installed games, on installations of the embedded one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from starmill.engines import installation
from starmill.engines.skirmish import install, versions
from starmill.schema import errors


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sc2")
    install.install(folder, versions.VERSIONS[-2:])
    return folder


def test_installations_name_their_builds_and_ignore_the_rest(root, tmp_path):
    game = installation.find(root)
    assert game.builds == (74456, 74741)
    assert game.describe() == "4.9.1 (build 74456), 4.9.2 (build 74741)"
    (tmp_path / "Versions/Base75689.old").mkdir(parents=True)
    (tmp_path / "Versions/Base11111").mkdir()
    (tmp_path / "Versions/Base22222").mkdir()
    (tmp_path / "Versions/Base22222/SC2_x64").write_text("not executable")
    assert installation.find(tmp_path).builds == ()


def test_a_folder_without_a_game_says_what_to_do(tmp_path):
    with pytest.raises(errors.ConfigError, match="--sc2 skirmish"):
        installation.find(tmp_path)


def test_a_missing_version_names_the_versions_found(root):
    game = installation.find(root)
    with pytest.raises(errors.EngineMissing) as caught:
        game.executable("4.10.0.75689", 75689, None)
    assert "needs game version 4.10.0 (build 75689)" in str(caught.value)
    assert "found 4.9.1 (build 74456), 4.9.2 (build 74741)" in str(caught.value)


def test_the_replays_data_version_wins_over_the_table(root):
    game = installation.find(root)
    known = game.executable("4.9.2", 74741, None)
    assert known.data_version == "614480EF79264B5BD084E57F912172FF"
    assert game.executable("4.9.2", 74741, "AB" * 16).data_version == "AB" * 16


def test_the_version_table_is_pysc2s():
    # A process of its own: pysc2 defines flags when it is imported.
    code = (
        "import json\nfrom starmill.converters import protos\n"
        "from pysc2.run_configs import lib\n"
        "print(json.dumps([[v.game_version, v.build_version, v.data_version] "
        "for v in lib.VERSIONS.values()]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    theirs = json.loads(done.stdout.splitlines()[-1])
    assert [list(row) for row in installation.GAME_VERSIONS.values()] == theirs


def test_the_newest_version_is_the_default(root):
    game = installation.find(root)
    assert game.newest() == game.executable("4.9.2", 74741, None)
    assert game.newest("4.9.1") == game.executable("4.9.1", 74456, None)
    with pytest.raises(errors.ConfigError, match="'1.2.3'"):
        game.newest("1.2.3")
    with pytest.raises(errors.EngineMissing, match="needs game version 4.8.2"):
        game.newest("4.8.2")


def test_results_name_the_embedded_game(root, tmp_path):
    assert installation.is_embedded("skirmish")
    assert installation.is_embedded(str(root))
    game = installation.find(root)
    assert game.engine_name(game.newest()) == "skirmish 4.9.2.74741"
    binary = tmp_path / "Versions/Base99999/SC2_x64"
    binary.parent.mkdir(parents=True)
    binary.touch(mode=0o755)
    other = installation.find(tmp_path)
    assert not installation.is_embedded(str(tmp_path))
    assert other.engine_name(other.newest()) == "sc2 0.0.0.99999"
    assert other.describe() == "build 99999"
