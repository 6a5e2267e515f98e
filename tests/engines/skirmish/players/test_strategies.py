import json
from importlib import resources

import pytest

from starmill.engines.skirmish.players import strategies
from starmill.schema.game_constants import BUILDS, PROTOSS, TERRAN, ZERG

RACES = (TERRAN, ZERG, PROTOSS)


def _makeable() -> set[str]:
    file = resources.files("starmill.engines.skirmish.simulation") / "abilities.json"
    abilities = json.loads(file.read_text("utf-8"))["abilities"]
    return {entry.get("makes") for entry in abilities}


@pytest.mark.parametrize("race", RACES)
def test_strategies_name_things_that_can_be_made(race: int) -> None:
    entry = strategies.of_race(race)
    makeable = _makeable()
    assert {entry["worker"], entry["hall"], entry["supply"], entry["gas"]} <= makeable
    for style in entry["styles"].values():
        assert {name for name, _, _ in style["tech"]} <= makeable
        assert set(style["mix"]) <= makeable


@pytest.mark.parametrize("race", RACES)
def test_every_build_that_a_client_can_ask_for_is_a_style(race: int) -> None:
    styles = strategies.of_race(race)["styles"]
    assert set(styles) == set(BUILDS) - {"random"}
