import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import starmill
from starmill.schema import episode, errors
from starmill.schema.loader import batches, samplers
from tests.conftest import ROOT
from tests.factories import records
from tests.factories.datasets import LIGHT, assert_equal_batches, batches_of


def digest_of(batch):
    digest = hashlib.sha256()
    for key in sorted(batch):
        digest.update(key.encode())
        digest.update(np.ascontiguousarray(batch[key]).tobytes())
    return digest.hexdigest()


def digests(iterator, count):
    return [digest_of(next(iterator)) for _ in range(count)]


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("name", samplers.NAMES)
def test_batches_are_what_their_markers_say(opened, name, cross):
    if cross and name in ("episode", "step"):
        pytest.skip("only samplers that keep order can cross episodes")
    iterator = batches_of(
        opened, batch_size=3, rollout=16, seed=1, sampler=name, cross_episodes=cross
    )
    wholes = {}
    padded = ends = 0
    for _, batch in zip(range(6), iterator, strict=False):
        for lane in range(3):
            valid = batch["valid"][lane]
            count = int(valid.sum())
            assert valid[:count].all(), "padding comes at the end"
            numbers = batch["episode"][lane][:count]
            if not cross:
                assert len(set(numbers.tolist())) <= 1
            for k in range(count):
                number, step = int(numbers[k]), int(batch["step"][lane, k])
                whole = wholes.setdefault(number, opened[number][:])
                for key, array in whole.items():
                    np.testing.assert_array_equal(batch[key][lane, k], array[step])
                outcome = opened.metas[number].outcome
                assert batch["outcome"][lane, k] == outcome
                ends += batch["step_type"][lane, k] == episode.LAST
            for key in batch:
                rest = batch[key][lane, count:]
                expected = episode.LAST if key == "step_type" else 0
                assert (rest == expected).all(), key
            padded += 16 - count
    if name in ("consecutive", "sequential"):
        assert ends
        assert padded or cross


def test_single_keys_and_kept_batches(opened):
    options = {"batch_size": 2, "rollout": 4, "seed": 2}
    full = batches_of(opened, **options)
    some = batches_of(opened, **options, keys=["player", "action/function"])
    kept_full = [next(full) for _ in range(5)]
    kept_some = [next(some) for _ in range(5)]
    for one, two in zip(kept_full, kept_some, strict=True):
        assert set(two) == {"player", "action/function", *batches.EXTRAS}
        assert_equal_batches({key: one[key] for key in two}, two)


def test_buffers_are_used_again_once_nobody_looks(opened):
    iterator = batches_of(opened, batch_size=2, rollout=4, seed=2)
    places = set()
    for _ in range(6):
        batch = next(iterator)
        places.add(batch["player"].ctypes.data)
    assert len(places) == 2
    view = batch["player"][0, 1:]
    before = view.copy()
    del batch
    for _ in range(4):
        next(iterator)
    np.testing.assert_array_equal(view, before)


def test_unit_tags_are_shuffled_by_the_seed_and_nothing_else_is(opened):
    options = {"batch_size": 4, "rollout": 8, "sampler": "step"}
    plain = next(batches_of(opened, **options, seed=3))
    mixed = next(batches_of(opened, **options, seed=3, shuffle_unit_tags=True))
    again = next(
        batches_of(opened, **options, seed=3, shuffle_unit_tags=True, workers=1)
    )
    assert_equal_batches(mixed, again)
    tags, before = mixed.pop("action/unit_tags"), plain.pop("action/unit_tags")
    assert_equal_batches(plain, mixed)
    assert (tags != before).any()
    np.testing.assert_array_equal(np.sort(tags, axis=-1), np.sort(before, axis=-1))
    # Padding stays at the end.
    np.testing.assert_array_equal(tags == 48, before == 48)


def test_hosts_share_the_batches(opened):
    for name in samplers.NAMES:
        options = {"rollout": 4, "seed": 5, "sampler": name}
        whole = batches_of(opened, **options, batch_size=6)
        parts = [
            batches_of(opened, **options, batch_size=2, host=host, hosts=3)
            for host in range(3)
        ]
        for _ in range(3):
            together = [next(part) for part in parts]
            joined = {
                key: np.concatenate([part[key] for part in together])
                for key in together[0]
            }
            assert_equal_batches(next(whole), joined)


