"""A dataset of twelve episodes, and batches of it."""

import numpy as np

import starmill
from starmill.schema import assembly, codec, shards
from tests.factories import records

LIGHT = ["player", "action/function", "action/unit_tags"]


def episodes():
    return [records.episode(seed, steps=20 + 5 * seed) for seed in range(12)]


def repeated(folder, count):
    """A dataset of many episodes with the same steps, which is quick to write."""
    encoded = codec.encode(records.game_arrays(0, 40), records.SMALL)
    metas = [records.episode_meta(seed, steps=40) for seed in range(count)]
    items = [shards.EpisodeRecords(meta=meta, records=encoded) for meta in metas]
    return of_records(folder, sorted(items, key=lambda item: item.meta.episode_id))


def of_records(folder, items):
    """A dataset of one shard with these records, whatever they are."""
    name = shards.shard_name("train", 0, 1)
    entry, placed = shards.write_shard(folder, name, items)
    build = assembly.Build(
        name="repeated",
        version="1.0.0",
        engine="factory",
        settings=records.SMALL,
        selection={},
        replay_ids=frozenset(item.meta.replay_id for item in items),
    )
    return assembly.finish(folder, build, [entry], placed)


def batches_of(opened, *, workers=0, host=0, hosts=1, state=None, **options):
    options = starmill.BatchOptions(**{"batch_size": 1, "rollout": 1, **options})
    return opened.batches(options, workers=workers, host=host, hosts=hosts, state=state)


def assert_equal_batches(one, two):
    assert one.keys() == two.keys()
    for key in one:
        assert one[key].dtype == two[key].dtype
        np.testing.assert_array_equal(one[key], two[key], err_msg=key)
