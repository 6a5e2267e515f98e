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

from starmill.learners.networks.published import (
    dummy,
    loss,
    network,
    plane_encoder,
    sizes,
)
from tests.conftest import SHARED

DEFAULT = SHARED / "golden/architecture"
FOLDER = Path(os.environ.get("STARMILL_GOLDEN_ARCHITECTURE", DEFAULT))
SIZES = {"lite": sizes.LITE, "full": sizes.FULL}
TOTALS = {"lite": 1_485_092, "full": 178_267_221, "dummy": 68_957_874}
CASES = sorted(path.name for path in FOLDER.glob("*_expected.npz"))
ATOL = {"lite": 1e-4, "full": 1e-3, "dummy": 1e-4}
_ABSENT = (
    f"needs recordings (*_expected.npz) of the published network, none in {FOLDER}"
)
_CASES = CASES or [pytest.param("none", marks=pytest.mark.skip(reason=_ABSENT))]


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


def _dummy_modules() -> list[str]:
    names = (*network.SCALARS, "target_unit_tag", "world", "unit_tags")
    return ["player", *(path for name in names for path in _layer(f"heads.{name}"))]


def _first(*names: str) -> Path:
    """The first of these files that exists; a folder may leave out what the default one has."""
    for folder in (FOLDER, DEFAULT):
        for name in names:
            if (folder / name).is_file():
                return folder / name
    pytest.skip(f"needs {names[0]} of the published architecture, not in {FOLDER}")


def _published(name: str) -> list[dict[str, Any]]:
    path = _first(f"{name}.json")
    listed: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["parameters"]
    return listed


def _paths(name: str) -> list[str]:
    """Our parameters, in the order of the published list."""
    ours = iter(_modules(SIZES[name]) if name in SIZES else _dummy_modules())
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
    def make() -> Any:
        if name == "dummy":
            return dummy.Dummy(rngs=nnx.Rngs(0))
        return network.Network(SIZES[name], rngs=nnx.Rngs(0))

    result = nnx.eval_shape(make)
    return nnx.split(result, nnx.Param)


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


