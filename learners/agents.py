"""The agents: one record each, with everything that makes one differ from another.

In: nothing. Out: `AGENTS` by name, and `find`, which also takes the names that earlier versions
used. Must not know: network sizes (`presets`), runs and files.

To add an agent, write its algorithm and one record here. `full` holds the paper's numbers and
`tiny` what two CPU cores need instead; both name fields of the run, of its algorithm or of its
optimizer. The tests then train and overfit it.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from starmill.learners.algorithms import (
    awr,
    bc,
    bcq,
    crr,
    cwp,
    eoac,
    muzero,
    oac,
    ppo,
    q_learning,
    rbve,
    sarsa,
)
from starmill.learners.algorithms.contract import Algorithm, AlgorithmConfig
from starmill.schema import errors

POLICY, ACTION_VALUES = "policy", "action values"
WEIGHTED_POLICY = "policy weighted by action values"
ConfigT = TypeVar("ConfigT", bound=AlgorithmConfig)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentRecord(Generic[ConfigT]):
    """What is particular to one agent.

    Attributes:
        name: on the command line and in stored runs.
        aliases: names that are read as this one: those that earlier versions stored.
        algorithm: the module with its `init` and `loss`.
        config: the record that the algorithm takes.
        starts_from: the agent whose parameters it improves; None if it starts fresh.
        sampler: of the dataset's batches (`schema.loader.samplers`).
        has_behaviour: whether its carry keeps a frozen behaviour policy. If so, that policy
            chooses all arguments but function and delay when the agent acts.
        function_from: what chooses the function when acting: POLICY; ACTION_VALUES for the
            highest Q among the functions that the policy finds likely; or WEIGHTED_POLICY to
            draw from pi exp(Q).
        likely: how likely a function must be for ACTION_VALUES, relative to the likeliest; 0
            considers all functions.
        network: fields of the network's config that the algorithm needs.
        full: fields of the run, its algorithm or optimizer at the paper's scale. Fields that
            are not named keep their defaults, which are the paper's too.
        tiny: fields that differ from `full` on two CPU cores.
    """

    name: str
    aliases: tuple[str, ...] = ()
    algorithm: Algorithm[ConfigT]
    config: type[ConfigT]
    starts_from: str | None = None
    sampler: str = "episode"
    has_behaviour: bool = False
    function_from: str = POLICY
    likely: float = 0.05
    network: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    full: Mapping[str, Any]
    tiny: Mapping[str, Any]


# K = 1 and M = 32,768, as 64 batches of 512 in an update.
_CLONING = MappingProxyType({"batch_size": 512, "accumulate": 64, "rollout": 1})
# The learning rate is the paper's for all experiments that name no other: 5e-4.
_ACTOR_CRITIC = MappingProxyType(
    {
        "batch_size": 64,
        "accumulate": 8,
        "frames": 10**9,
        "clip": "after",
    }
)
# The further baselines: behaviour cloning's schedule, and short rollouts for their Q.
_BASELINE = MappingProxyType({"batch_size": 64, "accumulate": 64, "rollout": 8})

# `tiny` trains for minutes on some hundred Skirmish games. It keeps the paper's single steps,
# because the steps of a rollout are alike and its batches are small. Its networks have a value,
# so that one clone also serves as the start of the actor-critics.
_TINY_CLONING = MappingProxyType(
    {
        "batch_size": 256,
        "accumulate": 1,
        "rollout": 1,
        "value_weight": 10.0,
        "weight_penalty": 0.0,
        "learning_rate": 1e-3,
        "frames": 250_000,
        "save_every": 200,
    }
)
_TINY_ACTOR_CRITIC = MappingProxyType(
    {
        "accumulate": 1,
        "save_every": 100,
        "batch_size": 16,
        "rollout": 32,
        "trained": 16,
        "learning_rate": 1e-4,
        "frames": 80_000,
    }
)
_TINY_BASELINE = MappingProxyType(
    {
        "accumulate": 1,
        "save_every": 100,
        "batch_size": 32,
        "rollout": 8,
        "learning_rate": 1e-3,
        "frames": 250_000,
    }
)

_RECORDS = (
    AgentRecord(
        name="bc",
        algorithm=bc,
        config=bc.Config,
        full=_CLONING,
        tiny=_TINY_CLONING,
    ),
    AgentRecord(
        name="ft-bc",
        algorithm=bc,
        config=bc.Config,
        starts_from="bc",
        full={
            **_CLONING,
            "learning_rate": 1e-5,
            "frames": 10**9,
            "ramp_in": 10**8,
            "mmr_above": 6200,
            "outcome": 1,
        },
        tiny={
            **_TINY_CLONING,
            "learning_rate": 2e-4,
            "frames": 50_000,
            "ramp_in": 5_000,
            # Ratings on the Skirmish ladder are spread evenly from 2500 to 7000: the upper third
            # of the winners, so that some hundred games leave enough of them.
            "mmr_above": 5500,
            "save_every": 100,
        },
    ),
    AgentRecord(
        name="oac",
        algorithm=oac,
        config=oac.Config,
        starts_from="bc",
        has_behaviour=True,
        full=_ACTOR_CRITIC,
        tiny=_TINY_ACTOR_CRITIC,
    ),
    AgentRecord(
        name="e-oac",
        aliases=("eoac",),
        algorithm=eoac,
        config=eoac.Config,
        starts_from="bc",
        sampler="consecutive",
        has_behaviour=True,
        full=_ACTOR_CRITIC,
        tiny={**_TINY_ACTOR_CRITIC, "rollout": 33, "n": 16},
    ),
    # MZS-MCTS is this agent, searching when it acts.
    AgentRecord(
        name="mzs",
        algorithm=muzero,
        config=muzero.Config,
        network={"latent_model": True},
        full={
            # The paper gives neither the unrolled steps (MuZero has 5 after the first), nor
            # the batch, nor the weight decay.
            "rollout": 6,
            "unroll": 6,
            "bootstrap": True,
            "ahead": 512,
            "batch_size": 64,
            "accumulate": 8,
            "learning_rate": 1e-3,
            "weight_decay": 1e-4,
        },
        tiny={
            "accumulate": 1,
            "save_every": 100,
            "batch_size": 128,
            "rollout": 6,
            "unroll": 6,
            "bootstrap": False,
            "ahead": 0,
            "frames": 1_000_000,
        },
    ),
    AgentRecord(
        name="rcbc",
        algorithm=bc,
        config=bc.Config,
        network={"condition_return": True},
        full=_CLONING,
        tiny=_TINY_CLONING,
    ),
    AgentRecord(
        name="crr",
        algorithm=crr,
        config=crr.Config,
        network={"action_values": True},
        full=_BASELINE,
        tiny=_TINY_BASELINE,
    ),
    AgentRecord(
        name="rbve",
        algorithm=rbve,
        config=rbve.Config,
        function_from=ACTION_VALUES,
        network={"action_values": True},
        full=_BASELINE,
        tiny=_TINY_BASELINE,
    ),
    AgentRecord(
        name="q-learning",
        algorithm=q_learning,
        config=q_learning.Config,
        function_from=ACTION_VALUES,
        likely=0.0,
        network={"action_values": True},
        full=_BASELINE,
        tiny=_TINY_BASELINE,
    ),
    AgentRecord(
        name="sarsa",
        algorithm=sarsa,
        config=sarsa.Config,
        function_from=ACTION_VALUES,
        likely=0.0,
        network={"action_values": True},
        full=_BASELINE,
        tiny=_TINY_BASELINE,
    ),
    AgentRecord(
        name="bcq",
        algorithm=bcq,
        config=bcq.Config,
        function_from=ACTION_VALUES,
        likely=bcq.THRESHOLD,
        network={"action_values": True},
        full=_BASELINE,
        tiny=_TINY_BASELINE,
    ),
    AgentRecord(
        name="cwp",
        algorithm=cwp,
        config=cwp.Config,
        function_from=WEIGHTED_POLICY,
        network={"action_values": True},
        full=_BASELINE,
        tiny=_TINY_BASELINE,
    ),
    AgentRecord(
        name="ppo",
        algorithm=ppo,
        config=ppo.Config,
        starts_from="bc",
        has_behaviour=True,
        full=_ACTOR_CRITIC,
        tiny={
            name: value
            for name, value in _TINY_ACTOR_CRITIC.items()
            if name != "trained"
        },
    ),
    AgentRecord(
        name="awr",
        algorithm=awr,
        config=awr.Config,
        full=_BASELINE,
        tiny=_TINY_BASELINE,
    ),
)
AGENTS: Mapping[str, AgentRecord[Any]] = MappingProxyType(
    {record.name: record for record in _RECORDS}
)
# Every word that `find` understands.
NAMES = tuple(name for record in _RECORDS for name in (record.name, *record.aliases))


def find(name: str) -> AgentRecord[Any]:
    """Returns the agent of that name or alias; ConfigError lists the names if there is none."""
    for record in _RECORDS:
        if name in (record.name, *record.aliases):
            return record
    raise errors.ConfigError(f"agent: expected one of {list(AGENTS)}, found {name!r}")
