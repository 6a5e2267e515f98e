"""Records of a dataset's episodes against counts over their arrays."""

import collections

import numpy as np
import pytest

from starmill.benchmark.statistics import dataset_players
from starmill.schema import specs, vocab
from tests.factories import small_agents


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_agents.write_dataset(
        tmp_path_factory.mktemp("data"), episodes=9, splits=("train",)
    )


def test_a_record_counts_what_the_episode_holds(data):
    assert len(data) == 6
    for number in range(len(data)):
        episode = data[number]
        record = dataset_players.record(episode, data)
        functions = episode["action/function"][:-1]
        names = [vocab.functions()[f].name for f in functions]
        words = collections.Counter(name.split("_")[0] for name in names)
        assert record.steps == len(functions)
        assert record.refused is None
        assert sum(record.commands.values()) == (functions > 0).sum()
        moves = words["Move"] + words["Smart"] + words["Patrol"] + words["HoldPosition"]
        assert record.commands.get("move", 0) == moves
        loops = episode["game_loop"]
        minerals = episode["player"][:, specs.PLAYER_COLUMNS.index("minerals")]
        for minute in range(1, int(episode.meta.game_loops // 1344) + 1):
            before = np.flatnonzero(loops[:-1] <= minute * 1344)[-1]
            assert record.at_minute("minerals", minute) == minerals[before]


def test_chunks_do_not_change_a_record(data, monkeypatch):
    whole = dataset_players.record(data[0], data)
    monkeypatch.setattr(dataset_players, "_STEPS", 3)
    assert dataset_players.record(data[0], data) == whole


def test_records_are_spread_over_the_dataset(data):
    everything = dataset_players.records(data, 100)
    assert len(everything) == 6
    assert dataset_players.records(data, 3) == everything[::2]
