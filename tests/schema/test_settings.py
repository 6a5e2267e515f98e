"""Settings: JSON both ways, strict keys, and every problem named at once."""

import dataclasses

import pytest

from starmill.schema import errors
from starmill.schema.settings import UNPLUGGED, ConverterSettings


def test_json_both_ways():
    assert ConverterSettings.from_json(UNPLUGGED.to_json()) == UNPLUGGED
    bare = ConverterSettings()
    assert ConverterSettings.from_json(bare.to_json()) == bare
    assert ConverterSettings.from_json({}) == bare


@pytest.mark.parametrize(
    "data",
    [
        {"nonsense": 1},
        {"raw_settings": {"nonsense": 1}},
        {"raw_settings": {"resolution": {"z": 1}}},
        {"raw_settings": {"virtual_camera_dimensions": {"up": 1.0}}},
        {"minimap": {"w": 1}},
    ],
)
def test_unknown_keys_are_errors(data):
    with pytest.raises(errors.ConfigError, match=r"unknown|expected"):
        ConverterSettings.from_json(data)


def test_the_paper_s_settings_have_no_problems():
    assert UNPLUGGED.problems() == []
    UNPLUGGED.check()


def test_all_problems_are_named_at_once():
    raw = dataclasses.replace(UNPLUGGED.raw_settings, num_unit_features=38)
    broken = dataclasses.replace(UNPLUGGED, raw_settings=raw, num_action_types=538)
    with pytest.raises(errors.ConfigError) as caught:
        broken.check()
    assert "num_unit_features" in str(caught.value)
    assert "num_action_types" in str(caught.value)


@pytest.mark.parametrize(
    ("field", "least"),
    [
        ("num_action_types", 539),
        ("num_unit_types", 217),
        ("num_upgrade_types", 86),
        ("max_num_upgrades", 1),
    ],
)
def test_minima(field, least):
    assert dataclasses.replace(UNPLUGGED, **{field: least}).problems() == []
    below = dataclasses.replace(UNPLUGGED, **{field: least - 1})
    assert len(below.problems()) == 1


@pytest.mark.parametrize("size", [(0, 0), (64, 32), (-1, -1)])
def test_sizes_are_squares(size):
    assert dataclasses.replace(UNPLUGGED, minimap=size).problems()
    planeless = dataclasses.replace(UNPLUGGED, minimap=size, minimap_features=())
    assert planeless.problems() == []


def test_visual_mode_is_not_offered():
    with pytest.raises(errors.ConfigError, match="raw_settings"):
        dataclasses.replace(UNPLUGGED, raw_settings=None).check()
