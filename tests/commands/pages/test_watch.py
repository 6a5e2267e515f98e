"""`starmill watch`: an evaluation's games, replays and datasets, from the command to the browser."""

import json
import re

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from starmill import cli
from starmill.benchmark.ratings import results
from starmill.schema import vocab
from tests.factories import records, short_games


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """An evaluation of two games that both reach the time limit; the agent of one is away."""
    out = tmp_path_factory.mktemp("played") / "out"
    options = ["--agent", "rush", "--agent", "very_easy", "--opponents", "random"]
    limits = ["--games", "1", "--seed", "5", "--max-minutes", "0.4"]
    assert cli.main(["evaluate", *options, *limits, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def watched(played):
    assert cli.main(["watch", str(played)]) == 0
    return played


def data_of(path):
    """The games that a page holds."""
    (text,) = re.findall(
        '<script id="data" type="application/json">(.*?)</script>', path.read_text()
    )
    return json.loads(text)


def test_every_row_of_the_report_leads_to_its_game(played):
    report = (played / "report.html").read_text()
    for row in results.read_results(played / "results.csv"):
        assert f'href="watch/{row.game}.html"' in report
        assert (played / "watch" / f"{row.game}.html").is_file()


def test_pages_have_both_players_and_what_agents_considered(watched):
    for row in results.read_results(watched / "results.csv"):
        (game,) = data_of(watched / "watch" / f"{row.game}.html")
        home, away = game["sides"]
        assert (home["player"], away["player"]) == (row.home, row.away)
        assert (home["race"], away["race"]) == (row.home_race, row.away_race)
        for side, name in ((home, row.home), (away, row.away)):
            # The game's own AI does not say what it considered.
            assert ("decisions" in side) == (name != "very_easy")
        assert {side["side"] for side in game["sides"]} == {1, 2}


def test_one_game_goes_where_it_is_asked(played, tmp_path, capsys):
    name = results.read_results(played / "results.csv")[0].game
    out = tmp_path / "one.html"
    replay = played / "replays" / f"{name}.SC2Replay"
    assert cli.main(["watch", str(replay), "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    assert data_of(out)[0]["id"] == name


def test_a_replay_by_itself(tmp_path):
    replay, out = tmp_path / "alone.SC2Replay", tmp_path / "alone.html"
    replay.write_bytes(short_games.short_game(2, loops=120))
    assert cli.main(["watch", str(replay), "--out", str(out)]) == 0
    assert len(data_of(out)[0]["sides"]) == 2


def test_a_replay_of_a_dataset(tmp_path, capsys):
    records.dataset(str(tmp_path / "data"))
    out = tmp_path / "page.html"
    first = records.replay_id(0)
    arguments = ["watch", str(tmp_path / "data"), "--out", str(out)]
    assert cli.main([*arguments, "--game", first[:9]]) == 0
    (game,) = data_of(out)
    assert game["id"] == first
    assert cli.main([*arguments, "--game", "zz"]) == 2
    assert "found no replay" in capsys.readouterr().err


def test_requests_that_make_no_sense_are_named(played, tmp_path, capsys):
    assert cli.main(["watch", str(played), "--game", "nobody"]) == 2
    assert "expected the name of one of its 2 games" in capsys.readouterr().err
    missing = str(tmp_path / "nowhere" / "x.html")
    assert cli.main(["watch", str(played), "--out", missing]) == 2
    assert "its folder does not exist" in capsys.readouterr().err


def test_an_agent_plays_a_game_and_it_is_watched(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["watch", "skirmish:bc", "--max-minutes", "0.2"]) == 0
    (page,) = (tmp_path / "skirmish-bc-games/watch").glob("*.html")
    assert page.name in capsys.readouterr().out
    log = data_of(page)[0]["sides"][0]["decisions"]
    assert all(len(likely) == 5 for likely in log["likely"])
    # Masked functions have no probability at all.
    assert all(0 <= p <= 1 for likely in log["likely"] for _, p in likely)
    assert all(likely[0][1] > 0 for likely in log["likely"])
    # Watched again, the game is not played again.
    before = (tmp_path / "skirmish-bc-games/results.csv").read_bytes()
    assert cli.main(["watch", "skirmish:bc", "--max-minutes", "0.2"]) == 0
    assert (tmp_path / "skirmish-bc-games/results.csv").read_bytes() == before


def text(driver, element_id):
    return driver.find_element(By.ID, element_id).text


def open_page(driver, address):
    driver.get("about:blank")
    driver.get(address)
    WebDriverWait(driver, 30).until(lambda d: text(d, "step-text") != "")


@pytest.mark.browser
def test_a_game_plays_in_a_browser(browser, watched):
    row = next(
        r for r in results.read_results(watched / "results.csv") if r.home == "rush"
    )
    path = watched / "watch" / f"{row.game}.html"
    log = data_of(path)[0]["sides"][0]["decisions"]
    open_page(browser, f"{path.as_uri()}#side=1&loop={log['loops'][20]}")
    assert f"loop {log['loops'][20]} " in text(browser, "step-text")
    taken = vocab.functions()[log["functions"][20]].name
    assert f"{taken} (taken)" in text(browser, "considered")
    titles = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#curves h3")]
    assert titles[:2] == ["Supply used (dashed: the cap)", "Army supply"]
    # Below the curves are the numbers of the moment, without a pointer on them.
    supply = browser.find_element(By.CSS_SELECTOR, "#curves .u-legend").text
    assert re.search(r"rush\s*\d", supply)
    # The other side shows the same moment, and has no agent that says what it considered here.
    browser.find_element(By.CSS_SELECTOR, "[data-side='2']").click()
    WebDriverWait(browser, 30).until(lambda d: "side=2" in d.current_url)
    before = text(browser, "step-text")
    browser.find_element(By.ID, "play").click()
    WebDriverWait(browser, 30).until(lambda d: text(d, "step-text") != before)
    browser.find_element(By.ID, "play").click()
    assert re.search(r"time=\d+:\d\d", browser.current_url)
    errors = [x for x in browser.get_log("browser") if x["level"] == "SEVERE"]
    assert errors == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_cut(browser, watched, width):
    page = sorted((watched / "watch").glob("*.html"))[0]
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        open_page(browser, page.as_uri())
        wide = browser.execute_script(
            "return [...document.querySelectorAll('main *')].filter(x => "
            "x.getBoundingClientRect().right > innerWidth + 1).map(x => x.id || x.className)"
        )
        assert wide == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.browser
def test_heat_maps_and_moments_change_the_map(browser, watched):
    page = sorted((watched / "watch").glob("rush*.html"))[0]
    open_page(browser, page.as_uri())
    script = "return document.getElementById('map').toDataURL()"
    pictures = {browser.execute_script(script)}
    for kind in ("places", "targets"):
        browser.execute_script(
            "const s = document.getElementById('heat'); s.value = arguments[0]; s.onchange();",
            kind,
        )
        pictures.add(browser.execute_script(script))
    browser.execute_script("location.hash = '#time=0:15'")
    WebDriverWait(browser, 30).until(
        lambda d: " 0:15" in text(d, "step-text") or " 0:14" in text(d, "step-text")
    )
    pictures.add(browser.execute_script(script))
    assert len(pictures) == 4
