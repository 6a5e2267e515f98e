"""Presets: complete runs of every agent, at three sizes.

In: an agent's name, a size and the converter settings. Out: a `Run`. `tiny` is a network of our own
that trains on a laptop. `lite` and `full` are the published architectures, for one accelerator and for
the paper's scale; they share the paper's batches and frames. Only `tiny` has its own
(`agents.AgentRecord.tiny`).
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from starmill.learners import agents, runs
from starmill.learners.networks.compact.config import CompactConfig
from starmill.learners.networks.parameters import AnyConfig
from starmill.learners.networks.published_network import PublishedConfig
from starmill.learners.optimizer import OptimizerConfig
from starmill.learners.runs import Run
from starmill.schema import errors
from starmill.schema.settings import UNPLUGGED, ConverterSettings

NETWORKS: Mapping[str, AnyConfig] = MappingProxyType(
    {
        "tiny": CompactConfig(legal_actions=True),
        "lite": PublishedConfig(architecture="lite"),
        "full": PublishedConfig(architecture="full"),
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
