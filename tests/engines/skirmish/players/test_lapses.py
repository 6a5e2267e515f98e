from starmill.engines.skirmish.players import lapses
from starmill.engines.skirmish.players.dice import Dice


class CountingDice(Dice):
    """Dice that count their throws."""

    def __init__(self, seed):
        super().__init__(seed)
        self.throws = 0

    def below(self, limit):
        self.throws += 1
        return super().below(limit)

    def unit(self):
        self.throws += 1
        return super().unit()


def _forgotten(mean_loops, *, pause=14, loops=3_000_000):
    """Lengths of the lapses of one concern, and the share of looks within one."""
    memory, dice = lapses.Lapses(mean_loops), Dice(7)
    lengths, run, missed, looks = [], 0, 0, 0
    for loop in range(0, loops, pause):
        memory.look(loop, dice)
        looks += 1
        if memory.attends(lapses.GAS, loop):
            if run:
                lengths.append(run * pause)
            run = 0
        else:
            run += 1
            missed += 1
    return lengths, missed / looks


def test_a_lapse_lasts_ten_to_sixty_seconds_and_ends():
    lengths, _ = _forgotten(20_000, loops=2_000_000)
    assert len(lengths) > 0
    assert all(10 * 22 <= length <= 61 * 23 for length in lengths)


def test_more_lapses_mean_more_forgotten_however_often_the_bot_looks():
    _, rarely = _forgotten(1600)
    _, often = _forgotten(200)
    _, slowly = _forgotten(200, pause=100)
    # A concern is forgotten for a seventh of 784 loops in 1,600; in 200, lapses overlap.
    assert 0.055 < rarely < 0.085
    assert 0.38 < often < 0.48
    assert abs(often - slowly) < 0.05


def test_who_forgets_nothing_throws_no_dice():
    memory, dice = lapses.Lapses(0), CountingDice(1)
    for loop in range(0, 5000, 10):
        memory.look(loop, dice)
        assert all(memory.attends(concern, loop) for concern in lapses.CONCERNS)
    assert dice.throws == 0