@pytest.mark.parametrize("name", ["episode", "step", "consecutive"])
def test_resuming_is_exact_over_1000_batches(opened, name):
    options = {
        "batch_size": 2,
        "rollout": 4,
        "seed": 7,
        "sampler": name,
        "keys": LIGHT,
        "shuffle_unit_tags": True,
    }
    whole = digests(batches_of(opened, **options), 1000)
    assert len(set(whole)) > 100
    first = batches_of(opened, **options)
    half = digests(first, 500)
    state = first.get_state()
    assert all(isinstance(value, int) for value in state.values())
    resumed = batches_of(opened, **options, state=state)
    assert half + digests(resumed, 500) == whole


def test_resuming_a_pass_in_order_is_exact(opened):
    options = {"batch_size": 1, "rollout": 1, "sampler": "sequential", "keys": LIGHT}
    whole = [digest_of(batch) for batch in batches_of(opened, **options)]
    assert len(whole) == opened.steps
    first = batches_of(opened, **options)
    half = digests(first, 250)
    resumed = batches_of(opened, **options, state=first.get_state())
    assert half + [digest_of(batch) for batch in resumed] == whole


def test_workers_give_the_same_batches_and_resume_in_any_number(opened):
    options = {
        "batch_size": 2,
        "rollout": 4,
        "seed": 7,
        "sampler": "consecutive",
        "keys": LIGHT,
    }
    whole = digests(batches_of(opened, **options), 60)
    with batches_of(opened, **options, workers=2) as two:
        first = digests(two, 31)
        state = two.get_state()
    with batches_of(opened, **options, workers=1, state=state) as one:
        kept = [next(one) for _ in range(29)]
    assert first + [digest_of(batch) for batch in kept] == whole


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """Episodes of 1,200 steps in all."""
    path = tmp_path_factory.mktemp("long")
    records.dataset(str(path), [records.episode(n, steps=100) for n in range(12)])
    return starmill.open_dataset(str(path))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", samplers.NAMES)
def test_resuming_with_workers_is_exact_over_1000_batches(long, name, workers):
    options = {
        "batch_size": 1,
        "rollout": 1,
        "seed": None if name == "sequential" else 7,
        "sampler": name,
        "keys": LIGHT,
    }
    whole = digests(batches_of(long, **options), 1000)
    with batches_of(long, **options, workers=workers) as first:
        half = digests(first, 500)
        state = first.get_state()
    # The other number of workers goes on.
    with batches_of(long, **options, workers=4 - workers, state=state) as second:
        assert half + digests(second, 500) == whole


def test_states_of_other_iterations_are_refused(opened):
    options = {"batch_size": 2, "rollout": 4, "seed": 7}
    state = batches_of(opened, **options).get_state()
    for other, match in (
        (batches_of(opened, **{**options, "seed": 8}), "other options"),
        (batches_of(opened.filter(outcome=1), **options), "other dataset"),
    ):
        with pytest.raises(errors.ConfigError, match=match):
            other.set_state(state)
    with pytest.raises(errors.ConfigError, match="expected position"):
        batches_of(opened, **options).set_state({"position": 3})


def test_a_worker_that_dies_is_reported(opened):
    iterator = batches_of(
        opened, batch_size=1, rollout=2, seed=0, keys=LIGHT, workers=1
    )
    next(iterator)
    (child,) = [
        process
        for process in multiprocessing.active_children()
        if process.name.startswith("starmill-loader")
    ]
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(
        errors.StarmillError, match="loader worker .* exited .signal 9. before it"
    ):
        for _ in range(20):
            next(iterator)
    iterator.close()


def test_a_worker_of_a_killed_reader_ends_without_a_word(folder):
    """As when `train` is killed. The output ends once the worker, too, has ended."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.schema.loader.read_and_die", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGKILL, "", "")


def test_a_worker_error_reaches_the_reader(tmp_path):
    content = records.dataset(str(tmp_path))
    for entry in content.shards:
        (tmp_path / entry.name).write_bytes(b"")
    opened = starmill.open_dataset(str(tmp_path))
    with (
        batches_of(opened, batch_size=1, rollout=2, seed=0, workers=1) as iterator,
        pytest.raises(errors.ShardCorrupt, match="the file ends at"),
    ):
        next(iterator)
