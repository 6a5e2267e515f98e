"""The network's parameters as a plain nested dict, which losses and checkpoints understand.

In: a `NetworkConfig` and the converter settings. Out: parameters, or their shapes; and a
`Network` that holds given ones. Nothing outside this package needs to know flax.

    params = parameters.init(seed, config, settings)
    network = parameters.merge(params, config, settings)     # inside jit
    latent = network.encode(frames)

The keys are the names of the modules' attributes. Checkpoints store arrays under them, so an
attribute that is renamed makes old checkpoints unreadable.
"""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from starmill.learners.networks.compact.config import CompactConfig
from starmill.learners.networks.compact.network import CompactNetwork, keys_without_use
from starmill.learners.networks.network import Network, NetworkConfig
from starmill.learners.networks.published_network import (
    PublishedConfig,
    PublishedNetwork,
)
from starmill.schema.settings import ConverterSettings

Params = dict[str, Any]
# Parts that consist of others worth a line of their own.
_LISTED = ("policy", "published")
AnyConfig = NetworkConfig | PublishedConfig | CompactConfig
AnyNetwork = Network | PublishedNetwork | CompactNetwork
# Each network has a kind of latent of its own, which its policy takes.
AnyLatent = Any

# The part of a policy whose arrays are counted instead of trained.
_COUNTED = "legal"
# The parts of a network that always compute in single precision.
_SINGLE_PRECISION = frozenset(
    {"policy", "value_head", "action_value_head", "dynamics", "memory"}
    | {"scalars", "unit_tags", "target", "world"}
)
# The layers whose precision can be chosen.
_LAYERS = (nnx.Linear, nnx.Conv, nnx.Embed, nnx.LayerNorm)


def init(seed: int, config: AnyConfig, settings: ConverterSettings) -> Params:
    """Returns fresh parameters, which depend on the seed and the shapes alone.

    A published architecture has its published initialisers. In our own network, kernels are
    normal with variance 1 / fan-in, embeddings with 1 / width; biases are 0 and scales 1. All
    are drawn by numpy, because compiling JAX's own initialisers takes longer than a test may.
    """
    if isinstance(config, PublishedConfig):
        built = _build(config, settings, jax.random.key(seed))
        fresh: Params = nnx.to_pure_dict(nnx.state(built, nnx.Param))
        return fresh
    leaves, tree = jax.tree_util.tree_flatten_with_path(shapes(config, settings))
    rng = np.random.default_rng([seed, len(leaves)])

    def draw(path: Any, leaf: jax.ShapeDtypeStruct) -> jax.Array:
        name = str(path[-1].key)
        if name == "scale":
            return jnp.ones(leaf.shape, leaf.dtype)
        if name not in ("kernel", "embedding"):
            return jnp.zeros(leaf.shape, leaf.dtype)
        inputs = leaf.shape[-1] if name == "embedding" else np.prod(leaf.shape[:-1])
        values = rng.standard_normal(leaf.shape, np.float32) / np.sqrt(inputs)
        return jnp.asarray(values.astype(leaf.dtype))

    return jax.tree.unflatten(tree, [draw(path, leaf) for path, leaf in leaves])


def shapes(config: AnyConfig, settings: ConverterSettings) -> Params:
    """Returns the shapes of the parameters without allocating them."""
    return nnx.to_pure_dict(nnx.state(_abstract(config, settings), nnx.Param))


def merge(params: Params, config: AnyConfig, settings: ConverterSettings) -> AnyNetwork:
    """Returns the network with these parameters. It is cheap and meant for use inside jit.

    The parameters stay in single precision. With `config.compute` "bfloat16", what encodes
    observations computes in it; memory and heads do not, so that probabilities stay exact.
    """
    network = nnx.merge(_graph(config, settings), params)
    if config.compute == "bfloat16":
        for path, node in nnx.iter_graph(network):
            # The parts of a published network are one level further down.
            parts = path[1:] if path[:1] == ("published",) else path
            if isinstance(node, _LAYERS) and parts[0] not in _SINGLE_PRECISION:
                node.dtype = jnp.bfloat16
    if config.remat:
        _compute_again(network)
    return network


class _Again(nnx.Module):
    """A block whose inside the backward pass computes again."""

    def __init__(self, block: nnx.Module) -> None:
        self.block = block

    def __call__(self, *inputs: Any) -> Any:
        """Returns what the block makes of its inputs."""
        graph, params = nnx.split(self.block)

        def run(params: Any, *inputs: Any) -> Any:
            block: Any = nnx.merge(graph, params)
            return block(*inputs)

        return jax.checkpoint(run)(params, *inputs)


def _compute_again(module: Any) -> None:
    """Replaces the blocks in each list of blocks, but no single layers, nor what is in blocks."""
    for child in vars(module).values():
        if isinstance(child, nnx.List):
            for number, block in enumerate(child):
                if not isinstance(block, _LAYERS):
                    child[number] = _Again(block)
        elif isinstance(child, nnx.Module):
            _compute_again(child)


def count(params: Params) -> int:
    """Returns how many numbers the parameters (or their shapes) hold."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))


def parts(params: Params) -> dict[str, int]:
    """Returns how many numbers each part of the network holds, by name and in order of size.

    The parts of the policy and of a published network are listed one by one.
    """
    counts: dict[str, int] = {}
    for name, part in params.items():
        if name in _LISTED:
            counts |= {f"{name}.{one}": count(inner) for one, inner in part.items()}
        else:
            counts[name] = count(part)
    return dict(sorted(counts.items(), key=lambda pair: -pair[1]))


def is_counted(path: Any) -> bool:
    """Returns whether the array at a path of parameters is a count of the data: never trained."""
    return any(getattr(key, "key", None) == _COUNTED for key in path)


def with_counts(params: Params, tables: Mapping[str, Any]) -> Params:
    """Returns the parameters with the tables of legal actions in them (`learners.counts`)."""
    arrays = {name: jnp.asarray(table) for name, table in tables.items()}
    legal = {**params["policy"][_COUNTED], "tables": arrays}
    return {**params, "policy": {**params["policy"], _COUNTED: legal}}


def without_counts(params: Params) -> Params:
    """Returns the parameters of the same network without legal actions."""
    heads = {n: part for n, part in params["policy"].items() if n != _COUNTED}
    return {**params, "policy": heads}


def trained_only(tree: Params) -> Params:
    """Returns a tree like the parameters with zeros in place of what is never trained."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: jnp.zeros_like(leaf) if is_counted(path) else leaf, tree
    )


def unread_keys(config: AnyConfig, settings: ConverterSettings) -> frozenset[str]:
    """Returns the dataset's arrays that the network never reads, so that none need be loaded."""
    if isinstance(config, CompactConfig):
        return keys_without_use(config, settings)
    return frozenset()


@functools.lru_cache(maxsize=32)
def _graph(config: AnyConfig, settings: ConverterSettings) -> nnx.GraphDef[AnyNetwork]:
    graph, _ = nnx.split(_abstract(config, settings), nnx.Param)
    return graph


def _abstract(config: AnyConfig, settings: ConverterSettings) -> AnyNetwork:
    return nnx.eval_shape(lambda: _build(config, settings, jax.random.key(0)))


def _build(
    config: AnyConfig, settings: ConverterSettings, key: jax.Array
) -> AnyNetwork:
    rngs = nnx.Rngs(key)
    if isinstance(config, PublishedConfig):
        return PublishedNetwork(config, settings, rngs=rngs)
    if isinstance(config, CompactConfig):
        return CompactNetwork(config, settings, rngs=rngs)
    return Network(config, settings, rngs=rngs)
