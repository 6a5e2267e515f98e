import numpy as np
import pytest

import starmill
from starmill.schema import errors
from starmill.schema.loader import compact, samplers
from tests.factories import records
from tests.factories.datasets import assert_equal_batches, batches_of


@pytest.mark.parametrize("name", samplers.NAMES)
def test_compact_batches_expand_to_dense_ones(opened, name):
    options = {"batch_size": 3, "rollout": 16, "seed": 1, "sampler": name}
    dense = batches_of(opened, **options)
    small = batches_of(opened, **options, form="compact")
    for _ in range(4):
        one, two = next(dense), next(small)
        assert "camera" not in two
        assert two[compact.UNITS].shape[0] % compact.ROWS == 0
        expanded = compact.to_dense(two, max_units=48, resolution=64)
        assert_equal_batches(one, expanded)


def test_jax_expands_as_numpy_does(opened):
    jax = pytest.importorskip("jax")
    batch = next(batches_of(opened, batch_size=2, rollout=5, seed=1, form="compact"))
    expand = jax.jit(
        lambda b: compact.to_dense(b, max_units=48, resolution=64, xp=jax.numpy)
    )
    expanded = {key: np.asarray(value) for key, value in expand(batch).items()}
    assert_equal_batches(compact.to_dense(batch, max_units=48, resolution=64), expanded)


def test_a_camera_that_is_no_rectangle_has_no_compact_form(tmp_path):
    item = records.episode(0)
    item.arrays["camera"][0, 0, 0] ^= 1
    item.arrays["camera"][0, 5, 5] ^= 1
    records.dataset(str(tmp_path), [item])
    opened = starmill.open_dataset(str(tmp_path))
    with pytest.raises(errors.ConfigError, match="not one rectangle"):
        next(batches_of(opened, batch_size=1, rollout=40, seed=0, form="compact"))
