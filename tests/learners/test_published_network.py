"""The published architectures: parameters, logits, losses and gradients equal recorded ones.

The recordings are those of the published network itself. They are in the folder that
STARMILL_GOLDEN_ARCHITECTURE names, or beside the checkout: `NAME.json` lists the parameters in
the order of their creation, `*_expected.npz` holds what the network made of the first rows of
`lite_inputs.npz`.
"""

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from starmill.learners.networks.published import loss, network, plane_encoder, sizes
from tests.conftest import SHARED

FOLDER = Path(
    os.environ.get("STARMILL_GOLDEN_ARCHITECTURE", SHARED / "golden/architecture")
)
SIZES = {"lite": sizes.LITE, "full": sizes.FULL}
TOTALS = {"lite": 1_485_092, "full": 178_267_221}
CASES = sorted(path.name for path in FOLDER.glob("*_expected.npz"))
ATOL = {"lite": 1e-4, "full": 1e-3}


def _layer(prefix: str) -> list[str]:
    return [f"{prefix}.norm", f"{prefix}.linear"]


def _plane_layer(prefix: str) -> list[str]:
    return [f"{prefix}.norm", f"{prefix}.convolution"]


def _residual(prefix: str, layer: Any = _layer) -> list[str]:
    return [*layer(f"{prefix}.first"), *layer(f"{prefix}.second")]


def _blocks(prefix: str, count: int, one: Any = _residual) -> list[str]:
    return [path for i in range(count) for path in one(f"{prefix}.{i}")]


def _merge(prefix: str, inputs: int, gated: bool = True) -> list[str]:
    pairs = [
        f"{prefix}.{part}.{i}" for i in range(inputs) for part in ("norms", "images")
    ]
    return pairs + [f"{prefix}.gates.{i}" for i in range(inputs if gated else 0)]


def _plane_residual(prefix: str) -> list[str]:
    return _residual(prefix, _plane_layer)


def _modules(size: sizes.Sizes) -> list[str]:
    """Our modules with parameters, in the order in which the published code makes them."""
    before, after = size.vector_blocks
    names = ["game_loop", "unit_counts", "player", "mmr"]
    names += ["home_race_requested", "away_race_requested", "away_race_observed"]
    paths = [f"vector.{name}" for name in (*names, "upgrades")]
    paths += [f"vector.previous.{name}" for name in network.SCALARS]
    paths += [f"units.{name}" for name in ("unit_type", "attributes", "x", "y")]
    paths += ["units.ratios", "units.order"]
    paths += [f"units.later_orders.{i}" for i in range(4)]
    planes = (plane_encoder.HEIGHT, *plane_encoder.CATEGORIES)
    paths += ["units.counts", *(f"planes.planes.{name}" for name in planes)]
    paths += ["planes.camera", *_blocks("torso.vector_before.blocks", before)]
    paths += _blocks("torso.units.before.blocks", size.unit_blocks)
    for i in range(size.attention_layers):
        parts = ("norm", "query", "key", "value", "out")
        paths += [f"torso.units.attention.{i}.{part}" for part in parts]
    paths += _blocks("torso.units.after.blocks", size.unit_blocks)
    paths += _layer("torso.scatter.units") + _plane_layer("torso.scatter.planes")
    paths += _plane_layer("torso.halve_fine") + _plane_layer("torso.halve_middle")
    paths += _blocks("torso.plane_blocks", size.plane_blocks, _plane_residual)
    halvings = len(size.planes_to_vector)
    paths += _blocks("torso.planes_to_vector.halvings", halvings, _plane_layer)
    paths += _layer("torso.planes_to_vector.out")
    paths += _layer("torso.units_to_vector.units")
    paths += _layer("torso.units_to_vector.out") + _merge("torso.merge", 3)
    paths += _blocks("torso.vector_after.blocks", after)
    for name, blocks in zip(network.SCALARS, size.head_blocks, strict=True):
        paths += _blocks(f"scalars.{name}.resnet.blocks", blocks)
        paths += [*_layer(f"scalars.{name}.out"), f"scalars.{name}.embedding"]
        paths += _merge(f"scalars.{name}.merge", 2)
    paths += _blocks("unit_tags.resnet.blocks", size.tag_blocks)
    for name in ("keys", "small", "large"):
        paths += _blocks(f"unit_tags.{name}.layers", 2, _layer)
    paths += [*_layer("unit_tags.query"), "unit_tags.end"]
    paths += _merge("unit_tags.next_query", 2, gated=False)
    paths += _merge("unit_tags.merge", 2) + _merge("unit_tags.merge_units", 2)
    paths += _blocks("target.resnet.blocks", size.target_blocks)
    paths += _layer("target.query")
    paths += _blocks("target.keys.layers", size.target_layers, _layer)
    paths += _layer("world.start")
    paths += _blocks("world.double_start", 2, _plane_layer)
    paths += _blocks("world.blocks", size.plane_blocks, _plane_residual)
    for name in ("double_coarse", "double_middle", "double_fine", "out"):
        paths += _plane_layer(f"world.{name}")
    return paths


