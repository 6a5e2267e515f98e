"""Parameters: seeds, and the paths under which checkpoints store them."""

import dataclasses
import hashlib

import jax
import numpy as np
import pytest

from starmill.learners import presets
from starmill.learners.networks import parameters
from starmill.learners.networks.network import NetworkConfig
from starmill.schema.settings import UNPLUGGED
from tests.factories import small_agents

PARAMS = parameters.init(0, small_agents.NETWORK, small_agents.SETTINGS)


def test_parts_add_up_and_the_largest_comes_first():
    parts = parameters.parts(PARAMS)
    assert sum(parts.values()) == parameters.count(PARAMS)
    assert list(parts.values()) == sorted(parts.values(), reverse=True)
    assert {"vector_in", "value_head", "policy.heads", "policy.world"} <= set(parts)


def test_a_published_network_begins_as_published():
    """Means and deviations: cut normals by fan-in, near zero at a block's end, ones and zeros."""
    config = presets.NETWORKS["lite"]
    params = parameters.init(3, config, UNPLUGGED)
    again = parameters.init(3, config, UNPLUGGED)
    assert jax.tree.all(jax.tree.map(np.array_equal, params, again))
    torso = params["published"]["torso"]
    block = torso["vector_before"]["blocks"][0]
    cut = 0.8796  # the deviation of a standard normal cut at two sigma
    for values, deviation, limit in (
        (block["first"]["linear"]["kernel"], cut / np.sqrt(128), 2 / np.sqrt(128)),
        (block["second"]["linear"]["kernel"], 0.005, 0.05),
        (torso["merge"]["gates"][0]["kernel"], 0.005, 0.05),
        (torso["units"]["attention"][0]["query"]["kernel"], 1 / np.sqrt(32), 0.41),
        (params["published"]["vector"]["previous"]["delay"]["embedding"], cut, 2.0),
    ):
        assert np.std(values) == pytest.approx(deviation, rel=0.05)
        assert np.abs(values).max() <= limit
    assert not np.any(block["first"]["linear"]["bias"])
    assert np.all(block["first"]["norm"]["scale"] == 1)


def test_same_seed_same_parameters():
    again = parameters.init(0, small_agents.NETWORK, small_agents.SETTINGS)
    other = parameters.init(1, small_agents.NETWORK, small_agents.SETTINGS)
    same = [
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(PARAMS), jax.tree.leaves(again), strict=True)
    ]
    assert all(same)
    assert not np.array_equal(
        PARAMS["vector_in"]["out"]["kernel"], other["vector_in"]["out"]["kernel"]
    )


@pytest.mark.parametrize(
    ("memory", "count", "digest"),
    [
        ("none", 139, "74f394fb76949691"),
        ("lstm", 141, "86d330ecd8f825fc"),
        ("transformer", 154, "26cba82650dba4df"),
    ],
)
def test_paths_and_shapes_stay_what_old_checkpoints_have(memory, count, digest):
    """A renamed attribute makes checkpoints unreadable; these are those of version 0.1."""
    config = dataclasses.replace(
        NetworkConfig(unit_points=16),  # what `tiny` was then
        memory=memory,
        latent_model=True,
        action_values=True,
        condition_return=True,
        world_blocks=1,
    )
    shapes = parameters.shapes(config, UNPLUGGED)
    leaves, _ = jax.tree_util.tree_flatten_with_path(shapes)
    lines = sorted(
        f"{jax.tree_util.keystr(path, simple=True, separator='/')} "
        f"{tuple(leaf.shape)} {leaf.dtype}"
        for path, leaf in leaves
    )
    assert len(lines) == count
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] == digest