@functools.cache
def _load(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return dict(file)


def _inputs(case: str) -> dict[str, Any]:
    """The rows of the inputs that a case is of: its own inputs, or the common ones."""
    rows = _rows(case)
    own = case.replace("_expected", "_inputs")
    source = _load(_first(own, f"{case.split('_')[0]}_inputs.npz", "lite_inputs.npz"))
    assert len(source["step_type"]) >= rows
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


def _rows(case: str) -> int:
    return int(len(_load(FOLDER / case)["logits/function"]))


@functools.cache
def _outcome(case: str) -> tuple[Any, Any, Any]:
    name = case.split("_")[0]
    expected = _load(FOLDER / case)
    inputs = _inputs(case)

    @jax.jit
    def run(state: Any, inputs: dict[str, Any]) -> tuple[Any, Any]:
        output = _forward(name, state, inputs)
        return output, loss.supervised(output, inputs["step_type"])

    output, losses = run(_golden_parameters(name), inputs)
    return expected, jax.device_get(output), jax.device_get(losses)


# Where our network makes what the recordings call by these names: the module whose output it
# is, or the number of its argument.
_INTERMEDIATES: dict[str, str | tuple[str, int]] = {
    "vector_after_encoder": "vector",
    "visual_ds2_after_encoder": "planes",
    "vector_after_resnet_1": "torso.vector_before",
    "units_after_transformer": "torso.units",
    "visual_ds2_from_units": "torso.scatter",
    "visual_ds4": "torso.halve_fine",
    "visual_ds8_after_resnet": "torso.plane_blocks.last",
    "vector_from_visual": "torso.planes_to_vector",
    "vector_from_units": "torso.units_to_vector",
    "vector_after_merge": "torso.merge",
    "vector_after_function": "scalars.function.merge",
    "vector_after_delay": "scalars.delay.merge",
    "vector_after_queued": "scalars.queued.merge",
    "vector_after_repeat": "scalars.repeat.merge",
    "unit_tags_query_initial": "unit_tags.resnet",
    "unit_tags_keys": "unit_tags.keys",
    "unit_tags_small_embeddings": "unit_tags.small",
    "unit_tags_embedding": ("unit_tags.merge", 1),
    "vector_after_unit_tags": "unit_tags.merge",
    "units_after_selection": "unit_tags.merge_units",
    "target_query": "target.resnet",
    "world_ds8_from_vector": "world.double_start.1",
    "world_ds8_after_resnet": "world.blocks.last",
    "world_ds4": ("world.double_middle", 0),
    "world_ds2": ("world.double_fine", 0),
    "world_ds1": ("world.out", 0),
}


def _calls(model: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Returns a dict that fills with the arguments and the output of the modules above."""
    wanted = {
        one if isinstance(one, str) else one[0] for one in _INTERMEDIATES.values()
    }
    wanted |= {"units", "unit_tags.teach"}
    names = {}
    for path, module in nnx.iter_modules(model):
        name = ".".join(map(str, path))
        names[id(module)] = name
        # The list of blocks comes in order, so the last one stays.
        head, _, number = name.rpartition(".")
        if number.isdigit() and f"{head}.last" in wanted:
            names[id(module)] = f"{head}.last"
    calls: dict[str, Any] = {}

    def wrap(kind: type, method: str, suffix: str) -> None:
        original = getattr(kind, method)

        def recorded(self: Any, *arguments: Any, **named: Any) -> Any:
            output = original(self, *arguments, **named)
            name = names.get(id(self), "") + suffix
            if name in wanted:
                calls[name] = (arguments, output)
            return output

        monkeypatch.setattr(kind, method, recorded)

    for kind in {type(module) for _, module in nnx.iter_modules(model)}:
        if callable(getattr(kind, "__call__", None)):  # noqa: B004
            wrap(kind, "__call__", "")
    wrap(type(model.unit_tags), "teach", ".teach")
    return calls


@functools.cache
def _intermediates(case: str) -> dict[str, Any]:
    """Our numbers by the recordings' names."""
    name = case.split("_")[0]
    graph, _ = _graph(name)

    def run(state: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        model = nnx.merge(graph, state)
        observation, previous = inputs["observation"], inputs["prev_action"]
        with pytest.MonkeyPatch.context() as monkeypatch:
            calls = _calls(model, monkeypatch)
            model(observation, previous, inputs["step_type"], inputs["action"])
        outputs = {
            key: calls[at][1] if isinstance(at, str) else calls[at[0]][0][at[1]]
            for key, at in _INTERMEDIATES.items()
        }
        outputs["units_after_encoder"], outputs["non_empty_units"] = calls["units"][1]
        selection = calls["unit_tags.teach"][1]
        outputs["unit_tags_query_final"] = selection.query
        outputs["selected_unit_tags"] = selection.selected
        parts = model.vector.parts(observation, previous, inputs["step_type"])
        for key, part in parts.items():
            ours = key.replace("previous_", "prev_").replace(
                "upgrades", "upgrades_encoder"
            )
            outputs[f"vector_encoder/{ours}"] = part
        for key, part in model.planes.parts(observation).items():
            outputs[f"visual_encoder/{key}"] = part
        return outputs

    inputs = _inputs(case)
    return jax.device_get(jax.jit(run)(_golden_parameters(name), inputs))


def _recorded_intermediates(case: str) -> dict[str, Any]:
    """What was recorded of the network's inside, for the first rows; strided where large."""
    recorded = {
        key.partition("/")[2]: (value, key.startswith("intermediate_strided/"))
        for key, value in _load(FOLDER / case).items()
        if key.startswith("intermediate")
    }
    beside = FOLDER / case.replace("_expected", "_intermediates")
    if beside.is_file():
        recorded |= {key: (value, False) for key, value in _load(beside).items()}
    return recorded


def _by_argument(case: str) -> Iterator[str]:
    if case.split("_")[0] not in TOTALS:
        pytest.skip(f"{case}: not an architecture of ours")
    yield from network.ARGUMENTS


@pytest.mark.parametrize("name", TOTALS)
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


@pytest.mark.parametrize("case", _CASES)
def test_masks_and_actions(case: str) -> None:
    for name in _by_argument(case):
        expected, output, losses = _outcome(case)
        ours = {
            "action": output.action[name],
            "argument_masks": output.used[name],
            "target_mask": losses.target_mask[name],
            "loss_mask": losses.loss_mask[name],
        }
        if name in output.masks:
            ours["masks"] = np.packbits(output.masks[name], axis=-1)
        for kind, values in ours.items():
            if f"{kind}/{name}" in expected:
                recorded = expected[f"{kind}/{name}"]
                np.testing.assert_array_equal(values, recorded, f"{kind}/{name}")
        # Where the recordings have no mask, everything is allowed.
        if "masks" in ours and f"masks/{name}" not in expected:
            assert output.masks[name].all(), name


@pytest.mark.parametrize("case", _CASES)
def test_logits_and_losses(case: str) -> None:
    atol = ATOL.get(case.split("_")[0], 0.0)
    for name in _by_argument(case):
        expected, output, losses = _outcome(case)
        log_prob, is_counted = losses.log_prob[name], losses.target_mask[name]
        on_steps = losses.loss_mask[name]
        is_counted = is_counted & on_steps.reshape(-1, *[1] * (is_counted.ndim - 1))
        for kind, values, tolerance in (
            ("logits", output.logits[name], atol),
            ("log_prob", log_prob, atol),
            ("xentropy", np.where(is_counted, -log_prob, 0), atol),
            ("loss", losses.by_argument[name], 10 * atol),
        ):
            if kind == "logits" or f"{kind}/{name}" in expected:
                np.testing.assert_allclose(
                    values,
                    expected[f"{kind}/{name}"],
                    rtol=1e-4,
                    atol=tolerance,
                    err_msg=f"{kind}/{name}",
                )
    for key, values, rtol, tolerance in (
        ("latent", output.latent, 1e-4, atol),
        ("loss_per_step", losses.per_step, 1e-5, 1e-6),
        ("loss_mean", losses.mean, 1e-5, 0.0),
    ):
        if key in expected:
            np.testing.assert_allclose(
                values, expected[key], rtol=rtol, atol=tolerance, err_msg=key
            )


@pytest.mark.parametrize("case", _CASES)
def test_intermediates(case: str) -> None:
    name = case.split("_")[0]
    recorded = _recorded_intermediates(case)
    if name not in SIZES or not recorded:
        pytest.skip(f"{case}: has no intermediates of an architecture of ours")
    ours = _intermediates(case)
    unknown = set(recorded) - set(ours)
    assert not unknown
    for key, (expected, is_strided) in recorded.items():
        result = ours[key][: len(expected)]
        if is_strided:
            flat = result.reshape(len(result), -1)
            result = flat[:, :: flat.shape[1] // expected.shape[1]]
            result = result[:, : expected.shape[1]]
        np.testing.assert_allclose(
            result, expected, rtol=1e-4, atol=ATOL[name], err_msg=key
        )


@pytest.mark.parametrize("case", _CASES)
def test_gradients(case: str) -> None:
    name = case.split("_")[0]
    expected = _load(FOLDER / case)
    if name not in TOTALS or "grad/norm" not in expected:
        pytest.skip(f"{case}: has no gradients of an architecture of ours")

    @jax.jit
    def gradients(state: Any, inputs: dict[str, Any]) -> Any:
        def mean(state: Any) -> jax.Array:
            output = _forward(name, state, inputs)
            return loss.supervised(output, inputs["step_type"]).mean

        return jax.grad(mean)(state)

    flat = _flat(gradients(_golden_parameters(name), _inputs(case)))
    norms = [
        np.linalg.norm(np.asarray(flat[path], np.float64)) for path in _paths(name)
    ]
    # Three biases have no gradient but rounding: 1e-8 to 1e-6.
    np.testing.assert_allclose(norms, expected["grad/norm"], rtol=1e-3, atol=2e-5)
    total = float(np.sqrt(np.square(norms).sum()))
    assert total == pytest.approx(float(expected["grad/global_norm"]), rel=1e-4)
