"""Predictions of held-out games: what is counted, the unigram baseline, and intervals."""

import json

import numpy as np
import pytest

from starmill.learners import prediction
from starmill.learners.networks import parameters
from tests.factories import small_agents


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_agents.write_dataset(tmp_path_factory.mktemp("data"))


def test_evaluation_counts_what_was_held_out(data):
    run = small_agents.run("bc")
    held_out = data.filter(split="test")
    params = parameters.init(0, run.algorithm.network, small_agents.SETTINGS)
    result = prediction.evaluate(
        params, run.algorithm, held_out, data.filter(split="train"), batch_size=4
    )
    trained = held_out.steps - len(held_out)  # the last steps are left out
    assert result["arguments"]["function"]["actions"] == trained
    function = result["arguments"]["function"]
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
    assert len(prediction.table_lines(result)) == 2 + 7 + 2
    json.dumps(result)


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
    result = prediction.ratio(top, np.ones(4), np.array([0, 0, 1, 1]))
    assert (result.value, result.low, result.high) == (0.5, 0.0, 1.0)
