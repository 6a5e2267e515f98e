"""The network: what changes its output and what does not, and the sizes of the presets."""

import dataclasses

import jax
import numpy as np
import pytest

from starmill.learners import presets, rollouts
from starmill.learners.networks import parameters
from starmill.learners.networks.network import NetworkConfig
from starmill.schema import errors, specs
from starmill.schema.settings import UNPLUGGED
from tests.factories import small_agents

PARAMS = parameters.init(0, small_agents.NETWORK, small_agents.SETTINGS)


@jax.jit
def _encode(frames):
    return parameters.merge(PARAMS, small_agents.NETWORK, small_agents.SETTINGS).encode(
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


@pytest.mark.parametrize(
    ("size", "least", "most"),
    [("tiny", 2e6, 4e6), ("lite", 1_485_092, 2e6), ("full", 178_267_221, 2e8)],
)
def test_presets_have_the_sizes_they_claim(size, least, most):
    config = dataclasses.replace(presets.NETWORKS[size], latent_model=True)
    shapes = parameters.shapes(config, UNPLUGGED)
    if size == "tiny":  # its tables of legal actions are counted, not trained
        shapes = parameters.without_counts(shapes)
    assert least < parameters.count(shapes) < most


def test_full_runs_on_the_papers_shapes():
    """Shapes only: nothing is computed or allocated."""
    settings, config = UNPLUGGED, presets.NETWORKS["full"]
    result = specs.episode_specs(settings)
    frames = {
        key: jax.ShapeDtypeStruct((2, *spec.shape), spec.dtype)
        for key, spec in result.items()
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
        "step_type",
    ):
        frames[name] = jax.ShapeDtypeStruct((2,), np.int32)

    def forward(params, frames):
        network = parameters.merge(params, config, settings)
        latent = network.encode(frames)
        action = rollouts.action(frames)
        return network.policy.logits(latent, action), network.value(latent.vector)

    logits, value = jax.eval_shape(forward, parameters.shapes(config, settings), frames)
    assert logits.world.shape == (2, 65536)
    assert logits.unit_tags.shape == (2, 64, 513)
    assert logits.function.shape == (2, 556)
    assert value.shape == (2,)


def test_impossible_sizes_are_refused():
    with pytest.raises(errors.ConfigError, match=r"memory: .*unit: "):
        NetworkConfig(memory="diary", unit=9, unit_heads=2)
    with pytest.raises(errors.ConfigError, match="square minimap"):
        parameters.init(
            0,
            dataclasses.replace(small_agents.NETWORK, plane_pool=3),
            small_agents.SETTINGS,
        )


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_the_past_fills_the_memory(kind):
    """A rollout after its past is the end of the longer rollout; before a start nothing is."""
    config = dataclasses.replace(small_agents.NETWORK, memory=kind)
    params = parameters.init(0, config, small_agents.SETTINGS)
    whole = small_agents.batch(size=2, steps=6)
    whole["step_type"][1, 2] = 0  # row 1 begins an episode within the past
    past, rest = (
        {key: value[:, part] for key, value in whole.items()}
        for part in (slice(0, 4), slice(4, 6))
    )

    @jax.jit
    def run(batch):
        network = parameters.merge(params, config, small_agents.SETTINGS)
        vector = network.unroll(batch)[0].vector
        return vector.reshape(2, -1, vector.shape[-1])

    expected = run(whole)[:, 4:]
    ours = run({**rest, "past": past})
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(run(rest), expected, atol=1e-4)
    garbage = {key: np.array(value) for key, value in past.items()}
    garbage["game_loop"][1, :2] += 1000
    np.testing.assert_array_equal(run({**rest, "past": garbage})[1], ours[1])
