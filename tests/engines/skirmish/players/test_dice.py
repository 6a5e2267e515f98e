import pytest

from starmill.engines.skirmish.players.dice import Dice

# Worked out once with integers alone. If they change, old seeds play other games.
DICE_OF_SEVEN = [729, 380, 309, 453, 900]


def test_draws_are_fixed_numbers() -> None:
    dice = Dice(7)
    assert [dice.below(1000) for _ in range(5)] == DICE_OF_SEVEN


def test_seeds_differ_and_are_taken_modulo_2_to_the_64() -> None:
    assert Dice(1).below(1 << 50) != Dice(2).below(1 << 50)
    assert Dice(-1).below(1 << 50) == Dice((1 << 64) - 1).below(1 << 50)


def test_numbers_are_spread_evenly() -> None:
    dice = Dice(3)
    counts = [0] * 6
    for _ in range(6000):
        counts[dice.below(6)] += 1
    assert all(900 < count < 1100 for count in counts)
    values = [dice.unit() for _ in range(6000)]
    assert min(values) >= 0.0 and max(values) < 1.0
    assert sum(values) / 6000 == pytest.approx(0.5, abs=0.02)
    hits = sum(dice.chance(0.2) for _ in range(6000))
    assert hits == pytest.approx(1200, abs=120)
    assert not any(dice.chance(0.0) for _ in range(100))
