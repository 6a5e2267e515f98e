import pytest

from starmill.engines.replays import archive_writer
from starmill.engines.skirmish.server import map_files
from starmill.engines.skirmish.simulation import maps
from starmill.schema import errors


def test_every_file_names_one_of_the_maps():
    files = map_files.files()
    assert {map_files.own_path(name) for name in maps.all_names()} < set(files)
    for path, content in files.items():
        assert map_files.map_of_data(content) is map_files.map_of_name(path)


def test_maps_are_found_by_title_path_and_alias():
    assert map_files.map_of_name("Amber Basin").name == "Amber Basin"
    assert map_files.map_of_name("Skirmish/AmberBasin.SC2Map").name == "Amber Basin"
    assert map_files.map_of_name("Melee/Simple64.SC2Map").name == "Amber Basin"
    for name in ("Acropolis LE", "Acropolis", "AcropolisLE.SC2Map"):
        assert map_files.map_of_name(name).name == "Acropolis"
    assert map_files.map_of_name("King's Cove LE").name == "King's Cove"
    assert map_files.map_of_name("TurboCruise84LE").name == "Turbo Cruise '84"
    assert map_files.map_of_name("Ulrena LE") is None


def test_the_maps_that_clients_tests_name_are_where_they_look_for_them():
    files = map_files.files()
    for path in (
        "Melee/Flat64.SC2Map",
        "Melee/Empty128.SC2Map",
        "mini_games/DefeatRoaches.SC2Map",
        "mini_games/MoveToBeacon.SC2Map",
    ):
        game_map = map_files.map_of_data(files[path])
        assert f"{game_map.name}.SC2Map" == path.split("/")[1]
        assert map_files.own_path(game_map.name) == path
    assert any(path.endswith("/Acropolis.SC2Map") for path in files)


def test_a_map_file_that_is_not_ours_is_refused():
    with pytest.raises(errors.FormatError, match="expected one of Skirmish"):
        map_files.map_of_data(b"MPQ\x1a nonsense")


@pytest.mark.parametrize("content", [b"[" * 100_000, bytes(1 << 26), b"[]", b"\xff"])
def test_a_map_file_that_attacks_its_reader_is_refused(content):
    data = archive_writer.write({map_files.MEMBER: content})
    with pytest.raises(errors.FormatError, match="expected one of Skirmish"):
        map_files.map_of_data(data)
