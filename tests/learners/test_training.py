"""Whole runs: resume bit for bit, accumulation, devices, NaN, refusals, and acting after."""

import dataclasses
import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from starmill.learners import acting, checkpoint, prediction, runs, training
from starmill.schema import errors
from tests.conftest import ROOT
from tests.factories import small_agents


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_agents.write_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def cloned(data, tmp_path_factory):
    """A finished behaviour cloning run."""
    folder = tmp_path_factory.mktemp("runs") / "bc"
    training.train(small_agents.run("bc"), data, folder)
    return folder


def _params(folder):
    _, arrays = checkpoint.load(folder)
    return arrays


def test_a_run_leaves_what_it_should(cloned, data):
    meta = checkpoint.open_meta(cloned)
    assert (meta.update, meta.frames) == (6, 96)
    assert meta.dataset == data.reference
    assert meta.max_mmr == max(
        row.mmr for row in training.training_data(small_agents.run("bc"), data).metas
    )
    assert runs.from_json(meta.run) == small_agents.run("bc")
    assert set(meta.sampler) == {"position", "options", "dataset"}
    names = {path.name for path in cloned.iterdir()}
    assert {"run.json", "metrics.csv", "curves.svg", "checkpoints"} <= names
    rows = (cloned / "metrics.csv").read_text().splitlines()
    assert len(rows) == 1 + 6


@pytest.mark.parametrize("agent_name", ["bc", "eoac"])
def test_a_stopped_run_goes_on_bit_for_bit(agent_name, data, cloned, tmp_path):
    run = small_agents.run(agent_name)
    init = cloned if agent_name == "eoac" else None
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    if agent_name == "bc":
        whole = cloned
    else:
        training.train(run, data, whole, init=init)
    # Stopped after a save and one update more, which is done again.
    training.train(run, data, parts, init=init, stop_after=4)
    assert checkpoint.open_meta(parts).update == 4
    summary = training.train(run, data, parts, init=init)
    assert summary.new_frames == 2 * run.frames_per_update
    ours, theirs = _params(whole), _params(parts)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    assert (whole / "metrics.csv").read_bytes() == (parts / "metrics.csv").read_bytes()


@pytest.mark.parametrize("name", ["bc", "oac", "mzs"])
def test_rollouts_stay_in_their_episode(name, data):
    run = small_agents.run(name)
    iterator = training.batches(run, data)
    for _ in range(20):
        batch = training.rollouts.prepare(next(iterator), small_agents.SETTINGS)
        assert batch["step_type"].shape == (4, 4)
        for row in range(4):
            valid = batch["valid"][row]
            assert valid.any()
            assert len(set(batch["episode"][row][valid].tolist())) == 1
            steps = batch["step"][row][valid]
            np.testing.assert_array_equal(np.diff(steps), 1)


def test_consecutive_rollouts_go_on_where_they_ended(data):
    run = small_agents.run("eoac")
    iterator = training.batches(run, data)
    before = None
    for _ in range(10):
        batch = training.rollouts.prepare(
            next(iterator), small_agents.SETTINGS, consecutive=True
        )
        if before is not None:
            # One step of overlap: the last of one rollout is the first of the next.
            for key in ("episode", "step", "game_loop", "prev_function"):
                np.testing.assert_array_equal(before[key][:, -1], batch[key][:, 0])
        before = batch


def test_accumulated_batches_are_one_large_batch():
    """Gradients of halves add up to the whole's."""
    whole = training.Learner(small_agents.run("bc", batch_size=8), 1)
    halves = training.Learner(small_agents.run("bc", batch_size=4, accumulate=2), 1)
    batch = small_agents.batch(size=8, steps=4)
    parts = [
        {name: value[half] for name, value in batch.items()}
        for half in (slice(0, 4), slice(4, 8))
    ]
    one, metrics = whole.update(whole.init(), [batch], 1)
    two, summed = halves.update(halves.init(), parts, 1)
    np.testing.assert_allclose(metrics["loss"], summed["loss"], rtol=1e-5)
    # Adam's mean after one update is the gradient, clipped. Parameters would not do: where
    # a gradient is 0 but for rounding, its sign decides.
    ours, theirs = one.optimizer[1].mu, two.optimizer[1].mu
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert max(float(abs(leaf).max()) for leaf in jax.tree.leaves(ours)) > 0.05


