"""The estimate of a build, worked out by hand."""

import dataclasses

import pytest

from starmill.pipelines import cost, plan

PLAN = plan.BuildPlan(
    read=12,
    selected=10,
    rejected={"mmr": 2},
    sides=20,
    unselected={},
    loops=130_000,
    replay_set="",
    shard_counts={"train": 1},
    replays_by_shard={},
    engine="skirmish",
    reused=0,
    files=1,
    packets=10,
    digest="0" * 16,
)


def test_both_sides_of_every_game_are_counted():
    expected = cost.estimate(PLAN, engine="skirmish")
    assert expected.loops == 260_000
    assert expected.steps == 20_000  # one in 13 loops
    assert expected.size_bytes == 2_800_000  # 140 bytes a step
    # 260,000 loops of 0.05 ms and 20,000 steps of 6.5 ms are 13 + 130 seconds.
    assert expected.core_hours == pytest.approx(143 / 3600)


def test_reused_replays_cost_no_time_but_take_space():
    half = dataclasses.replace(PLAN, reused=5)
    expected = cost.estimate(half, engine="skirmish")
    assert expected.replays == 5
    assert expected.size_bytes == 2_800_000
    assert expected.core_hours == pytest.approx(143 / 3600 / 2)


def test_sides_that_the_selection_leaves_out_cost_nothing():
    one_side = dataclasses.replace(PLAN, sides=10, unselected={"mmr": 10})
    expected = cost.estimate(one_side, engine="skirmish")
    assert expected.loops == 130_000
    assert expected.core_hours == pytest.approx(71.5 / 3600)


def test_the_json_has_the_plan_and_the_estimate():
    expected = cost.estimate(PLAN, engine="sc2")
    content = cost.to_json(PLAN, expected)
    assert (content["read"], content["selected"], content["episodes"]) == (12, 10, 20)
    assert content["core_hours"] == expected.core_hours
    assert "ASSUMED" in cost.lines(expected)[-1]