def _published(name: str) -> list[dict[str, Any]]:
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"needs {path.name} of the published architecture, not found here")
    listed: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["parameters"]
    return listed


def _paths(name: str) -> list[str]:
    """Our parameters, in the order of the published list."""
    ours = iter(_modules(SIZES[name]))
    names = {"w": "kernel", "b": "bias", "scale": "scale", "offset": "bias"}
    names["embeddings"] = "embedding"
    paths, module, path = [], "", ""
    for entry in _published(name):
        if entry["module"] != module:
            module, path = entry["module"], next(ours)
        paths.append(f"{path}.{names[entry['name']]}")
    assert next(ours, None) is None
    return paths


@functools.cache
def _graph(name: str) -> tuple[Any, Any]:
    made = nnx.eval_shape(lambda: network.Network(SIZES[name], rngs=nnx.Rngs(0)))
    return nnx.split(made, nnx.Param)


def _flat(tree: Any) -> dict[str, Any]:
    pairs = jax.tree_util.tree_flatten_with_path(nnx.to_pure_dict(tree))[0]
    return {".".join(str(key.key) for key in path): leaf for path, leaf in pairs}


def _golden_parameters(name: str) -> Any:
    """The state with the recordings' parameters."""
    _, state = _graph(name)
    values = {}
    for index, (path, entry) in enumerate(
        zip(_paths(name), _published(name), strict=True)
    ):
        random = np.random.RandomState(index)
        value = random.standard_normal(entry["shape"]) * 0.1
        if entry["name"] == "scale":
            value = 1.0 + value
        values[path] = jnp.asarray(value.astype(np.float32))
    leaves, tree = jax.tree_util.tree_flatten_with_path(nnx.to_pure_dict(state))
    keys = [".".join(str(key.key) for key in path) for path, _ in leaves]
    nnx.replace_by_pure_dict(
        state, jax.tree.unflatten(tree, [values[key] for key in keys])
    )
    return state


def _load(name: str) -> dict[str, Any]:
    with np.load(FOLDER / name) as file:
        return dict(file)


def _inputs(rows: int) -> dict[str, Any]:
    source = _load("lite_inputs.npz")
    groups: dict[str, Any] = {"observation": {}, "action": {}, "prev_action": {}}
    for key in source:
        group, _, name = key.partition("/")
        if name:
            groups[group][name] = jnp.asarray(source[key][:rows])
    return {**groups, "step_type": jnp.asarray(source["step_type"][:rows])}


def _forward(name: str, state: Any, inputs: dict[str, Any]) -> Any:
    graph, _ = _graph(name)
    return nnx.merge(graph, state)(
        inputs["observation"],
        inputs["prev_action"],
        inputs["step_type"],
        inputs["action"],
    )


def _rows(expected: Any) -> int:
    return int(len(expected["logits/function"]))


@functools.cache
def _outcome(case: str) -> tuple[Any, Any, Any]:
    name = case.split("_")[0]
    expected = _load(case)
    inputs = _inputs(_rows(expected))

    @jax.jit
    def run(state: Any, inputs: dict[str, Any]) -> tuple[Any, Any]:
        output = _forward(name, state, inputs)
        return output, loss.supervised(output, inputs["step_type"])

    output, losses = run(_golden_parameters(name), inputs)
    return expected, jax.device_get(output), jax.device_get(losses)


