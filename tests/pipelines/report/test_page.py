"""The report in a real browser: numbers read off the page, clicks, scrubbing, hovering."""

import dataclasses

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from starmill.pipelines.report import statistics
from starmill.pipelines.report.page import Summary, render
from starmill.pipelines.viewing import packing
from starmill.pipelines.viewing.viewer import Game
from starmill.schema import settings, vocab
from tests.factories import records

SETTINGS = settings.UNPLUGGED
LENGTHS = (1500, 60)


@pytest.fixture(scope="module")
def episodes():
    return [
        records.episode(seed, steps=steps, settings=SETTINGS)
        for seed, steps in enumerate(LENGTHS)
    ]


def game(episode):
    meta = episode.meta
    about = {
        "id": meta.episode_id,
        "side": meta.player_id,
        "map": meta.map_name,
        "race": meta.race,
        "opponent_race": meta.opponent_race,
        "mmr": meta.mmr,
        "outcome": meta.outcome,
    }
    payload = packing.pack(episode.arrays, SETTINGS, **about)
    return Game(game_id=meta.episode_id, title="", sides=(payload,))


@pytest.fixture(scope="module")
def page_path(episodes, tmp_path_factory):
    rows = [{**dataclasses.asdict(e.meta), "split": "train"} for e in episodes]
    summary = Summary(
        name="page-test",
        version="1.2.3",
        reference="page-test@1.2.3#sha256:abc",
        digest="sha256:abc",
        engine="skirmish",
        schema="708a",
        selection="skirmish",
        replays=2,
        episodes=2,
        steps=sum(LENGTHS),
        game_loops=20_000,
        stored_bytes=1_000_000,
        dense_bytes=50_000_000,
        field_bytes=[("raw_units", 10, 1000)],
        unselected=[("mmr", 7)],
        quarantined=[("engine_crashed", 1)],
    )
    numbers = statistics.gather(rows, episodes)
    games = [game(episode) for episode in episodes]
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(summary, numbers, games, SETTINGS), "utf-8")
    return path


@pytest.fixture
def page(browser, page_path):
    browser.get(page_path.as_uri())
    WebDriverWait(browser, 30).until(lambda driver: text(driver, "step-text") != "")
    return browser


def text(driver, element_id):
    return driver.find_element(By.ID, element_id).text


def scrub_to(driver, step):
    driver.execute_script(
        "const s = document.getElementById('scrub'); s.value = arguments[0]; s.oninput();",
        step,
    )


def function_name(episode, step):
    return vocab.functions()[episode.arrays["action/function"][step]].name


@pytest.mark.browser
def test_numbers_on_the_page(page):
    assert text(page, "figure-steps") == f"{sum(LENGTHS):,}"
    assert text(page, "figure-bytes") == "1.0 MB"
    assert text(page, "figure-compression") == "50x"
    assert text(page, "subtitle") == "page-test@1.2.3#sha256:abc"
    assert "engine_crashed" in page.find_element(By.TAG_NAME, "main").text
    errors = [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]
    assert errors == []


@pytest.mark.browser
def test_scrubbing_shows_each_steps_action(page, episodes):
    for step in (0, 63, 64, 700, LENGTHS[0] - 1):
        scrub_to(page, step)
        loop = int(episodes[0].arrays["game_loop"][step])
        assert text(page, "step-text").startswith(
            f"step {step + 1}/{LENGTHS[0]} loop {loop} "
        )
        assert text(page, "action-name") == function_name(episodes[0], step)


@pytest.mark.browser
def test_other_episode_theme_and_play(page, episodes):
    Select(page.find_element(By.ID, "episode")).select_by_index(1)
    WebDriverWait(page, 30).until(
        lambda driver: f"/{LENGTHS[1]} " in text(driver, "step-text")
    )
    assert text(page, "action-name") == function_name(episodes[1], 0)
    page.find_element(By.ID, "play").click()
    WebDriverWait(page, 30).until(
        lambda driver: not text(driver, "step-text").startswith("step 1/")
    )
    page.find_element(By.ID, "play").click()
    root = page.find_element(By.TAG_NAME, "html")
    page.find_element(By.ID, "theme").click()
    first = root.get_attribute("data-theme")
    page.find_element(By.ID, "theme").click()
    assert {first, root.get_attribute("data-theme")} == {"light", "dark"}


@pytest.mark.browser
def test_pointing_at_a_unit_shows_its_raw_values(page, episodes):
    units = episodes[0].arrays["raw_units"][0]
    row = next(r for r in range(len(units)) if 20 < units[r, 12] < 230)
    canvas = page.find_element(By.ID, "map")
    scale = canvas.size["width"] / 256
    x, y = ((units[row, column] + 0.5) * scale for column in (12, 13))
    page.execute_script("arguments[0].scrollIntoView({block: 'center'});", canvas)
    ActionChains(page).move_to_element_with_offset(
        canvas, x - canvas.size["width"] / 2, y - canvas.size["height"] / 2
    ).perform()
    shown = page.find_element(By.ID, "unit-values").text.split("\n")
    values = dict(zip(shown[::2], shown[1::2], strict=False))
    unit_row = units[int(values["row"])]
    assert (unit_row[12], unit_row[13]) == (units[row, 12], units[row, 13])
    assert values["health"] == str(unit_row[2])
    assert values["tag"] == str(unit_row[29])


@pytest.mark.browser
def test_layers_change_the_picture(page):
    scrub_to(page, 10)
    script = "return document.getElementById('map').toDataURL()"
    before = page.execute_script(script)
    page.find_element(By.CSS_SELECTOR, "[data-layer=units]").click()
    without = page.execute_script(script)
    assert without != before
    page.find_element(By.CSS_SELECTOR, "[data-layer=units]").click()
    assert page.execute_script(script) == before
