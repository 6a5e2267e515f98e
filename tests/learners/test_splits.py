"""Which episodes are trained on and which are held out; batches stay within them."""

import dataclasses

import numpy as np
import pytest

from starmill.learners import presets, rollouts, splits
from starmill.schema import errors
from tests.factories import small_agents


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_agents.write_dataset(tmp_path_factory.mktemp("data"))


def test_games_held_out_are_not_trained_on(data):
    run = small_agents.run("bc", hold_out=500)
    trained = set(splits.training_games(run, data).table["episode_id"].to_pylist())
    held = set(
        splits.held_out_episodes(run, data, ["test"]).table["episode_id"].to_pylist()
    )
    tested = set(data.filter(split="test").table["episode_id"].to_pylist())
    everyone = set(data.table["episode_id"].to_pylist())
    assert tested < held
    assert trained
    assert trained.isdisjoint(held)
    assert trained | held == everyone
    outcome = splits.training_games(run, data).metas[0].outcome
    choice = splits.training_episodes(dataclasses.replace(run, outcome=outcome), data)
    assert set(choice.table["episode_id"].to_pylist()) <= trained
    without = splits.held_out_episodes(small_agents.run("bc"), data, ["test"])
    assert set(without.table["episode_id"].to_pylist()) == tested
    with pytest.raises(errors.ConfigError, match="trained on"):
        splits.held_out_episodes(run, data, ["test", "train"])


def test_without_held_out_games_there_is_nothing_to_evaluate_on(data):
    run, train_only = small_agents.run("bc"), data.filter(split="train")
    assert splits.held_out_episodes(run, train_only, ["test"]) is None
    # What there is counts: the dataset has no validation split.
    both = splits.held_out_episodes(run, data, ["valid", "test"])
    assert len(both) == len(data.filter(split="test"))
    holding_out = dataclasses.replace(run, hold_out=500)
    assert splits.held_out_episodes(holding_out, train_only, ["test"]) is not None


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["test", "train"], "trained on 'train'"),
        (["tset"], r"expected some of \('valid', 'test'\), found 'tset'"),
    ],
)
def test_wrong_splits_are_refused(data, names, message):
    with pytest.raises(errors.ConfigError, match=message):
        splits.held_out_episodes(small_agents.run("bc"), data, names)


def test_not_all_games_can_be_held_out():
    with pytest.raises(errors.ConfigError, match="hold_out: expected 0 to 999"):
        small_agents.run("bc", hold_out=1000)


@pytest.mark.parametrize("name", ["bc", "oac", "mzs"])
def test_rollouts_stay_in_their_episode(name, data):
    run = small_agents.run(name)
    iterator = splits.batches(run, data)
    for _ in range(20):
        batch = rollouts.prepare(next(iterator), small_agents.SETTINGS)
        assert batch["step_type"].shape == (4, 4)
        for row in range(4):
            valid = batch["valid"][row]
            assert valid.any()
            assert len(set(batch["episode"][row][valid].tolist())) == 1
            steps = batch["step"][row][valid]
            np.testing.assert_array_equal(np.diff(steps), 1)


def test_consecutive_rollouts_go_on_where_they_ended(data):
    run = small_agents.run("e-oac")
    iterator = splits.batches(run, data)
    before = None
    for _ in range(10):
        batch = rollouts.prepare(
            next(iterator), small_agents.SETTINGS, rollouts.Cut(consecutive=True)
        )
        if before is not None:
            # One step of overlap: the last of one rollout is the first of the next.
            for key in ("episode", "step", "game_loop", "prev_function"):
                np.testing.assert_array_equal(before[key][:, -1], batch[key][:, 0])
        before = batch


def test_each_batch_of_an_update_goes_on_where_it_ended(data):
    """Batch n of two an update continues batch n - 2: the traces take turns like that."""
    run = small_agents.run("e-oac", accumulate=2, batch_size=2)
    overlap = run.algorithm.overlap
    iterator = splits.batches(run, data)
    cut = splits.cut(run)
    result = [
        rollouts.prepare(next(iterator), small_agents.SETTINGS, cut) for _ in range(6)
    ]
    for before, after in zip(result, result[2:], strict=False):
        for key in ("episode", "step", "game_loop"):
            # A rollout begins with the step that the one before it ends with.
            np.testing.assert_array_equal(
                before[key][:, -overlap:], after[key][:, :overlap], err_msg=key
            )
    places = [
        set(zip(one["episode"][:, 0], one["step"][:, 0], strict=True))
        for one in result[:2]
    ]
    assert places[0].isdisjoint(places[1])


def test_mzs_reads_the_steps_ahead_and_nothing_between(data):
    run = small_agents.run("mzs", bootstrap=True, ahead=9, batch_size=16)
    arrays = next(splits.batches(run, data))
    assert arrays["step_type"].shape == (16, 2 * 5)  # K + 1 steps, twice
    batch = rollouts.prepare(arrays, small_agents.SETTINGS, splits.cut(run))
    later = batch["ahead"]
    assert later["step"].shape == batch["step"].shape == (16, 4)
    distance = later["step"] - batch["step"]
    # Rows that keep the first step of an episode look one step farther.
    expected = np.where(batch["step"][:, :1] == 0, 10, 9)
    lengths = np.asarray(data.table["steps"])[batch["episode"]]
    reached = batch["step"] + expected < lengths
    assert 0 < reached.sum() < reached.size
    np.testing.assert_array_equal(later["valid"], reached)
    np.testing.assert_array_equal(
        distance[reached], np.broadcast_to(expected, distance.shape)[reached]
    )
    np.testing.assert_array_equal(later["episode"][reached], batch["episode"][reached])


def test_mzs_at_the_papers_scale_counts_what_it_predicts():
    run = presets.run("mzs", "full")
    assert run.frames_per_update == 64 * 8 * 6 == 3072
    assert run.algorithm.ahead == 512
