import numpy as np
import pytest

from starmill.benchmark.games import throttle
from starmill.schema import errors


def test_no_window_ever_holds_more_than_the_limit():
    limit = throttle.Limit(actions=22, loops=112)
    one, loops, loop = throttle.Throttle(limit), [], 0
    generator = np.random.default_rng(0)
    for _ in range(2000):
        loops.append(loop)
        one.note(loop)
        loop = one.earliest(loop + int(generator.integers(1, 8)))
    loops = np.array(loops)
    for start in range(0, loops[-1], 7):
        assert ((loops >= start) & (loops < start + 112)).sum() <= 22


def test_a_slow_player_is_never_held_back():
    one = throttle.Throttle(throttle.Limit())
    for loop in range(0, 5000, 6):  # 18.7 in five seconds
        assert one.earliest(loop) == loop
        one.note(loop)


def test_the_next_slot_is_when_the_oldest_leaves_the_window():
    one = throttle.Throttle(throttle.Limit(actions=3, loops=10))
    for loop in (0, 1, 2):
        one.note(loop)
    assert one.earliest(3) == 10
    assert one.earliest(12) == 12


def test_a_limit_that_forbids_everything_is_refused():
    with pytest.raises(errors.ConfigError, match="throttle"):
        throttle.Limit(actions=0)
