"""The numbers of a report, against ones counted by hand."""

import dataclasses

import numpy as np

from starmill.pipelines.report import statistics
from starmill.schema import vocab
from tests.factories import records


def row(seed: int, **values) -> dict:
    meta = records.episode_meta(seed, **values)
    return {**dataclasses.asdict(meta), "split": "train"}


ROWS = [
    row(0, race="terran", opponent_race="zerg", outcome=1, mmr=4210, steps=100,
        game_loops=13440, map_name="Acropolis"),
    row(1, race="zerg", opponent_race="terran", outcome=-1, mmr=4290, steps=50,
        game_loops=13440, map_name="Acropolis"),
    row(2, race="terran", opponent_race="terran", outcome=0, mmr=None, steps=10,
        game_loops=672, map_name="Year Zero"),
]  # fmt: skip


def test_rows_are_counted():
    numbers = statistics.gather(ROWS, [])
    assert numbers.outcomes == {
        "terran": (1, 1, 0),
        "zerg": (0, 0, 1),
        "protoss": (0, 0, 0),
    }
    assert numbers.match_ups == [("TvT", 1), ("TvZ", 1), ("ZvT", 1)]
    assert numbers.maps == [("Acropolis", 2), ("Year Zero", 1)]
    assert numbers.unrated == 1
    assert numbers.mmr == statistics.Histogram(edges=(4200.0, 4300.0), counts=(2,))
    assert numbers.delay_compression == (13440 + 13440 + 672) / 160
    assert numbers.sample == 0


def test_lengths_are_in_minutes_of_the_ladders_speed():
    numbers = statistics.gather(ROWS, [])
    # 13,440 loops are ten minutes; 672 are half of one.
    assert numbers.minutes.edges == tuple(float(edge) for edge in range(12))
    assert numbers.minutes.counts == (1, *[0] * 9, 2)
    # 10, 5 and 20 steps a minute.
    assert numbers.actions_per_minute.edges == (0.0, 10.0, 20.0, 30.0)
    assert numbers.actions_per_minute.counts == (1, 1, 1)


def test_a_sample_counts_all_actions_but_the_last():
    episode = records.episode(3, steps=5)
    arrays = {
        **episode.arrays,
        "action/function": np.array([2, 2, 0, 1, 9], np.int32),
        "action/delay": np.array([1, 3, 5, 500, 500], np.int32),
        "game_loop": np.array([0, 1, 4, 9, 2000], np.int32),
    }
    numbers = statistics.gather([], [dataclasses.replace(episode, arrays=arrays)])
    names = [function.name for function in vocab.functions()]
    assert numbers.functions == [
        (names[2], 2),
        *sorted([(names[0], 1), (names[1], 1)]),
    ]
    assert dict(zip(numbers.delays.edges, numbers.delays.counts, strict=False)) == {
        **dict.fromkeys(numbers.delays.edges[:-1], 0), 1: 1, 3: 1, 4: 1, 96: 1,
    }  # fmt: skip
    own = arrays["unit_counts_bow"].sum(axis=1)
    assert numbers.units_by_minute == [
        (0.0, float(own[:4].mean())),
        (1.0, float(own[4])),
    ]
    assert numbers.sample == 1
