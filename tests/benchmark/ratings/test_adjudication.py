from starmill.benchmark.ratings import adjudication, results
from starmill.benchmark.statistics.material import Material
from tests.benchmark.ratings.test_results import result


def material(army, economy):
    return Material(army=army, economy=economy, structures=1)


def test_a_clear_lead_wins_and_a_small_one_does_not():
    small, large = material(100, 900), material(600, 900)
    assert adjudication.outcome(large, small) == 1
    assert adjudication.outcome(small, large) == -1
    assert adjudication.outcome(material(599, 900), small) == 0
    assert adjudication.outcome(material(0, 0), material(0, 0)) == 0
    assert adjudication.outcome(material(1, 0), material(0, 0)) == 1


def test_games_at_the_limit_are_scored_and_others_stay():
    rows = [
        result(0, outcome=1),
        result(1, outcome=0, ending="limit"),
        result(2, outcome=0, ending="limit"),
        result(3, outcome=0, ending="draw"),
        result(4, outcome=0, ending="limit"),
    ]
    ahead = (material(500, 500), material(0, 500))
    known = {rows[i].game: ahead for i in (0, 1, 3)}
    known[rows[4].game] = ahead[::-1]
    scored = adjudication.adjudicate(rows, known)
    assert [(row.outcome, row.ending) for row in scored] == [
        (1, "won"),
        (1, "adjudicated"),
        (0, "limit"),  # nobody knows what the players had
        (0, "draw"),
        (-1, "adjudicated"),
    ]
    assert [row.outcome for row in rows] == [1, 0, 0, 0, 0]
    (pair,) = adjudication.pair_scores(rows, scored)
    assert (pair.agent, pair.opponent) == ("bc", "very_hard")
    assert (pair.strict, pair.adjudicated, pair.scored) == ((1, 4, 0), (2, 2, 1), 2)


def test_adjudicated_results_are_a_file_of_results(tmp_path):
    rows = [result(0), result(1, outcome=1, ending="adjudicated")]
    path = tmp_path / "adjudicated.csv"
    results.write_results(path, rows)
    assert results.read_results(path) == rows
