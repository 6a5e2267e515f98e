"""Which of the offered maps are played."""

import pytest

from starmill.benchmark.games import map_pool
from starmill.schema import errors

MAPS = ["Ladder2019Season3/AcropolisLE.SC2Map", "Skirmish/AmberBasin.SC2Map"]


def test_maps_are_found_by_name():
    assert map_pool.choose(MAPS, ["acropolis"]) == [MAPS[0]]
    assert map_pool.choose(MAPS, ["Acropolis LE"]) == [MAPS[0]]
    assert map_pool.choose(MAPS[:1]) == MAPS[:1]
    with pytest.raises(errors.ConfigError, match="none of the dataset's maps"):
        map_pool.choose(["Melee/Simple64.SC2Map"])
