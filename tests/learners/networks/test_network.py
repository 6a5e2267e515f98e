"""The network: what may and may not change its output, sizes of the presets, memory."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from starmill.learners import presets, rollouts
from starmill.learners.networks import (
    layers,
    memory,
    streams,
)
from starmill.learners.networks import (
    network as networks,
)
from starmill.schema import errors, specs
from starmill.schema.settings import UNPLUGGED
from tests.factories import small_agents

PARAMS = networks.init(0, small_agents.NETWORK, small_agents.SETTINGS)


@jax.jit
def _encode(frames):
    return networks.merge(PARAMS, small_agents.NETWORK, small_agents.SETTINGS).encode(
        frames
    )


@pytest.fixture(scope="module")
def frames():
    return rollouts.flatten(small_agents.batch(seed=2, size=2, steps=4))


def test_rows_beyond_the_count_do_not_matter(frames):
    changed = dict(frames)
    changed["units"] = frames["units"].copy()
    for row, count in enumerate(frames["unit_count"]):
        changed["units"][row, count:] = 77
    ours, theirs = _encode(frames), _encode(changed)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_frames_do_not_see_each_other(frames):
    changed = {key: value.copy() for key, value in frames.items()}
    for value in changed.values():
        value[1:] = value[:-1].copy()
    ours, theirs = _encode(frames), _encode(changed)
    np.testing.assert_allclose(ours.vector[0], theirs.vector[0], rtol=1e-5, atol=1e-6)
    assert not np.allclose(ours.vector[1], theirs.vector[1])


@pytest.mark.parametrize(
    "key",
    [
        "player",
        "unit_counts_bow",
        "upgrades_fixed_length",
        "home_race_requested",
        "away_race_requested",
        "away_race_observed",
        "mmr",
        "game_loop",
        "prev_delay",
        "prev_function",
        "prev_queued",
        "prev_repeat",
        "camera_position",
        "camera_corners",
        "units",
        "minimap_height_map",
        "minimap_visibility_map",
        "minimap_creep",
        "minimap_player_relative",
        "minimap_alerts",
        "minimap_pathable",
        "minimap_buildable",
    ],
)
def test_every_input_is_used(frames, key):
    changed = dict(frames)
    top = {"game_loop": 5000, "mmr": 1500, "player": 90}.get(key, 1)
    changed[key] = (frames[key] + top).astype(frames[key].dtype)
    if key == "camera_corners":
        changed[key] = np.zeros_like(frames[key])
    ours, theirs = _encode(frames), _encode(changed)
    assert not np.allclose(ours.vector, theirs.vector, atol=1e-6)


def test_the_previous_world_is_no_input(frames):
    changed = dict(frames)
    changed["action/world"] = frames["action/world"] + 1
    np.testing.assert_array_equal(_encode(frames).vector, _encode(changed).vector)


def test_units_are_scattered_to_where_they_are():
    units = np.zeros((1, 4, 2), np.int32)
    units[0] = [[0, 0], [7, 3], [7, 3], [99, 0]]  # x, y; the last is off the grid
    values = np.array([[[1.0], [10.0], [5.0], [100.0]]], np.float32)
    plane = streams.scatter_units(values, units, x=0, y=1, scale=0.5, size=4)[0, ..., 0]
    expected = np.zeros((4, 4))
    expected[0, 0], expected[1, 3] = 1, 15
    np.testing.assert_array_equal(plane, expected)


def test_pooling_and_gathering_squares():
    plane = np.arange(16.0).reshape(1, 4, 4)
    pooled = layers.mean_pool([plane, 2 * plane], 2)
    np.testing.assert_allclose(pooled[0, :, :, 0], [[2.5, 4.5], [10.5, 12.5]])
    np.testing.assert_allclose(pooled[0, :, :, 1], [[5, 9], [21, 25]])
    squares = layers.space_to_depth(plane[..., None], 2)
    np.testing.assert_array_equal(squares[0, 0, 1], [2, 3, 6, 7])
    np.testing.assert_array_equal(
        layers.upsample(jnp.array([[[[1.0], [2.0]]]]), 2)[0, :, :, 0],
        [[1, 1, 2, 2], [1, 1, 2, 2]],
    )


def test_attention_is_softmax_of_products():
    module = layers.Attention(4, 2, rngs=nnx.Rngs(0))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 3, 4)).astype(np.float32)
    mask = np.array([[[True, True, False]]])
    query = x[0] @ module.query.kernel + module.query.bias
    both = x[0] @ module.key_value.kernel + module.key_value.bias
    mixed = np.zeros((3, 4))
    for head in range(2):
        part = slice(2 * head, 2 * head + 2)
        for i in range(3):
            weight = [
                np.exp(query[i, part] @ both[j, part] / np.sqrt(2)) for j in (0, 1)
            ]
            for j in (0, 1):
                mixed[i, part] += weight[j] / sum(weight) * both[j, 4:][part]
    expected = mixed @ module.out.kernel + module.out.bias
    np.testing.assert_allclose(module(x, x, mask)[0], expected, rtol=1e-4, atol=1e-5)


def test_units_look_at_each_other_through_points():
    block = layers.TransformerBlock(4, 1, 4, points=2, rngs=nnx.Rngs(0))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 3, 4)).astype(np.float32)
    mask = np.array([[[True, True, False]]])

    def attend(module, queries, seen):
        both = seen @ module.key_value.kernel + module.key_value.bias
        logits = (queries @ module.query.kernel + module.query.bias) @ both[:, :4].T / 2
        weight = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        return weight @ both[:, 4:] @ module.out.kernel + module.out.bias

    normal = np.asarray(block.norm(x))[0]
    points = np.asarray(block.points.embedding[...])
    points = points + attend(block.gather, points, normal[:2])
    expected = block.mlp(x[0] + attend(block.attention, normal, points))
    np.testing.assert_allclose(block(x, mask)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "least", "most"),
    [("tiny", 3e5, 1e6), ("lite", 1e6, 1e7), ("full", 3e7, 2e8)],
)
def test_presets_have_the_sizes_they_claim(size, least, most):
    config = dataclasses.replace(presets.NETWORKS[size], latent_model=True)
    count = networks.parameter_count(networks.shapes(config, UNPLUGGED))
    assert least < count < most


def test_full_runs_on_the_papers_shapes():
    """Shapes only: nothing is computed or allocated."""
    settings, config = UNPLUGGED, presets.NETWORKS["full"]
    found = specs.episode_specs(settings)
    frames = {
        key: jax.ShapeDtypeStruct((2, *spec.shape), spec.dtype)
        for key, spec in found.items()
    }
    frames["units"] = frames.pop("raw_units")
    del frames["camera"]
    frames["camera_corners"] = jax.ShapeDtypeStruct((2, 4), np.int32)
    for name in (
        "unit_count",
        "prev_delay",
        "prev_function",
        "prev_queued",
        "prev_repeat",
    ):
        frames[name] = jax.ShapeDtypeStruct((2,), np.int32)

    def forward(params, frames):
        network = networks.merge(params, config, settings)
        latent = network.encode(frames)
        action = rollouts.action(frames)
        return network.policy.logits(latent, action), network.value(latent.vector)

    logits, value = jax.eval_shape(forward, networks.shapes(config, settings), frames)
    assert logits.world.shape == (2, 65536)
    assert logits.unit_tags.shape == (2, 64, 513)
    assert logits.function.shape == (2, 556)
    assert value.shape == (2,)


def test_same_seed_same_parameters():
    again = networks.init(0, small_agents.NETWORK, small_agents.SETTINGS)
    other = networks.init(1, small_agents.NETWORK, small_agents.SETTINGS)
    same = [
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(PARAMS), jax.tree.leaves(again), strict=True)
    ]
    assert all(same)
    assert not np.array_equal(
        PARAMS["vector_in"]["out"]["kernel"], other["vector_in"]["out"]["kernel"]
    )


def test_impossible_sizes_are_refused():
    with pytest.raises(errors.ConfigError, match=r"memory: .*unit: "):
        networks.Config(memory="diary", unit=9, unit_heads=2)
    with pytest.raises(errors.ConfigError, match="square minimap"):
        networks.init(
            0,
            dataclasses.replace(small_agents.NETWORK, plane_pool=3),
            small_agents.SETTINGS,
        )


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_memory_in_pieces_is_memory_at_once(kind):
    module = memory.build(kind, 6, 4, rngs=nnx.Rngs(0))
    rng = np.random.default_rng(1)
    x = rng.normal(size=(7, 2, 6)).astype(np.float32)
    first = np.zeros((7, 2), bool)
    first[0] = True
    first[4, 1] = True
    run = jax.jit(lambda x, first, state: module(x, first, state))
    whole, _ = run(x, first, module.initial(2))
    state, parts = module.initial(2), []
    for t in range(7):
        part, state = run(x[t : t + 1], first[t : t + 1], state)
        parts.append(part)
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=2e-4, atol=2e-5)
    # What was before an episode's start is forgotten; in the other row it is not.
    x[3, :, 0] += 1.0
    changed, _ = run(x, first, module.initial(2))
    np.testing.assert_allclose(changed[4:, 1], whole[4:, 1], rtol=2e-4, atol=2e-5)
    assert not np.allclose(changed[4, 0], whole[4, 0], atol=1e-4)
