"""Whole runs: continued bit for bit, stopped by NaN, refused, and acting afterwards."""

import dataclasses

import numpy as np
import pytest

from starmill.learners import (
    acting,
    agents,
    checkpoint,
    feed,
    rollouts,
    runs,
    splits,
    training,
)
from starmill.schema import errors
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
    meta = checkpoint.load(cloned)[0]
    assert (meta.update, meta.frames) == (6, 96)
    assert meta.dataset == data.reference
    ratings = sorted(
        row.mmr for row in splits.training_episodes(small_agents.run("bc"), data).metas
    )
    # So few episodes that each is a twentieth of them: the highest bucket of 500 counts.
    highest = [one for one in ratings if one // 500 == ratings[-1] // 500]
    assert meta.max_mmr == highest[len(highest) // 2]
    assert runs.from_json(meta.run) == small_agents.run("bc")
    assert set(meta.sampler) == {"position", "options", "dataset"}
    names = {path.name for path in cloned.iterdir()}
    assert {"run.json", "metrics.csv", "checkpoints"} <= names
    rows = (cloned / "metrics.csv").read_text().splitlines()
    assert len(rows) == 1 + 6


def test_an_agent_plays_at_a_rating_that_episodes_have():
    """300 episodes: one at 7000, and five percent or more from 6000 to 6500."""
    ratings = [7000] + [6100] * 10 + [6300] * 11 + [3000] * 278
    assert training.playing_rating(ratings) == 6300
    assert training.playing_rating([]) == 0
    assert training.playing_rating([4200]) == 4200
    assert training.playing_rating([9_000, 12_000, 20_000]) == 12_000


@pytest.mark.parametrize("agent_name", ["bc", "e-oac"])
def test_a_stopped_run_goes_on_bit_for_bit(agent_name, data, cloned, tmp_path):
    run = small_agents.run(agent_name)
    init = cloned if agent_name == "e-oac" else None
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    if agent_name == "bc":
        whole = cloned
    else:
        training.train(run, data, whole, init=init)
    # Stopped one update after a checkpoint; that update is repeated.
    training.train(run, data, parts, init=init, stop_after=4)
    assert checkpoint.load(parts)[0].update == 4
    summary = training.train(run, data, parts, init=init)
    assert summary.new_frames == 2 * run.frames_per_update
    ours, theirs = _params(whole), _params(parts)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    assert (whole / "metrics.csv").read_bytes() == (parts / "metrics.csv").read_bytes()


def test_not_a_number_stops_the_run_and_keeps_the_batch(data, tmp_path, monkeypatch):
    good = rollouts.prepare

    def bad(*arguments, **options):
        result = good(*arguments, **options)
        if bad.calls == 4:
            result["outcome"] = np.full_like(result["outcome"], np.nan, np.float32)
        bad.calls += 1
        return result

    bad.calls = 0
    monkeypatch.setattr(rollouts, "prepare", bad)
    summary = training.train(small_agents.run("bc"), data, tmp_path / "run")
    assert "update 5" in summary.problem
    assert "loss" in summary.problem
    with np.load(tmp_path / "run" / "not-finite-00000005.npz") as kept:
        assert np.isnan(kept["0/outcome"]).all()
    assert checkpoint.load(tmp_path / "run")[0].update == 3


def test_another_run_in_the_folder_is_refused(cloned, data):
    other = small_agents.run("bc", learning_rate=0.5)
    with pytest.raises(errors.ConfigError, match=r"learning_rate: 0.001 -> 0.5"):
        training.train(other, data, cloned)


def test_another_dataset_is_refused(cloned, tmp_path):
    other = small_agents.write_dataset(tmp_path / "other", episodes=6)
    with pytest.raises(errors.ManifestMismatch, match="holds a run on small@1.0.0#"):
        training.train(small_agents.run("bc"), other, cloned)
    meta = checkpoint.load(cloned)[0]
    with pytest.raises(errors.ManifestMismatch, match="was trained on small"):
        checkpoint.check_dataset(meta, other.reference)


def test_another_schema_is_refused_with_the_difference(cloned):
    meta = checkpoint.load(cloned)[0]
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


def test_a_start_that_saw_the_held_out_games_is_refused(cloned, data, tmp_path):
    run = small_agents.run("ft-bc", outcome=None, hold_out=500)
    with pytest.raises(errors.ConfigError, match="evaluated on games"):
        training.train(run, data, tmp_path / "run", init=cloned)


def test_a_folder_with_other_things_is_refused(data, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(errors.ConfigError, match="empty or new"):
        training.train(small_agents.run("bc"), data, tmp_path)


@pytest.mark.parametrize(
    ("agent", "changes", "message"),
    [
        ("bc", {"rollout": 1}, "would always be empty"),
        ("mzs", {}, "encodes single steps"),
    ],
)
def test_memory_that_would_be_empty_is_refused(agent, changes, message, data, tmp_path):
    network = dataclasses.replace(
        small_agents.run(agent).algorithm.network, memory="lstm"
    )
    run = small_agents.run(agent, network=network, **changes)
    with pytest.raises(errors.ConfigError, match=message):
        training.train(run, data, tmp_path / "run")


def test_an_update_in_several_groups_is_that_in_one(data, tmp_path, monkeypatch):
    """Also where a checkpoint is in between: the loader is ahead of what was trained."""
    changes = {"accumulate": 4, "frames": 4 * 4 * 4 * 4, "eps": 1e-2, "save_every": 2}
    run = small_agents.run("bc", **changes)
    one, many = tmp_path / "one", tmp_path / "many"
    training.train(run, data, one)
    batch_bytes = splits.batches(run, data).batch_bytes
    monkeypatch.setattr(feed, "GROUP_BYTES", 2 * batch_bytes)
    assert feed.group_size(4, batch_bytes) == 2
    training.train(run, data, many, stop_after=2)
    training.train(run, data, many)
    ours, theirs = _params(one), _params(many)
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], 1e-3, 1e-5, err_msg=name)
    assert (
        checkpoint.load(one)[0].sampler
        == checkpoint.load(many)[0].sampler
        == {**checkpoint.load(one)[0].sampler, "position": 16}
    )
    rows = [
        np.genfromtxt(folder / "metrics.csv", delimiter=",", names=True)
        for folder in (one, many)
    ]
    assert "gradient_norm" in rows[0].dtype.names
    for name in rows[0].dtype.names:
        np.testing.assert_allclose(rows[0][name], rows[1][name], 1e-3, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in agents.AGENTS if n not in ("bc", "e-oac")])
def test_every_agent_trains_resumes_and_acts(name, data, cloned, tmp_path):
    init = cloned if agents.AGENTS[name].starts_from else None
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
