"""The installation looks like a game's folder to pysc2, and starts."""

import os
import stat
import subprocess

import pytest

from starmill.converters import protos
from starmill.engines.skirmish import install, versions
from starmill.engines.skirmish.server import map_files
from starmill.engines.skirmish.simulation import maps
from starmill.schema import errors


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("game folder")
    install.install(directory, versions.VERSIONS)
    return directory


def test_every_version_has_an_executable(installed):
    for version in versions.VERSIONS:
        binary = installed / "Versions" / version.directory / "SC2_x64"
        assert binary.stat().st_mode & stat.S_IXUSR
    names = sorted(p.name for p in (installed / "Versions").iterdir())
    assert names == sorted(v.directory for v in versions.VERSIONS)


def test_pysc2_knows_the_versions_and_their_data(installed, monkeypatch):
    protos.mark_flags_parsed()
    from pysc2 import run_configs
    from pysc2.run_configs import lib

    monkeypatch.setenv("SC2PATH", str(installed))
    for version in versions.VERSIONS:
        config = run_configs.get(version=version.number)
        assert config.version.build_version == version.base_build
        assert config.version.data_version == version.data_version
        assert lib.VERSIONS[version.number].data_version == version.data_version


def test_pysc2_finds_the_map_files(installed, monkeypatch):
    protos.mark_flags_parsed()
    from pysc2 import maps as pysc2_maps
    from pysc2 import run_configs

    monkeypatch.setenv("SC2PATH", str(installed))
    config = run_configs.get()
    dataset_maps = (
        "Acropolis Automaton CyberForest KairosJunction KingsCove NewRepugnancy "
        "PortAleksander Thunderbird TurboCruise84 YearZero Simple64 Simple96 Simple128"
    )
    for name in dataset_maps.split():
        data = pysc2_maps.get(name).data(config)
        assert map_files.map_of_data(data).name in {*maps.MAPS, *maps.STAND_INS}


def test_installing_again_changes_nothing(installed):
    before = {p: p.read_bytes() for p in sorted(installed.rglob("*")) if p.is_file()}
    install.install(installed, versions.VERSIONS)
    after = {p: p.read_bytes() for p in sorted(installed.rglob("*")) if p.is_file()}
    assert before == after


def test_another_games_folder_is_left_alone(tmp_path):
    (tmp_path / "Versions/Base75689").mkdir(parents=True)
    with pytest.raises(errors.ConfigError, match="another game's Versions folder"):
        install.install(tmp_path, versions.VERSIONS)


def test_the_launcher_ignores_the_clients_environment(installed):
    binary = installed / "Versions/Base74741/SC2_x64"
    env = {**os.environ, "PYTHONPATH": "/nonexistent", "PYTHONHOME": "/nonexistent"}
    done = subprocess.run(
        [binary, "-port", "no"], env=env, capture_output=True, text=True, check=False
    )
    assert "-port: expected a number, found 'no'" in done.stderr
    assert done.returncode == 1
