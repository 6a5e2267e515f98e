import pytest

from starmill.benchmark.ratings import elo, paper


def test_the_printed_table_is_whole():
    lines = paper.agents()
    assert len(lines) == 11
    assert sum(line.reference for line in lines) == 7
    by_name = {line.agent: line for line in lines}
    best = by_name["mzs-mcts"]
    assert (best.robustness, best.elo, best.versus_very_hard) == (0.50, 1578, 0.95)
    assert by_name["very_hard"].elo == elo.ANCHOR_ELO
    assert [line.elo for line in lines[:7]] == sorted(
        (line.elo for line in lines[:7]), reverse=True
    )


@pytest.mark.parametrize("line", paper.agents(), ids=lambda line: line.agent)
def test_printed_elo_and_win_rate_against_very_hard_agree_with_the_model(line):
    # Rounded to whole percents, and the fit serves seven opponents at once: within 3 points.
    # With the printed model's sign every agent but very_hard itself would be 60 points off.
    assert line.expected_versus_very_hard == pytest.approx(
        line.versus_very_hard, abs=0.03
    )


def test_win_rates_in_the_text_agree_with_the_model():
    ratings = {line.agent: line.elo for line in paper.agents()}
    for pair in paper.win_rates():
        expected = elo.win_probability(ratings[pair.home], ratings[pair.away])
        assert expected == pytest.approx(pair.win_rate, abs=0.03)


def test_printed_robustness_is_the_smallest_win_rate_not_one_minus_it():
    # The worst opponent by the model is the best reference; 1 - min would be far off.
    references = paper.reference_ratings()
    for line in paper.agents():
        worst = min(
            float(elo.win_probability(line.elo, rating))
            for name, rating in references.items()
        )
        assert line.robustness == pytest.approx(worst, abs=0.05), line.agent
