"""A dataset of twelve episodes, and batches of it."""

import numpy as np

import starmill
from tests.factories import records

LIGHT = ["player", "action/function", "action/unit_tags"]


def episodes():
    return [records.episode(seed, steps=20 + 5 * seed) for seed in range(12)]


def batches_of(opened, *, workers=0, host=0, hosts=1, state=None, **options):
    options = starmill.BatchOptions(**{"batch_size": 1, "rollout": 1, **options})
    return opened.batches(options, workers=workers, host=host, hosts=hosts, state=state)


def assert_equal_batches(one, two):
    assert one.keys() == two.keys()
    for key in one:
        assert one[key].dtype == two[key].dtype
        np.testing.assert_array_equal(one[key], two[key], err_msg=key)
