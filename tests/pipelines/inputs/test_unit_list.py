"""A list of units in files: each unit comes back from its own range."""

import pytest

from starmill.pipelines.inputs import sources, unit_list
from starmill.schema import errors, storage

UNITS = (
    sources.Unit(files=("a/1.SC2Replay", "a/2.SC2Replay"), digest="d1"),
    # A name that is not UTF-8, as Python has it.
    sources.Unit(files=("a/\udcff.SC2Replay",), digest="d2"),
    sources.Unit(pack="s3://bucket/pack.zip", begin=512, end=1024, digest="d3"),
    sources.Unit(pack="torn.zip", digest="d4"),
)


@pytest.fixture
def folder(tmp_path) -> str:
    return str(tmp_path / "parts")


def test_units_come_back_in_order(folder):
    name = unit_list.write(folder, UNITS)
    places = list(unit_list.places(folder, name))
    assert [place.number for place in places] == [0, 1, 2, 3]
    assert tuple(unit_list.read(folder, name, place) for place in places) == UNITS


def test_a_unit_is_read_by_its_range(folder, monkeypatch):
    name = unit_list.write(folder, UNITS)
    places = list(unit_list.places(folder, name))
    size = storage.size_bytes(f"{folder}/{name}.units")
    assert (places[0].begin, places[-1].end) == (0, size)
    ranges = []
    read = storage.RangeReader.read

    def noted(reader, file, begin, end):
        ranges.append((file, begin, end))
        return read(reader, file, begin, end)

    monkeypatch.setattr(storage.RangeReader, "read", noted)
    unit_list.read(folder, name, places[2])
    assert ranges == [(f"{name}.units", places[2].begin, places[2].end)]
    assert places[2].end - places[2].begin < size


def test_lists_of_different_units_have_different_names(folder):
    names = {unit_list.write(folder, UNITS), unit_list.write(folder, UNITS[:2])}
    names.add(unit_list.write(folder, UNITS))
    assert len(names) == 2
    assert sorted(storage.names(folder)) == sorted(
        f"{name}.{kind}" for name in names for kind in ("json", "units")
    )
    assert all(unit_list.is_name(name) for name in storage.names(folder))
    assert not unit_list.is_name("units-mine.json")


def test_a_damaged_list_is_named(folder):
    name = unit_list.write(folder, UNITS)
    place = next(unit_list.places(folder, name))
    path = f"{folder}/{name}.units"
    data = bytearray(storage.read(path))
    data[place.end - 1] ^= 1  # the checksum's last byte
    storage.write(path, bytes(data))
    with pytest.raises(errors.FormatError, match=r"\.units: the list is damaged"):
        unit_list.read(folder, name, place)
