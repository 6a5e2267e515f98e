import collections

import numpy as np
import pytest

from starmill.schema.loader import samplers

LENGTHS = np.array([5, 17, 1, 64, 30])


def plan(sampler, **overrides):
    options = {
        "sampler": sampler,
        "lanes": 4,
        "rollout": 8,
        "stride": 8,
        "cross_episodes": False,
        "seed": 3,
        **overrides,
    }
    return samplers.SamplingPlan(**options)


def lanes_of(sampler, batches, lanes=4):
    for batch in range(batches):
        yield from sampler.lanes(batch, 0, lanes)


@pytest.mark.parametrize("name", samplers.NAMES)
@pytest.mark.parametrize("rollout", [1, 8, 100])
def test_pieces_lie_within_their_episodes(name, rollout):
    sampler = samplers.make(plan(name, rollout=rollout, stride=rollout), LENGTHS)
    for pieces in lanes_of(sampler, sampler.batches or 20):
        for piece in pieces:
            assert piece.start >= 0
            assert 1 <= piece.length <= rollout
            assert piece.start + piece.length <= LENGTHS[piece.episode]


def test_episode_is_uniform_over_episodes_then_starts():
    """Algorithm 1 of the paper, against counts of a long run."""
    sampler = samplers.make(plan("episode", lanes=1000), LENGTHS)
    counts = collections.Counter()
    starts = collections.Counter()
    for ((episode, start, length),) in lanes_of(sampler, 20, 1000):
        counts[episode] += 1
        if episode == 3:
            starts[start] += 1
            assert length == 8
    assert all(abs(counts[e] - 4000) < 250 for e in range(5))
    assert sorted(starts) == list(range(57))  # starts 0 .. T - K
    assert all(abs(count - 4000 / 57) < 45 for count in starts.values())


def test_step_is_uniform_over_starts():
    sampler = samplers.make(plan("step", lanes=1000, rollout=1, stride=1), LENGTHS)
    counts = collections.Counter(
        (piece.episode, piece.start) for (piece,) in lanes_of(sampler, 20, 1000)
    )
    assert len(counts) == LENGTHS.sum()
    expected = 20000 / LENGTHS.sum()
    assert all(abs(count - expected) < 6 * expected**0.5 for count in counts.values())


def test_sequential_reads_every_step_once():
    for cross in (False, True):
        sampler = samplers.make(plan("sequential", cross_episodes=cross), LENGTHS)
        steps = [
            (piece.episode, step)
            for pieces in lanes_of(sampler, sampler.batches)
            for piece in pieces
            for step in range(piece.start, piece.start + piece.length)
        ]
        everything = [(e, t) for e, size in enumerate(LENGTHS) for t in range(size)]
        assert steps == everything
        with_nothing = sampler.lanes(sampler.batches, 0, 4)
        assert with_nothing == [[], [], [], []]


def test_overlapping_windows_reach_every_end():
    sampler = samplers.make(plan("sequential", stride=4), LENGTHS)
    windows = [piece for (piece,) in filter(None, lanes_of(sampler, sampler.batches))]
    by_episode = collections.defaultdict(list)
    for piece in windows:
        by_episode[piece.episode].append(piece)
    for episode, pieces in by_episode.items():
        assert [piece.start for piece in pieces] == [4 * i for i in range(len(pieces))]
        assert pieces[-1].start + pieces[-1].length == LENGTHS[episode]
        # No window lies within the one before it.
        assert len(pieces) == 1 or pieces[-2].start + 8 < LENGTHS[episode]


@pytest.mark.parametrize("cross", [False, True])
def test_consecutive_rollouts_continue_where_they_left(cross):
    sampler = samplers.make(plan("consecutive", lanes=2, cross_episodes=cross), LENGTHS)
    for lane in range(2):
        pieces = [
            piece
            for batch in range(60)
            for piece in sampler.lanes(batch, lane, lane + 1)[0]
        ]
        for before, after in zip(pieces[:-1], pieces[1:], strict=True):
            ends = before.start + before.length == LENGTHS[before.episode]
            if ends:
                assert after.start == 0
            else:
                assert after.episode == before.episode
                assert after.start == before.start + before.length
        if cross:
            assert sum(piece.length for piece in pieces) == 60 * 8
    # Each lane reads all of its share before any of it again.
    shares = [
        {p.episode for b in range(60) for p in sampler.lanes(b, lane, lane + 1)[0]}
        for lane in range(2)
    ]
    assert shares[0] | shares[1] == set(range(5))
    assert not shares[0] & shares[1]


def test_with_fewer_episodes_than_lanes_each_lane_reads_all():
    sampler = samplers.make(plan("consecutive", lanes=9), LENGTHS)
    seen = {p.episode for batch in range(20) for p in sampler.lanes(batch, 8, 9)[0]}
    assert seen == set(range(5))


@pytest.mark.parametrize("name", samplers.NAMES)
def test_batches_depend_on_their_number_alone(name):
    one = samplers.make(plan(name), LENGTHS)
    ahead = [one.lanes(batch, 0, 4) for batch in range(5)]
    two = samplers.make(plan(name), LENGTHS)
    assert [two.lanes(batch, 0, 4) for batch in (4, 0, 2)] == [
        ahead[batch] for batch in (4, 0, 2)
    ]
    # Hosts read their own lanes of the same batches.
    assert two.lanes(1, 0, 2) + two.lanes(1, 2, 4) == ahead[1]


def test_seeds_differ_and_values_are_kept():
    sampler = samplers.make(plan("step"), LENGTHS)
    other = samplers.make(plan("step", seed=4), LENGTHS)
    assert sampler.lanes(0, 0, 4) != other.lanes(0, 0, 4)
    # Literal: a release that draws other windows breaks every run that is resumed.
    assert sampler.lanes(0, 0, 4) == EXPECTED_STEP
    assert samplers.permutation(8, 3, 0).tolist() == EXPECTED_PERMUTATION


EXPECTED_STEP = [[(4, 16, 8)], [(3, 23, 8)], [(4, 0, 8)], [(1, 1, 8)]]
EXPECTED_PERMUTATION = [6, 1, 5, 2, 7, 4, 3, 0]
