"""Rollouts: batches as losses take them, and discounts."""

import numpy as np
import pytest

from starmill.learners import rollouts
from starmill.schema import episode, errors
from starmill.schema.loader import compact
from tests.factories import small_agents
from tests.reference import offline_rl


def test_discounts_follow_from_the_loops_between_steps():
    loops = np.array([0, 12, 15, 40, 41, 60])
    delay = np.diff(loops, append=60)[:, None]
    step_type = np.array([0, 1, 1, 1, 1, 2])[:, None]
    result = rollouts.discounts(delay, step_type, 0.99)
    expected = offline_rl.discounts(loops, last=5, gamma=0.99)
    np.testing.assert_allclose(result[:, 0], expected, rtol=1e-5)


def test_discounts_of_two_episodes_in_one_row():
    delay = np.full((5, 1), 2)
    step_type = np.array([1, 2, 0, 1, 1])[:, None]
    result = rollouts.discounts(delay, step_type, 0.5)
    np.testing.assert_allclose(result[:, 0], [0, 0, 0.25, 0.25, 0.25])


def test_rewards_belong_to_the_step_before():
    reward = np.array([[0.0], [0.0], [1.0]], np.float32)
    np.testing.assert_array_equal(rollouts.next_rewards(reward)[:, 0], [0, 1, 0])


def test_the_last_step_is_not_trained_on():
    kinds = np.array([episode.FIRST, episode.MID, episode.LAST])
    np.testing.assert_array_equal(rollouts.policy_weight(kinds), [1, 1, 0])


def test_dense_and_compact_batches_become_the_same():
    dense = small_agents.arrays()
    flat = dict(dense)
    units = flat.pop("raw_units")
    used = (units != 0).any(-1)
    # The factory leaves no holes, so used rows are the first ones.
    flat["unit_count"] = used.sum(-1).astype(np.int32)
    flat["units"] = np.concatenate([units[used], np.zeros((7, units.shape[-1]), int)])
    flat["camera_corners"] = rollouts.camera_corners(flat.pop("camera"))
    ours = rollouts.trim_units(dense, small_agents.SETTINGS)
    theirs = rollouts.trim_units(flat, small_agents.SETTINGS)
    assert ours.keys() == theirs.keys()
    for key in ours:
        np.testing.assert_array_equal(ours[key], theirs[key], err_msg=key)


def test_corners_are_the_camera():
    camera = small_agents.arrays(seed=3)["camera"]
    corners = rollouts.camera_corners(camera)
    back = compact.to_dense(
        {"camera_corners": corners},
        max_units=small_agents.UNITS,
        resolution=small_agents.SIDE,
    )["camera"]
    np.testing.assert_array_equal(back, camera)
    nothing = rollouts.camera_corners(np.zeros((2, 4, 4)))
    np.testing.assert_array_equal(nothing, np.zeros((2, 4)))


@pytest.mark.parametrize(
    ("rows", "expected"), [(0, 64), (64, 64), (65, 128), (257, 512), (512, 512)]
)
def test_buckets_hold_the_rows(rows, expected):
    assert rollouts.bucket(rows, 512) == expected


def test_too_many_rows_are_an_error():
    with pytest.raises(errors.SpecError, match="at most 512"):
        rollouts.bucket(513, 512)


def test_the_previous_action_is_the_step_before():
    dense = small_agents.arrays(size=3, steps=6)
    result = rollouts.prepare(
        dense, small_agents.SETTINGS, rollouts.Cut(consecutive=True)
    )
    for name in rollouts.PREVIOUS:
        np.testing.assert_array_equal(
            result[f"prev_{name}"], dense[f"action/{name}"][:, :-1]
        )
    np.testing.assert_array_equal(
        result["action/function"], dense["action/function"][:, 1:]
    )


def test_an_episodes_first_step_is_kept_in_every_other_row():
    dense = small_agents.arrays(size=4, steps=6)
    dense["step_type"][2, 0] = episode.MID  # does not begin an episode
    result = rollouts.prepare(dense, small_agents.SETTINGS)
    starts = [0, 1, 1, 1]
    for row, start in enumerate(starts):
        np.testing.assert_array_equal(
            result["game_loop"][row], dense["game_loop"][row, start : start + 5]
        )
    assert result["prev_function"][0, 0] == 0


def test_another_episode_in_the_row_has_no_previous_action():
    dense = small_agents.arrays(size=1, steps=6)
    dense["step_type"][0, 3] = episode.FIRST
    dense["action/function"][0, 2] = 5
    result = rollouts.add_previous_action(dense)
    assert result["prev_function"][0, 3] == 0
    assert result["prev_function"][0, 4] == dense["action/function"][0, 3]


def test_the_burn_in_is_what_came_before_each_row():
    burn_in, size = 3, 7
    dense = small_agents.arrays(size=size, steps=burn_in + 1 + 2)
    dense["step_type"][5:, 0] = episode.MID  # does not begin an episode
    cut = rollouts.Cut(burn_in=burn_in)
    result = rollouts.prepare(dense, small_agents.SETTINGS, cut, first_row=1)
    # Rows that begin an episode start at each of its first steps in turn.
    starts = [1, 2, 3, 4, 0, 4, 4]
    for row, start in enumerate(starts):
        loops = dense["game_loop"][row]
        np.testing.assert_array_equal(
            result["game_loop"][row], loops[start : start + 2]
        )
        past = result["past"]["game_loop"][row]
        known = min(burn_in, start)
        np.testing.assert_array_equal(
            past[burn_in - known :], loops[start - known : start]
        )
    assert "past" not in rollouts.flatten(result)


def test_rows_are_cut_to_the_number_that_all_processes_agree_on():
    dense = small_agents.arrays(size=2, steps=3)
    result = rollouts.prepare(dense, small_agents.SETTINGS, rows=small_agents.UNITS - 1)
    assert result["units"].shape[2] == small_agents.UNITS - 1
