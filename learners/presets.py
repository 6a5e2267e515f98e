"""Presets: network sizes, the paper's hyper-parameters, and ones for two CPU cores.

`run("bc", "tiny", settings)` is a complete `Run`. Sizes: `tiny` trains on a laptop, `lite` on
one accelerator, `full` is the paper's scale. Only `tiny` scales down batch and frames.
Sources: the table in the paper's appendix as settled by the reference agents' notes; where
the paper gives no number, the comment says so.
"""

import dataclasses
from collections.abc import Callable

from starmill.learners import optimizer, runs
from starmill.learners.algorithms import (
    awr,
    bc,
    contract,
    crr,
    eoac,
    muzero,
    oac,
    rbve,
)
from starmill.learners.networks.network import Config
from starmill.schema import errors
from starmill.schema.settings import UNPLUGGED, ConverterSettings

NETWORKS = {
    # Without the points, weights between 256 units take more than half of an update.
    "tiny": Config(unit_points=16),
    "lite": Config(
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
    # The paper gives no widths; these follow AlphaStar's published ones, with a world plane
    # as fine as the grid.
    "full": Config(
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
AGENTS = tuple(runs.ALGORITHMS)


def run(
    agent: str,
    size: str,
    settings: ConverterSettings = UNPLUGGED,
) -> runs.Run:
    """Returns the preset of an agent at a size; ConfigError if there is none."""
    if size not in NETWORKS:
        raise errors.ConfigError(
            f"preset: expected one of {sorted(NETWORKS)}, found {size!r}"
        )
    if agent not in _PAPER:
        raise errors.ConfigError(
            f"agent: expected one of {sorted(_PAPER)}, found {agent!r}"
        )
    common = contract.Config(network=NETWORKS[size], settings=settings)
    made = _PAPER[agent](common)
    return _TINY[agent](made) if size == "tiny" else made


def _config(kind: type, common: contract.Config, **values: object) -> contract.Config:
    network = dataclasses.replace(
        common.network,
        condition_return=bool(values.pop("condition_return", False)),
        action_values=bool(values.pop("action_values", False)),
        latent_model=bool(values.pop("latent_model", False)),
    )
    made: contract.Config = kind(network=network, settings=common.settings, **values)
    return made


# K = 1, M = 32,768: 64 batches of 512 in an update.
_CLONING = {"batch_size": 512, "accumulate": 64, "rollout": 1}


def _bc(common: contract.Config) -> runs.Run:
    return runs.Run(
        agent="bc",
        algorithm=_config(bc.Config, common, **_CLONING),
        optim=optimizer.Config(),
    )


def _ft_bc(common: contract.Config) -> runs.Run:
    return runs.Run(
        agent="ft-bc",
        algorithm=_config(bc.Config, common, **_CLONING),
        optim=optimizer.Config(learning_rate=1e-5, frames=10**9, ramp_in=10**8),
        mmr_above=6200,
        outcome=1,
    )


# The paper gives no learning rate for the actor-critics: fine-tuning's.
_ACTOR_CRITIC = optimizer.Config(learning_rate=1e-5, frames=10**9, clip="after")


def _oac(common: contract.Config) -> runs.Run:
    return runs.Run(
        agent="oac",
        algorithm=_config(oac.Config, common, batch_size=64, accumulate=8),
        optim=_ACTOR_CRITIC,
    )


def _eoac(common: contract.Config) -> runs.Run:
    return runs.Run(
        agent="eoac",
        algorithm=_config(eoac.Config, common, batch_size=64, accumulate=8),
        optim=_ACTOR_CRITIC,
        sampler="consecutive",
    )


def _mzs(common: contract.Config) -> runs.Run:
    return runs.Run(
        agent="mzs",
        # n = 512. Unrolled steps, batch and decay are not given: MuZero's 5, and 1e-4.
        algorithm=_config(
            muzero.Config,
            common,
            batch_size=64,
            accumulate=8,
            rollout=513,
            unroll=6,
            bootstrap=True,
            latent_model=True,
        ),
        optim=optimizer.Config(learning_rate=1e-3, weight_decay=1e-4),
    )


def _rcbc(common: contract.Config) -> runs.Run:
    return runs.Run(
        agent="rcbc",
        algorithm=_config(bc.Config, common, condition_return=True, **_CLONING),
        optim=optimizer.Config(),
    )


def _valued(agent: str, kind: type) -> Callable[[contract.Config], runs.Run]:
    """Further baselines: behaviour cloning's schedule, short rollouts for their Q."""

    def make(common: contract.Config) -> runs.Run:
        batch: dict[str, object] = {"batch_size": 64, "accumulate": 64, "rollout": 8}
        if kind is not awr.Config:
            batch["action_values"] = True
        return runs.Run(
            agent=agent,
            algorithm=_config(kind, common, **batch),
            optim=optimizer.Config(),
        )

    return make


_PAPER: dict[str, Callable[[contract.Config], runs.Run]] = {
    "bc": _bc,
    "ft-bc": _ft_bc,
    "oac": _oac,
    "eoac": _eoac,
    "mzs": _mzs,
    "rcbc": _rcbc,
    "crr": _valued("crr", crr.Config),
    "rbve": _valued("rbve", rbve.Config),
    "awr": _valued("awr", awr.Config),
}


def _scaled(**changes: object) -> Callable[[runs.Run], runs.Run]:
    return lambda made: runs.replace(made, **changes)


# For two CPU cores and a dataset of some hundred Skirmish games: minutes, not months. Single
# steps, as the paper's: those of a rollout are alike, and batches are small. One network serves
# behaviour cloning and, having a value, as the start of the actor-critics.
_TINY_CLONING: dict[str, object] = {
    "batch_size": 256,
    "accumulate": 1,
    "rollout": 1,
    "value_weight": 10.0,
    "weight_penalty": 0.0,
    "learning_rate": 1e-3,
    "frames": 250_000,
    "save_every": 200,
}
_TINY_SHORT: dict[str, object] = {"accumulate": 1, "save_every": 100}
_TINY: dict[str, Callable[[runs.Run], runs.Run]] = {
    "bc": _scaled(**_TINY_CLONING),
    # Skirmish ratings end lower than the ladder's: winners among the better half.
    "ft-bc": _scaled(
        **{
            **_TINY_CLONING,
            "learning_rate": 2e-4,
            "frames": 50_000,
            "ramp_in": 5_000,
            "mmr_above": None,
            "save_every": 100,
        }
    ),
    "oac": _scaled(
        **_TINY_SHORT,
        batch_size=16,
        rollout=32,
        trained=16,
        learning_rate=1e-4,
        frames=80_000,
    ),
    "eoac": _scaled(
        **_TINY_SHORT,
        batch_size=16,
        rollout=33,
        trained=16,
        n=16,
        learning_rate=1e-4,
        frames=80_000,
    ),
    "mzs": _scaled(
        **_TINY_SHORT,
        batch_size=128,
        rollout=6,
        unroll=6,
        bootstrap=False,
        frames=1_000_000,
    ),
    "rcbc": _scaled(**_TINY_CLONING),
    "crr": _scaled(
        **_TINY_SHORT,
        batch_size=32,
        rollout=8,
        learning_rate=1e-3,
        frames=250_000,
    ),
    "rbve": _scaled(
        **_TINY_SHORT,
        batch_size=32,
        rollout=8,
        learning_rate=1e-3,
        frames=250_000,
    ),
    "awr": _scaled(
        **_TINY_SHORT,
        batch_size=32,
        rollout=8,
        learning_rate=1e-3,
        frames=250_000,
    ),
}
