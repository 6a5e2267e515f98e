import dataclasses

import pytest

from starmill.benchmark.ratings import results
from starmill.schema import errors

HEAD = "home,away,home_race,away_race,outcome\n"


def result(number, **changes):
    row = results.Result(
        game=f"bc-vs-very_hard-{number:04d}",
        home="bc",
        away="very_hard",
        home_race="zerg",
        away_race="terran",
        outcome=1,
        home_digest="sha256:00",
        away_digest="built-in",
        map_name="Acropolis",
        seed=7,
        game_loops=12000,
        ending="won",
        attempts=1,
        engine="skirmish 1.0",
        replay=f"replays/{number:05d}.SC2Replay",
    )
    return dataclasses.replace(row, **changes)


def written(tmp_path, text):
    path = tmp_path / "results.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_plain_csv_is_read_in_order(tmp_path):
    path = written(tmp_path, HEAD + "p,q,Zerg,terran,1\nq,p,protoss,ZERG,-1\n\n")
    games = results.read_games(path)
    assert [(g.home, g.home_race, g.outcome) for g in games] == [
        ("p", "zerg", 1),
        ("q", "protoss", -1),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + HEAD + "p,q,zerg,zerg,1\n",
        HEAD.replace("\n", "\r\n") + "p,q,zerg,zerg,1\r\n",
        "note,outcome,away,home,away_race,home_race\n,+1, q ,p,zerg,zerg\n",
        HEAD + '"p","q","zerg","zerg","1.0"',
    ],
)
def test_what_spreadsheets_make_of_it_is_read_too(tmp_path, text):
    (game,) = results.read_games(written(tmp_path, text))
    assert (game.home, game.away, game.outcome) == ("p", "q", 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected columns home, away"),
        ("\n", "expected columns"),
        (HEAD, "at least one game"),
        ("home,away,outcome\np,q,1\n", "missing home_race, away_race"),
        ("home," + HEAD + "x,p,q,zerg,zerg,1\n", "named twice: home"),
        (HEAD + "p,q,zerg,zerg\n", "line 2: expected 5 values, found 4"),
        (HEAD + "p,q,zerg,zerg,1,9\n", "expected 5 values, found 6"),
        (HEAD + "p,q,zerg,zerg,win\n", "line 2: outcome: expected 1, 0 or -1.*'win'"),
        (HEAD + "p,q,zerg,zerg,nan\n", "outcome"),
        (HEAD + "p,q,zerg,zerg,0.5\n", "outcome"),
        (HEAD + "p,q,zerg,zerg,2\n", "outcome"),
        (HEAD + "p,q,zerg,zerg,\n", "outcome"),
        (HEAD + "p,q,random,zerg,1\n", "home_race: expected one of terran"),
        (HEAD + ",q,zerg,zerg,1\n", "home: expected an agent's name"),
        (HEAD + "p,  ,zerg,zerg,1\n", "away: expected an agent's name"),
        (HEAD + 'p,"q,zerg,zerg,1\n', "line 2"),
        (b"\xff\xfeh\x00o\x00", "expected CSV in UTF-8"),
        (b"PK\x03\x04\x00\x00\x91", "UTF-8"),
        (HEAD + "p,q,zerg,zerg,1\n" + "p,q,zerg,zerg,x\n" * 12, "and 2 more"),
    ],
)
def test_hostile_files_are_refused_with_the_reason(tmp_path, text, message):
    with pytest.raises(errors.FormatError, match=message):
        results.read_games(written(tmp_path, text))


@pytest.mark.parametrize("where", ["missing.csv", "."])
def test_what_is_no_file_is_refused(tmp_path, where):
    with pytest.raises(errors.ConfigError, match="cannot be read"):
        results.read_games(tmp_path / where)


def test_a_game_given_twice_is_refused(tmp_path):
    text = "game," + HEAD + "4,p,q,zerg,zerg,1\n5,p,q,zerg,zerg,1\n4,p,q,zerg,zerg,1\n"
    with pytest.raises(errors.FormatError, match="game '4' is on line 2 already"):
        results.read_games(written(tmp_path, text))


def test_rows_come_back_as_appended(tmp_path):
    path = tmp_path / "results.csv"
    rows = [result(0), result(1, home='odd, "name"', outcome=0), result(2, replay="")]
    with results.Store(path) as store:
        for row in rows:
            store.append(row)
    assert results.read_results(path) == rows
    assert results.has_columns(path)
    with results.Store(path) as store:
        assert store.done == {row.game: row for row in rows}


def test_a_row_cut_short_is_dropped_and_the_rest_kept(tmp_path):
    path = tmp_path / "results.csv"
    with results.Store(path) as store:
        store.append(result(0))
        store.append(result(1))
    whole = path.read_bytes()
    for cut in range(len(whole) - 1, 0, -7):
        path.write_bytes(whole[:cut])
        with results.Store(path) as store:
            kept = list(store.done.values())
            for row in (result(0), result(1)):
                if row.game not in store.done:
                    store.append(row)
        assert kept == [result(0), result(1)][: len(kept)]
        assert path.read_bytes() == whole


def test_the_same_game_is_not_appended_twice(tmp_path):
    with results.Store(tmp_path / "results.csv") as store:
        store.append(result(3))
        with pytest.raises(errors.ConfigError, match="very_hard-0003"):
            store.append(result(3))


def test_a_file_of_something_else_is_not_appended_to(tmp_path):
    path = written(tmp_path, HEAD + "p,q,zerg,zerg,1\n" * 20)
    with pytest.raises(errors.FormatError, match="not written by"):
        results.Store(path)
    assert not results.has_columns(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"game": "../../outside"},
        {"game": "a/b"},
        {"game": "/tmp/page"},
        {"game": ".."},
        {"game": "C:\\x"},
        {"game": ""},
        {"replay": "../../etc/passwd"},
        {"replay": "/etc/passwd"},
        {"replay": "replays/../../x"},
        {"replay": "replays\\..\\x"},
        {"replay": "file:///etc/passwd"},
    ],
)
def test_results_cannot_name_files_outside_their_folder(tmp_path, changes):
    """A game's id is the name of its page, and its replay is read and served."""
    path = tmp_path / "results.csv"
    results.write_results(path, [result(1), result(2, **changes)])
    with pytest.raises(errors.FormatError, match="line 3: (game|replay): expected"):
        results.read_results(path)


def test_a_game_without_a_replay_is_read(tmp_path):
    path = tmp_path / "results.csv"
    results.write_results(path, [result(1, replay="")])
    assert results.read_results(path) == [result(1, replay="")]
