import dataclasses

import numpy as np
import pyarrow.compute
import pytest

import starmill
from starmill.schema import episode, errors, manifest, registry
from tests.factories import datasets, records
from tests.factories.datasets import assert_equal_batches, batches_of


def test_every_episode_comes_back(opened):
    expected = {item.meta.episode_id: item for item in datasets.episodes()}
    assert len(opened) == 12
    assert opened.steps == sum(item.meta.steps for item in expected.values())
    for item in (lazy.load() for lazy in opened):
        item.check(records.SMALL)
        original = expected.pop(item.meta.episode_id)
        assert item.meta == original.meta
        assert_equal_batches(item.arrays, original.arrays)
    assert not expected


def test_a_dataset_is_a_sequence_of_episodes(opened):
    ids = [meta.episode_id for meta in opened.metas]
    assert [episode.meta.episode_id for episode in opened] == ids
    assert opened[0].meta == opened.metas[0]
    assert opened[-1].meta == opened[np.int64(11)].meta == opened.metas[11]
    assert opened[3].number == 3
    for item in (slice(2, 5), slice(None, None, 3), slice(-2, None), slice(5, 2)):
        part = opened[item]
        assert isinstance(part, starmill.Dataset)
        assert [meta.episode_id for meta in part.metas] == ids[item]
    np.testing.assert_array_equal(opened[4:][2]["mmr"], opened[6]["mmr"])
    for number in (12, -13):
        with pytest.raises(IndexError, match=f"episode {number}: there are 12"):
            opened[number]
    with pytest.raises(errors.ConfigError, match="no episodes"):
        batches_of(opened[5:2], seed=0)
    with pytest.raises(errors.ConfigError, match="no episodes"):
        opened[5:2].windows(rollout=1)


def test_what_a_dataset_shows_of_itself(opened):
    steps = sum(20 + 5 * seed for seed in range(12))
    assert repr(opened) == f"factory@1.0.0: 12 episodes, {steps} steps"
    assert repr(opened[:0]) == "factory@1.0.0: 0 episodes, 0 steps"
    page = opened._repr_html_()
    assert f"<b>factory@1.0.0: 12 episodes, {steps} steps</b>" in page
    assert "<th>maps</th><td>Acropolis 4, Thunderbird 4, Year Zero 4</td>" in page
    strange = dataclasses.replace(opened, url="<data>")
    assert "&lt;data&gt;" in strange._repr_html_()


@pytest.mark.parametrize(
    ("filters", "keeps"),
    [
        ({"split": "train"}, lambda m: m.replay_id[0] not in "01"),
        ({"outcome": [1, 0]}, lambda m: m.outcome >= 0),
        ({"race": "zerg"}, lambda m: m.race == "zerg"),
        ({"opponent_race": ("zerg", "terran")}, lambda m: m.opponent_race != "protoss"),
        ({"map_name": "Acropolis"}, lambda m: m.map_name == "Acropolis"),
        ({"mmr_above": 5000}, lambda m: m.mmr > 5000),
        (
            {"mmr_above": 4000, "mmr_rule": "both"},
            lambda m: m.mmr > 4000 and m.opponent_mmr > 4000,
        ),
        ({"min_steps": 30, "max_steps": 50}, lambda m: 30 <= m.steps <= 50),
        ({"game_version": "4.9.2"}, lambda m: True),
        (
            {"where": pyarrow.compute.field("player_id") == 2},
            lambda m: m.player_id == 2,
        ),
    ],
)
def test_filters(folder, filters, keeps):
    kept = starmill.open_dataset(folder, **filters)
    expected = {m.episode_id for m in (e.meta for e in datasets.episodes()) if keeps(m)}
    assert {meta.episode_id for meta in kept.metas} == expected
    # What is read is what was chosen, although the rows have moved.
    item = kept[len(kept) - 1].load()
    assert item.meta.episode_id in expected
    assert item.arrays["mmr"].shape == (item.meta.steps,)


def test_requests_that_make_no_sense_are_refused(opened):
    for action, match in (
        (lambda: opened.filter(mmr_above=9999), "no episode of 12"),
        (lambda: opened.filter(mmr_rule="any"), "mmr_rule"),
        (lambda: opened[0].read(5, 4), "steps 5:4"),
        (lambda: opened[0].read(0, 99), "steps 0:99: the episode has"),
        (lambda: opened[0].read(keys=["nothing"]), "key 'nothing'"),
        (lambda: opened.find("nobody"), "no episode 'nobody'"),
        (lambda: batches_of(opened, seed=0, host=1), "host 1"),
        (lambda: batches_of(opened, seed=0, hosts=0), "hosts: must be"),
        (lambda: batches_of(opened, seed=0, workers=-1), "workers"),
        (lambda: batches_of(opened, seed=0, keys=["x"]), "key 'x'"),
    ):
        with pytest.raises(errors.ConfigError, match=match):
            action()


def test_windows_have_the_derived_arrays_of_the_whole(opened):
    number = 11
    whole = opened[number][:]
    steps = len(whole["mmr"])
    item = opened[number].load()
    derived = episode.derived(
        item.arrays["action/delay"],
        step=np.arange(steps),
        steps=steps,
        outcome=item.meta.outcome,
    )
    for key, array in derived.items():
        np.testing.assert_array_equal(whole[key], array)
    for start, stop in ((0, 1), (31, 34), (32, 33), (40, steps), (steps - 1, steps)):
        part = opened[number][start:stop]
        assert_equal_batches(part, {key: a[start:stop] for key, a in whole.items()})
    few = opened[number].read(33, 40, keys=["prev_delay", "mmr"])
    assert sorted(few) == ["mmr", "prev_delay"]
    np.testing.assert_array_equal(few["prev_delay"], derived["prev_delay"][33:40])


def test_names_are_looked_up_in_the_registry(folder, tmp_path):
    content = manifest.read(folder)
    path = tmp_path / "registry.json"
    registry.add(path, "factory@1.0.0", folder, content.digest())
    opened = starmill.open_dataset("factory@1.0.0", registry_file=str(path))
    assert opened.reference == content.reference()
    registry.add(path, "other@1.0.0", folder, content.digest())
    with pytest.raises(errors.ManifestMismatch, match="expected other@1.0.0"):
        starmill.open_dataset("other@1.0.0", registry_file=str(path))


def test_memory_addresses_work_alike(opened):
    content = records.dataset("memory://dataset-test", datasets.episodes())
    remote = starmill.open_dataset("memory://dataset-test")
    assert remote.reference == opened.reference == content.reference()
    options = {"batch_size": 2, "rollout": 16, "seed": 3}
    assert_equal_batches(
        next(batches_of(remote, **options)), next(batches_of(opened, **options))
    )