def test_not_a_number_stops_the_run_and_keeps_the_batch(data, tmp_path, monkeypatch):
    good = training.rollouts.prepare

    def bad(arrays, settings, *, consecutive=False):
        made = good(arrays, settings, consecutive=consecutive)
        if bad.calls == 4:
            made["outcome"] = np.full_like(made["outcome"], np.nan, np.float32)
        bad.calls += 1
        return made

    bad.calls = 0
    monkeypatch.setattr(training.rollouts, "prepare", bad)
    summary = training.train(small_agents.run("bc"), data, tmp_path / "run")
    assert "update 5" in summary.problem
    assert "loss" in summary.problem
    with np.load(tmp_path / "run" / "not-finite-00000005.npz") as kept:
        assert np.isnan(kept["0/outcome"]).all()
    assert checkpoint.open_meta(tmp_path / "run").update == 3


def test_another_run_in_the_folder_is_refused(cloned, data):
    other = small_agents.run("bc", learning_rate=0.5)
    with pytest.raises(errors.ConfigError, match=r"learning_rate: 0.001 -> 0.5"):
        training.train(other, data, cloned)


def test_another_dataset_is_refused(cloned, tmp_path):
    other = small_agents.write_dataset(tmp_path / "other", episodes=6)
    with pytest.raises(errors.ManifestMismatch, match="holds a run on small@1.0.0#"):
        training.train(small_agents.run("bc"), other, cloned)
    meta = checkpoint.open_meta(cloned)
    with pytest.raises(errors.ManifestMismatch, match="was trained on small"):
        checkpoint.check_dataset(meta, other.reference)


def test_another_schema_is_refused_with_the_difference(cloned):
    meta = checkpoint.open_meta(cloned)
    wider = dataclasses.replace(small_agents.SETTINGS, num_unit_types=21)
    with pytest.raises(errors.ManifestMismatch, match=r"unit_counts_bow.*20.*21"):
        checkpoint.check_schema(meta, wider)


def test_settings_must_be_the_datasets(data, tmp_path):
    wider = dataclasses.replace(small_agents.SETTINGS, num_unit_types=21)
    with pytest.raises(errors.ManifestMismatch, match="num_unit_types: 20 -> 21"):
        training.train(small_agents.run("bc", settings=wider), data, tmp_path / "run")


def test_improvers_need_something_to_improve(data, tmp_path):
    with pytest.raises(errors.ConfigError, match="--init"):
        training.train(small_agents.run("oac"), data, tmp_path / "run")


def test_another_networks_parameters_are_refused(cloned, data, tmp_path):
    wide = dataclasses.replace(small_agents.NETWORK, vector=24)
    with pytest.raises(errors.ManifestMismatch, match="another network"):
        training.train(
            small_agents.run("ft-bc", network=wide, outcome=None),
            data,
            tmp_path / "run",
            init=cloned,
        )


def test_games_held_out_are_not_trained_on(data):
    run = small_agents.run("bc", hold_out=500)
    trained = set(training.training_games(run, data).table["episode_id"].to_pylist())
    held = set(
        training.held_out_data(run, data, ["test"]).table["episode_id"].to_pylist()
    )
    tested = set(data.filter(split="test").table["episode_id"].to_pylist())
    everyone = set(data.table["episode_id"].to_pylist())
    assert tested < held
    assert trained
    assert trained.isdisjoint(held)
    assert trained | held == everyone
    outcome = training.training_games(run, data).metas[0].outcome
    chosen = training.training_data(dataclasses.replace(run, outcome=outcome), data)
    assert set(chosen.table["episode_id"].to_pylist()) <= trained
    without = training.held_out_data(small_agents.run("bc"), data, ["test"])
    assert set(without.table["episode_id"].to_pylist()) == tested
    with pytest.raises(errors.ConfigError, match="trained on"):
        training.held_out_data(run, data, ["test", "train"])
    with pytest.raises(errors.ConfigError, match="nothing to evaluate on.*--hold-out"):
        training.held_out_data(
            small_agents.run("bc"), data.filter(split="train"), ["test"]
        )
    with pytest.raises(errors.ConfigError, match="hold_out: expected 0 to 999"):
        small_agents.run("bc", hold_out=1000)


def test_a_start_that_saw_the_held_out_games_is_refused(cloned, data, tmp_path):
    run = small_agents.run("ft-bc", outcome=None, hold_out=500)
    with pytest.raises(errors.ConfigError, match="evaluated on games"):
        training.train(run, data, tmp_path / "run", init=cloned)