def _by_argument(case: str) -> Iterator[str]:
    if case.split("_")[0] not in SIZES:
        pytest.skip(f"{case}: not an architecture of ours")
    yield from network.ARGUMENTS


@pytest.mark.parametrize("name", SIZES)
def test_parameters_are_those_of_the_published_list(name: str) -> None:
    _, state = _graph(name)
    ours = {path: leaf.shape for path, leaf in _flat(state).items()}
    entries = zip(_paths(name), _published(name), strict=True)
    assert ours == {path: tuple(entry["shape"]) for path, entry in entries}
    assert sum(int(np.prod(shape)) for shape in ours.values()) == TOTALS[name]


def test_parameters_of_the_recordings_are_made_as_recorded() -> None:
    values = _flat(_golden_parameters("lite"))
    for path, entry in zip(_paths("lite"), _published("lite"), strict=True):
        total = np.asarray(values[path], np.float64).sum()
        assert total == pytest.approx(entry["golden_sum"], rel=1e-9, abs=1e-9), path


@pytest.mark.parametrize(
    "case", CASES or [pytest.param("none", marks=pytest.mark.skip)]
)
def test_masks_and_actions(case: str) -> None:
    for name in _by_argument(case):
        expected, output, losses = _outcome(case)
        np.testing.assert_array_equal(output.action[name], expected[f"action/{name}"])
        used = expected[f"argument_masks/{name}"]
        np.testing.assert_array_equal(output.used[name], used, err_msg=name)
        for kind in ("target_mask", "loss_mask"):
            ours = getattr(losses, kind)[name]
            np.testing.assert_array_equal(ours, expected[f"{kind}/{name}"], name)
        if f"masks/{name}" in expected:
            ours = np.packbits(output.masks[name], axis=-1)
            np.testing.assert_array_equal(ours, expected[f"masks/{name}"], name)


@pytest.mark.parametrize(
    "case", CASES or [pytest.param("none", marks=pytest.mark.skip)]
)
def test_logits_and_losses(case: str) -> None:
    for name in _by_argument(case):
        expected, output, losses = _outcome(case)
        atol = ATOL[case.split("_")[0]]
        compare = functools.partial(np.testing.assert_allclose, rtol=1e-4)
        compare(output.logits[name], expected[f"logits/{name}"], atol=atol)
        compare(losses.log_prob[name], expected[f"log_prob/{name}"], atol=atol)
        compare(losses.by_argument[name], expected[f"loss/{name}"], atol=10 * atol)
    compare(output.latent, expected["latent"], atol=atol)
    if "loss_mean" in expected:
        assert losses.mean == pytest.approx(float(expected["loss_mean"]), rel=1e-5)
        compare(losses.per_step, expected["loss_per_step"], atol=0, rtol=1e-5)


@pytest.mark.parametrize(
    "case", CASES or [pytest.param("none", marks=pytest.mark.skip)]
)
def test_gradients(case: str) -> None:
    name = case.split("_")[0]
    expected = _load(case)
    if name not in SIZES or "grad/norm" not in expected:
        pytest.skip(f"{case}: has no gradients of an architecture of ours")

    @jax.jit
    def gradients(state: Any, inputs: dict[str, Any]) -> Any:
        def mean(state: Any) -> jax.Array:
            output = _forward(name, state, inputs)
            return loss.supervised(output, inputs["step_type"]).mean

        return jax.grad(mean)(state)

    flat = _flat(gradients(_golden_parameters(name), _inputs(_rows(expected))))
    norms = [
        np.linalg.norm(np.asarray(flat[path], np.float64)) for path in _paths(name)
    ]
    # Three biases have no gradient but rounding: 1e-8 to 1e-6.
    np.testing.assert_allclose(norms, expected["grad/norm"], rtol=1e-3, atol=2e-5)
    total = float(np.sqrt(np.square(norms).sum()))
    assert total == pytest.approx(float(expected["grad/global_norm"]), rel=1e-4)
