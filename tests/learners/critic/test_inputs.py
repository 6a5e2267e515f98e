"""What the critic sees: against a slow count."""

import numpy as np
import pytest

from starmill.learners.critic import inputs
from starmill.schema import specs
from tests.factories import small_agents


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_agents.write_dataset(tmp_path_factory.mktemp("data"))


def test_every_step_has_its_counts_bank_and_time(data):
    steps = inputs.read(data)
    unit = {name: i for i, name in enumerate(specs.unit_columns(data.settings))}
    assert len(steps.inputs) == data.steps
    for number, episode in enumerate(data):
        arrays = episode.read()
        start, end = steps.starts[number : number + 2]
        assert end - start == len(arrays["game_loop"])
        assert (steps.episode[start:end] == number).all()
        assert (steps.outcome[start:end] == episode.meta.outcome).all()
        np.testing.assert_array_equal(steps.loop[start:end], arrays["game_loop"])
        for t in range(0, end - start, 7):
            own, enemy = np.zeros(272), np.zeros(272)
            for row in arrays["raw_units"][t]:
                side = {1: own, 4: enemy}.get(int(row[unit["alliance"]]))
                if side is not None and row.any():
                    side[row[unit["unit_type"]]] += 1
            bank = np.log1p(np.maximum(arrays["player"][t], 0))
            time = [arrays["game_loop"][t] / 20_000]
            expected = np.concatenate([np.log1p(own), np.log1p(enemy), bank, time])
            np.testing.assert_allclose(steps.inputs[start + t], expected, rtol=1e-5)


def test_both_sides_of_a_game_have_one_number(data):
    steps = inputs.read(data)
    replays = data.table.column("replay_id").to_pylist()
    for first, one in enumerate(replays):
        for second, other in enumerate(replays):
            games = steps.game[steps.starts[[first, second]]]
            assert (games[0] == games[1]) == (one == other)
