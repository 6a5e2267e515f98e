import dataclasses
import html.parser
import json

import pytest

from starmill.benchmark.ratings import standings, winrates
from starmill.benchmark.reports import page, report
from tests.benchmark.ratings.test_results import result
from tests.factories import tournaments

RATINGS = {"very_hard": 1000.0, "bc": 1120.0, "<oac> & co": 1230.0}


def make(folder, games=None):
    games = tournaments.play(RATINGS, 36, 5, draws=0.1) if games is None else games
    table = winrates.tabulate(games)
    played = [
        dataclasses.replace(
            result(
                i, game_loops=5000 + 37 * i, ending="limit" if g.outcome == 0 else "won"
            ),
            **dataclasses.asdict(g),
        )
        for i, g in enumerate(games)
    ]
    return report.build(
        table, standings.standings(table), results=played, folder=folder, title="A test"
    )


@pytest.fixture
def content(tmp_path):
    return make(tmp_path)


def test_json_holds_the_numbers_of_every_part(content, tmp_path):
    path = tmp_path / "report.json"
    report.write_json(content, path)
    data = json.loads(path.read_text())
    assert data["order"][0] == "<oac> & co"
    assert data["agents"]["very_hard"]["elo"] == 1000
    first, last = data["win_rate"][0][2], data["win_rate"][2][0]
    assert first + last == pytest.approx(1)
    assert data["win_rate"][0][0] is None
    assert data["games"][0] == [0, 36, 36]
    cells = data["race_win_rate"][0][1]
    assert data["win_rate"][0][1] == pytest.approx(sum(map(sum, cells)) / 9, abs=1e-5)
    assert len(data["paper"]) == 11
    assert data["transitivity"]["freedom"] == 1
    assert min(part["shortest"] for part in data["game_minutes"].values()) == (
        pytest.approx(5000 / 22.4 / 60)
    )


def test_markdown_shows_the_results_in_the_papers_form(content):
    text = report.markdown(content)
    assert "| Agent | Robustness | 95% | Elo | 95% | vs anchor | Games |" in text
    assert "| very_hard |" in text
    assert (
        "| MuZero Supervised with MCTS at inference time | 50% | 1578 | 95% |" in text
    )
    for heading in ("Win rates, %", "Win rates by race, %", "Game lengths, minutes"):
        assert f"## {heading}" in text


def test_forms_are_the_same_bytes_again(content, tmp_path):
    again = make(tmp_path)
    assert report.markdown(again) == report.markdown(content)
    assert page.render(again, tmp_path) == page.render(content, tmp_path)


def test_page_fetches_nothing_and_balances(content, tmp_path):
    text = page.render(content, tmp_path)
    for word in ("http://", "https://", "<link", "@import", " src="):
        assert word not in text
    assert "<oac>" not in text

    class Balance(html.parser.HTMLParser):
        open_tags: list[str] = []

        def handle_starttag(self, tag, attributes):
            if tag not in ("meta", "br", "line", "rect", "circle"):
                self.open_tags.append(tag)

        def handle_endtag(self, tag):
            if tag not in ("line", "rect", "circle"):
                assert self.open_tags.pop() == tag

    parser = Balance()
    parser.feed(text)
    assert parser.open_tags == []


def test_saturated_and_unlinked_agents_are_shown_as_such(tmp_path):
    games = [
        *tournaments.play({"very_hard": 1000.0, "p": 1000.0}, 18, 2),
        *tournaments.series("god", "very_hard", won=9),
        *tournaments.series("worm", "very_hard", won=0, lost=9),
        *tournaments.series("x", "y", won=1, lost=1),
    ]
    content = make(tmp_path, games)
    order = [line.agent for line in content.lines]
    assert (order[0], order[-3], order[-2:]) == ("god", "worm", ["x", "y"])
    rows = {row[0]: row for row in report.table_rows(content.lines)}
    assert rows["god"][3].startswith("> ")
    assert rows["worm"][3].startswith("< ")
    assert rows["x"][3] == "unrated"
    text = page.render(content, tmp_path)
    assert "saturated" in text
    assert "no chain of games" in text


def test_results_without_single_games_still_make_a_page(tmp_path):
    table = winrates.tabulate(tournaments.play(RATINGS, 9, 1))
    content = report.build(table, standings.standings(table))
    assert "The lengths of these games are unknown" in page.render(content, tmp_path)
    assert "Game lengths" not in report.markdown(content)


def test_an_anchor_that_did_not_play_leaves_the_test_out(tmp_path):
    table = winrates.tabulate(tournaments.play({"p": 0.0, "bc": 0.0}, 9, 1))
    lines = standings.standings(table, references={"bc": 1380.0})
    assert "Not tested" in report.markdown(report.build(table, lines))


@pytest.mark.browser
def test_numbers_are_read_off_the_page_in_a_real_browser(browser, content, tmp_path):
    path = tmp_path / "pages/report.html"
    page.write_html(content, path)
    browser.get(path.as_uri())
    assert browser.title == "A test"

    def texts(selector):
        answer = browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map(x => x.innerText)",
            selector,
        )
        return [text.strip() for text in answer]

    cells = texts("#results tbody td")
    width = len(report.HEADINGS)
    rows = [tuple(cells[i : i + width]) for i in range(0, len(cells), width)]
    assert rows == report.table_rows(content.lines)
    shown = texts("#matrix .heat")
    rates = content.table.win_rate.ravel()
    assert shown == ["" if rate != rate else f"{100 * rate:.0f}" for rate in rates]
    assert len(texts("#race-matrix .heat")) == 9 * len(content.lines) ** 2
    assert "Median" in texts("#lengths")[0]
    assert len(texts("#games tbody tr")) == len(content.games)
    links = browser.execute_script(
        "return [...document.querySelectorAll('#games a')].map(x => x.getAttribute('href'))"
    )
    assert len(links) == 2 * len(content.games)
    assert links[:2] == [
        f"../watch/{content.games[0].game}.html",
        "../replays/00000.SC2Replay",
    ]
    dots = browser.execute_script(
        "return [...document.querySelectorAll('#ratings .dot')].map(x => x.cx.baseVal.value)"
    )
    assert dots == sorted(dots, reverse=True)  # best first, further right

    def colours():
        return browser.execute_script(
            "const s = x => getComputedStyle(x).backgroundColor;"
            "return [s(document.body), ...[...document.querySelectorAll('#matrix .heat')]"
            ".map(s)]"
        )

    light = colours()
    browser.execute_script("document.getElementById('theme').click()")
    dark = colours()
    assert light[0] != dark[0]
    assert len(set(light)) > 3  # the heat map has more than one colour
    assert browser.execute_script("return document.documentElement.scrollWidth") <= (
        browser.execute_script("return window.innerWidth")
    )
