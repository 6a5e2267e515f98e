import json

import pytest

from starmill import cli
from tests.factories import tournaments

RATINGS = {"very_hard": 1000.0, "bc": 1120.0, "oac": 1230.0}


def write_csv(path, games):
    lines = ["home,away,home_race,away_race,outcome"]
    lines += [
        f"{g.home},{g.away},{g.home_race},{g.away_race},{g.outcome}" for g in games
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def csv_file(tmp_path):
    return write_csv(tmp_path / "results.csv", tournaments.play(RATINGS, 90, 3))


def test_json_has_what_scripts_rely_on(csv_file, capsys):
    assert cli.main(["rate", str(csv_file), "--anchor", "very_hard", "--json"]) == 0
    out, err = capsys.readouterr()
    agents = json.loads(out)
    assert set(agents) == set(RATINGS)
    for name, true in RATINGS.items():
        line = agents[name]
        assert line["elo_low"] <= line["elo"] <= line["elo_high"]
        assert line["elo"] == pytest.approx(true, abs=90)
        assert line["games"] == 180
        assert 0 <= line["robustness"] <= 1
    assert agents["very_hard"]["elo"] == 1000
    assert agents["very_hard"]["robustness"] == pytest.approx(
        1 - agents["oac"]["versus_anchor"]
    )
    assert err == ""


def test_table_is_printed_best_first(csv_file, capsys):
    assert cli.main(["rate", str(csv_file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["Agent", "oac", "bc", "very_hard"]


def test_another_anchor_only_moves_the_scale(csv_file, capsys):
    collected = []
    for anchor, rating in (("very_hard", "1000"), ("oac", "1500")):
        options = ["--anchor", anchor, "--anchor-elo", rating, "--json"]
        assert cli.main(["rate", str(csv_file), *options]) == 0
        collected.append(json.loads(capsys.readouterr().out))
    one, other = collected
    assert other["oac"]["elo"] == 1500
    gaps = [x["bc"]["elo"] - x["very_hard"]["elo"] for x in (one, other)]
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-6)


def test_bootstrap_is_seeded(csv_file, capsys):
    outputs = []
    for seed in ("1", "1", "2"):
        options = ["--intervals", "bootstrap", "--seed", seed, "--json"]
        assert cli.main(["rate", str(csv_file), *options]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]


def test_references_stay_fixed(csv_file, tmp_path, capsys):
    ratings = tmp_path / "ratings.json"
    ratings.write_text(json.dumps({"very_hard": 1000, "bc": {"elo": 1380.0}}))
    assert (
        cli.main(["rate", str(csv_file), "--references", str(ratings), "--json"]) == 0
    )
    agents = json.loads(capsys.readouterr().out)
    assert (agents["bc"]["elo"], agents["bc"]["status"]) == (1380, "fixed")
    assert agents["oac"]["status"] == "rated"
    assert agents["oac"]["worst_opponent"] in ("bc", "very_hard")


def test_the_papers_ratings_can_be_the_references(csv_file, capsys):
    assert cli.main(["rate", str(csv_file), "--references", "paper", "--json"]) == 0
    agents = json.loads(capsys.readouterr().out)
    assert agents["oac"]["elo"] == 1548


@pytest.mark.parametrize(
    ("games", "agent", "status", "said"),
    [
        (
            tournaments.series("p", "very_hard", won=9),
            "p",
            "saturated above",
            "saturated",
        ),
        (
            tournaments.series("p", "very_hard", won=0, lost=1),
            "p",
            "saturated below",
            "saturated",
        ),
        (
            tournaments.series("p", "very_hard", won=0, drawn=4),
            "p",
            "rated",
            "fewer than 9 race pairs against very_hard (1)",
        ),
        (
            tournaments.series("p", "very_hard", won=1, lost=1)
            + tournaments.series("x", "y", won=1, lost=1),
            "x",
            "unlinked",
            "no chain of games leads to very_hard",
        ),
    ],
)
def test_edge_cases_are_said(games, agent, status, said, tmp_path, capsys):
    path = write_csv(tmp_path / "results.csv", games)
    assert cli.main(["rate", str(path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)[agent]["status"] == status
    assert any(
        line.startswith(f"{agent}: ") and said in line for line in err.splitlines()
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--anchor", "nobody"], "no games of 'nobody'"),
        (["--references", "absent.json"], "cannot be read"),
        (["--intervals", "bootstrap", "--anchor", "x"], "no games of 'x'"),
    ],
)
def test_requests_that_make_no_sense_exit_2(csv_file, options, message, capsys):
    assert cli.main(["rate", str(csv_file), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "expected JSON"),
        ("[1]", "an object of agent: elo"),
        ('{"very_hard": "high"}', "very_hard: expected a finite number"),
        ('{"very_hard": NaN}', "finite"),
        ('{"someone": 1000}', "none of the reference agents played"),
    ],
)
def test_bad_references_exit_2(csv_file, tmp_path, text, message, capsys):
    ratings = tmp_path / "ratings.json"
    ratings.write_text(text)
    assert cli.main(["rate", str(csv_file), "--references", str(ratings)]) == 2
    assert message in capsys.readouterr().err


def test_an_unreadable_file_exits_2(tmp_path, capsys):
    assert cli.main(["rate", str(tmp_path / "none.csv")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_reports_are_written(csv_file, tmp_path):
    page, text = tmp_path / "out/report.html", tmp_path / "report.md"
    options = ["--html", str(page), "--markdown", str(text)]
    assert cli.main(["rate", str(csv_file), *options]) == 0
    assert "<title>Evaluation</title>" in page.read_text()
    assert "| oac |" in text.read_text()


def test_results_without_the_usual_anchor_are_rated(tmp_path, capsys):
    """As `evaluate` writes them when very_hard was no opponent."""
    games = tournaments.play({"bc": 1000.0, "oac": 1100.0}, 90, 3)
    path = write_csv(tmp_path / "results.csv", games)
    assert cli.main(["rate", str(path), "--json"]) == 0
    agents = json.loads(capsys.readouterr().out)
    assert (games[0].away, agents[games[0].away]["status"]) == ("oac", "fixed")
    assert agents["oac"]["elo"] == 1000
    assert agents["bc"]["elo"] < 1000
