import numpy as np
import pytest

import starmill
from starmill.schema import errors
from tests.factories import records


@pytest.fixture(scope="module")
def originals():
    return [records.episode(seed, steps=30 + 5 * seed) for seed in range(4)]


@pytest.fixture(scope="module")
def opened(tmp_path_factory, originals):
    path = tmp_path_factory.mktemp("lazy")
    records.dataset(str(path), originals)
    return starmill.open_dataset(path)


@pytest.fixture
def pair(opened, originals):
    """A stored episode of 45 steps, in two chunks, and what was stored."""
    (original,) = [item for item in originals if item.meta.steps == 45]
    return opened.find(original.meta.episode_id), original


def test_an_episode_is_what_was_stored(pair):
    episode, original = pair
    assert episode.meta == original.meta
    assert len(episode) == 45
    loaded = episode.load()
    assert loaded.meta == original.meta
    assert loaded.arrays.keys() == original.arrays.keys()
    for key, array in original.arrays.items():
        assert key in episode
        np.testing.assert_array_equal(episode[key], array)
        np.testing.assert_array_equal(loaded.arrays[key], array)


def test_derived_arrays_by_a_loop(pair):
    episode, original = pair
    delay = original.arrays["action/delay"].tolist()
    steps = len(delay)
    reward, previous, kind = [], [], []
    for t in range(steps):
        reward.append(original.meta.outcome if t == steps - 1 else 0)
        previous.append(delay[t - 1] if t else 0)
        kind.append({0: 0, steps - 1: 2}.get(t, 1))
    for key, expected in (
        ("reward", reward),
        ("prev_delay", previous),
        ("step_type", kind),
    ):
        assert episode[key].tolist() == expected
        # Windows that begin and end inside a chunk, at its edge, and beyond it.
        for start, stop in ((0, 1), (7, 9), (32, 33), (31, 45), (44, 45)):
            assert episode[start:stop][key].tolist() == expected[start:stop]


def test_slices_follow_python(pair):
    episode, original = pair
    mmr = original.arrays["game_loop"]
    for item in (
        slice(None),
        slice(3, 40),
        slice(-5, None),
        slice(None, -40),
        slice(40, 1000),
        slice(9, 9),
        slice(20, 10),
    ):
        window = episode[item]
        assert set(window) == set(episode.keys())
        np.testing.assert_array_equal(window["game_loop"], mmr[item])
        assert all(len(array) == len(mmr[item]) for array in window.values())


def test_requests_that_make_no_sense_are_refused(pair):
    episode, _ = pair
    with pytest.raises(errors.ConfigError, match=r"'rewrd': .* did you mean 'reward'"):
        episode["rewrd"]
    with pytest.raises(errors.ConfigError, match="steps 40:46: the episode has 45"):
        episode.read(40, 46)
    with pytest.raises(errors.ConfigError, match="expected stride 1, found 2"):
        episode[::2]
    with pytest.raises(TypeError, match=r"name of an array or a slice .* found 3"):
        episode[3]
    with pytest.raises(TypeError, match="not iterable"):
        iter(episode)
    assert "rewrd" not in episode


def test_its_repr_is_short(pair):
    episode, original = pair
    text = repr(episode)
    assert original.meta.replay_id[:8] in text
    assert original.meta.race in text
    assert "45 steps" in text
    assert len(text) < 120