def test_a_folder_with_other_things_is_refused(data, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(errors.ConfigError, match="empty or new"):
        training.train(small_agents.run("bc"), data, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [n for n in runs.ALGORITHMS if n not in ("bc", "eoac")]
)
def test_every_agent_trains_resumes_and_acts(name, data, cloned, tmp_path):
    init = cloned if name in runs.STARTS_FROM else None
    run = small_agents.run(name, outcome=None)
    training.train(run, data, tmp_path / "run", init=init, stop_after=3)
    summary = training.train(run, data, tmp_path / "run", init=init)
    assert (summary.update, summary.problem) == (6, None)
    player = acting.load(tmp_path / "run")
    player.reset(0, "terran")
    assert (
        player.act(small_agents.observation()).keys()
        == small_agents.ACTION_SPECS.keys()
    )


def test_evaluation_counts_what_was_held_out(cloned, data):
    run = small_agents.run("bc")
    held_out = data.filter(split="test")
    _, arrays = checkpoint.load(cloned)
    like = training.networks.shapes(run.algorithm.network, small_agents.SETTINGS)
    params, _ = checkpoint.graft(arrays, like, prefix="0")
    found = prediction.evaluate(
        params, run.algorithm, held_out, data.filter(split="train"), batch_size=4
    )
    trained = held_out.steps - len(held_out)  # the last steps are left out
    assert found["arguments"]["function"]["actions"] == trained
    function = found["arguments"]["function"]
    assert function["cross_entropy"]["low"] <= function["cross_entropy"]["value"]
    assert function["cross_entropy"]["value"] <= function["cross_entropy"]["high"]
    sums = prediction.network_sums(
        (params, None), run.algorithm, held_out, 4, lambda _: None
    )
    assert sums["function/present"].sum() == trained
    assert sums["delay/present"].sum() == trained
    decided = sum(m.steps for m in held_out.metas if m.outcome != 0)
    halves = sum(
        sums[f"value/{h}/decided"].sum() for h in ("first_half", "second_half")
    )
    assert halves == decided
    assert len(prediction.table_lines(found)) == 2 + 7 + 2
    json.dumps(found)


def test_unigram_is_frequencies(data):
    train_split, held_out = data.filter(split="train"), data.filter(split="test")
    sums = prediction.unigram_sums(train_split, held_out)
    counts = np.zeros(small_agents.FUNCTIONS)
    for one in train_split:
        counts += np.bincount(
            one["action/function"][:-1], minlength=small_agents.FUNCTIONS
        )
    nats = []
    for smoothing in prediction.SMOOTHINGS:
        share = (counts + smoothing) / (counts + smoothing).sum()
        nats.append(
            -sum(np.log(share[one["action/function"][:-1]]).sum() for one in held_out)
        )
    assert sums["function/nats"].sum() == pytest.approx(min(nats))
    right = sum(
        (one["action/function"][:-1] == counts.argmax()).sum() for one in held_out
    )
    assert sums["function/correct"].sum() == right


def test_intervals_resample_games():
    top = np.array([1.0, 1.0, 0.0, 0.0])
    found = prediction.ratio(top, np.ones(4), np.array([0, 0, 1, 1]))
    assert (found.value, found.low, found.high) == (0.5, 0.0, 1.0)


@pytest.mark.slow
def test_four_devices_give_the_same_loss_as_one():
    """In a process of its own: the number of devices is fixed when jax starts."""
    script = """
import json
import jax
jax.config.update("jax_disable_most_optimizations", True)
from starmill.learners import train
from tests.learners import small
batch = small.batch(size=4, steps=4)
found = {}
for agent in ("bc", "eoac"):
    for devices in (1, 4):
        learner = train.Learner(small.run(agent, learning_rate=0.01), devices)
        state, losses = learner.init(), []
        for number in (1, 2, 3):
            state, metrics = learner.update(state, [batch], number)
            losses.append(float(metrics["loss"]))
        found[f"{agent}{devices}"] = losses
print(json.dumps([len(jax.devices()), found]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
        capture_output=True,
        text=True,
        check=True,
    )
    devices, found = json.loads(done.stdout.splitlines()[-1])
    assert devices == 4
    for name in ("bc", "eoac"):
        np.testing.assert_allclose(found[f"{name}1"], found[f"{name}4"], rtol=1e-4)
        assert len(set(found[f"{name}1"])) == 3  # it did train


def test_devices_must_divide_the_batch():
    with pytest.raises(errors.ConfigError, match="divisor of the batch size"):
        training.Learner(small_agents.run("bc"), 99)
