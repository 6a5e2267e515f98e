"""The page of watched games in a browser: hostile names stay text, and addresses name moments."""

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from starmill.pipelines.viewing import packing, viewer
from starmill.pipelines.viewing.viewer import Game
from starmill.schema import vocab
from starmill.schema.settings import UNPLUGGED
from tests.factories import records

HOSTILE = "<img src=x onerror=document.title='hacked'></script><b>"


def side(seed, number, actions=None, **about):
    episode = records.episode(seed, steps=30, settings=UNPLUGGED)
    for name, value in (actions or {}).items():
        episode.arrays[f"action/{name}"][:] = value
    facts = {
        "id": f"x-{number}",
        "side": number,
        "map": HOSTILE,
        "race": "zerg",
        "opponent_race": "terran",
        "mmr": None,
        "outcome": 1,
        "player": HOSTILE,
    }
    return packing.pack(episode.arrays, UNPLUGGED, **{**facts, **about})


@pytest.fixture(scope="module")
def page_path(tmp_path_factory):
    log = {
        "loops": [0, 5],
        "functions": [1, 2],
        "delays": [5, 9],
        "values": [0.25, None],
        "likely": [[[1, 0.75], [2, 0.125]], [[1, 0.5]]],
    }
    games = [
        Game(
            game_id="one & two",
            title=HOSTILE,
            sides=(side(1, 1, decisions=log), side(2, 2)),
        ),
        Game(game_id="second", title="", sides=(side(3, 1),)),
    ]
    path = tmp_path_factory.mktemp("page") / "games.html"
    text = viewer.render(games, UNPLUGGED, title=HOSTILE, subtitle=HOSTILE)
    path.write_text(text, "utf-8")
    return path


def open_page(driver, path, fragment=""):
    driver.get("about:blank")
    driver.get(path.as_uri() + fragment)
    shown = "return document.getElementById('step-text').textContent"
    WebDriverWait(driver, 30).until(lambda d: d.execute_script(shown) != "")
    return driver


def text(driver, element_id):
    return driver.find_element(By.ID, element_id).text


@pytest.mark.browser
def test_hostile_names_stay_text(browser, page_path):
    page = open_page(browser, page_path)
    assert page.title == HOSTILE
    assert page.find_elements(By.TAG_NAME, "img") == []
    assert HOSTILE in text(page, "sides")
    assert HOSTILE in text(page, "episode")


@pytest.mark.browser
def test_addresses_name_game_side_and_moment(browser, page_path):
    page = open_page(browser, page_path, "#game=second&loop=0")
    assert page.find_element(By.ID, "episode").get_attribute("value") == "1"
    assert not page.find_element(By.ID, "agent").is_displayed()
    page = open_page(browser, page_path, "#game=one%20%26%20two&side=2")
    pressed = page.find_element(By.CSS_SELECTOR, "#sides [aria-pressed=true]")
    assert pressed.get_attribute("data-side") == "2"
    # What makes no sense is the beginning of the first game.
    page = open_page(browser, page_path, "#game=none&side=99&time=x&loop=-5")
    assert text(page, "step-text").startswith("step 1/30")


@pytest.mark.browser
def test_the_agents_choices_stand_beside_the_one_taken(browser, page_path):
    page = open_page(browser, page_path, "#loop=0")
    rows = page.find_elements(By.CSS_SELECTOR, "#considered .choice")
    assert [row.find_element(By.TAG_NAME, "b").text for row in rows] == ["75%", "13%"]
    assert "taken" in rows[0].get_attribute("class")
    assert "Expected outcome: 0.25." in text(page, "value-text")
    page.execute_script("location.hash = '#loop=100000'")
    WebDriverWait(page, 30).until(lambda d: "does not say" in text(d, "value-text"))
    # The function that was taken is listed although it was not among the likeliest.
    rows = page.find_elements(By.CSS_SELECTOR, "#considered .choice")
    assert [("taken" in row.get_attribute("class")) for row in rows] == [False, True]


@pytest.mark.browser
def test_units_that_commands_targeted_are_on_the_heat_map(browser, tmp_path):
    function = next(f for f in vocab.functions() if f.kind == "cmd_unit")
    commands = {"function": function.id, "target_unit_tag": 0}
    path = tmp_path / "games.html"
    games = [Game(game_id="one", title="", sides=(side(1, 1, commands),))]
    text = viewer.render(games, UNPLUGGED, title="", subtitle="")
    path.write_text(text, "utf-8")
    page = open_page(browser, path)
    pictures = [
        page.execute_script(
            "const s = document.getElementById('heat'); s.value = arguments[0]; s.onchange();"
            "return document.getElementById('map').toDataURL()",
            kind,
        )
        for kind in ("none", "targets", "none")
    ]
    assert pictures[0] == pictures[2] != pictures[1]
