"""What differs between two datasets is named, and nothing else."""

import pytest

from starmill.pipelines import differences
from starmill.schema.loader import dataset
from tests.factories import records


@pytest.fixture
def compare(tmp_path):
    def run(first, second, **overrides):
        records.dataset(str(tmp_path / "a"), first)
        records.dataset(str(tmp_path / "b"), second, **overrides)
        return differences.compare(
            dataset.open_dataset(str(tmp_path / "a")),
            dataset.open_dataset(str(tmp_path / "b")),
        )

    return run


def episodes(*seeds):
    return [records.episode(seed) for seed in seeds]


def test_the_same_dataset_has_no_differences(compare):
    outcome = compare(episodes(1, 2, 3), episodes(1, 2, 3))
    assert outcome.is_empty
    assert outcome.same_episodes == 3


def test_episodes_of_one_dataset_alone_are_listed(compare):
    first, second = episodes(1, 2), episodes(2, 3)
    outcome = compare(first, second)
    assert outcome.only_first == (first[0].meta.episode_id,)
    assert outcome.only_second == (second[1].meta.episode_id,)
    assert outcome.same_episodes == 1


def test_a_changed_array_is_named_with_its_steps(compare):
    (episode,) = episodes(1)
    changed = {"mmr": episode.arrays["mmr"].copy()}
    changed["mmr"][[7, 9]] += 1
    outcome = compare([episode], [records.episode(1, arrays=changed)])
    assert dict(outcome.changed) == {
        episode.meta.episode_id: ("mmr: 2 of 40 steps, first 7",)
    }
    assert outcome.same_episodes == 0


def test_a_changed_fact_of_an_episode_is_named(compare):
    first, second = records.episode(1, mmr=4000), records.episode(1, mmr=4001)
    outcome = compare([first], [second])
    assert list(outcome.changed.values()) == [("mmr: 4000 -> 4001",)]


def test_facts_of_the_manifest_are_named(compare):
    outcome = compare(episodes(1), episodes(1), name="other", version="2.0.0")
    assert [(change.name, change.first, change.second) for change in outcome.facts] == [
        ("name", "factory", "other"),
        ("version", "1.0.0", "2.0.0"),
    ]
    assert outcome.same_episodes == 1
