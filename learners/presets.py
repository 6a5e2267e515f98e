"""Presets: complete runs of every agent, at three sizes.

In: an agent's name, a size and the converter settings. Out: a `Run`. `tiny` trains on a laptop,
`lite` on one accelerator, and `full` is the paper's scale. `lite` and `full` share the paper's batches
and frames; only `tiny` has its own (`agents.AgentRecord.tiny`).
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from starmill.learners import agents, runs
from starmill.learners.networks.network import NetworkConfig
from starmill.learners.optimizer import OptimizerConfig
from starmill.learners.runs import Run
from starmill.schema import errors
from starmill.schema.settings import UNPLUGGED, ConverterSettings

NETWORKS: Mapping[str, NetworkConfig] = MappingProxyType(
    {
        # Without the points, attention among 256 units takes more than half of an update.
        "tiny": NetworkConfig(unit_points=16),
        "lite": NetworkConfig(
            vector=256,
            vector_blocks=2,
            unit=64,
            unit_blocks=2,
            unit_heads=2,
            unit_hidden=128,
            unit_orders=2,
            plane_pool=1,
            plane_patch=2,
            plane_channels=(32, 48, 64),
            plane_blocks=2,
            world_blocks=1,
            scatter=16,
            pointer=64,
        ),
        # The paper gives no widths. These follow AlphaStar's published ones, with world
        # planes as fine as the grid.
        "full": NetworkConfig(
            vector=1024,
            vector_blocks=4,
            unit=256,
            unit_blocks=3,
            unit_heads=2,
            unit_hidden=1024,
            unit_orders=4,
            plane_pool=1,
            plane_patch=1,
            plane_channels=(32, 64, 128, 256),
            plane_blocks=4,
            world_blocks=1,
            scatter=32,
            pointer=256,
        ),
    }
)


def run(agent: str, size: str, settings: ConverterSettings = UNPLUGGED) -> Run:
    """Returns the preset of an agent at a size; ConfigError if there is none."""
    if size not in NETWORKS:
        raise errors.ConfigError(
            f"preset: expected one of {list(NETWORKS)}, found {size!r}"
        )
    record = agents.find(agent)
    network = dataclasses.replace(NETWORKS[size], **record.network)
    preset = Run(
        agent=record.name,
        algorithm=record.config(network=network, settings=settings),
        optim=OptimizerConfig(),
        sampler=record.sampler,
    )
    preset = runs.replace(preset, **record.full)
    return runs.replace(preset, **record.tiny) if size == "tiny" else preset
