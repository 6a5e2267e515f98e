import pytest

from tests.factories.datasets import LIGHT, assert_equal_batches, batches_of


def test_window_sources_suit_grain(opened):
    grain = pytest.importorskip("grain.python")
    source = opened.windows(rollout=8, keys=LIGHT)
    sampler = grain.SequentialSampler(
        num_records=len(source), shard_options=grain.NoSharding()
    )
    loader = grain.DataLoader(data_source=source, sampler=sampler, worker_count=0)
    ordered = batches_of(
        opened, batch_size=1, rollout=8, sampler="sequential", keys=LIGHT
    )
    count = 0
    for item, batch in zip(loader, ordered, strict=True):
        assert_equal_batches(item, {key: array[0] for key, array in batch.items()})
        count += 1
    assert count == len(source)
    with pytest.raises(IndexError):
        source[len(source)]
