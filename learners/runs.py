"""A training run as a record: which agent, on which episodes, with which numbers.

In: presets, JSON and command-line options. Out: a frozen `Run`. It is written beside everything
that the run makes, and read back when training continues and when the agent acts.
"""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from starmill.learners import agents
from starmill.learners.algorithms.contract import AlgorithmConfig
from starmill.learners.counts import step_weights
from starmill.learners.networks.compact.config import CompactConfig
from starmill.learners.networks.network import NetworkConfig
from starmill.learners.networks.published_network import PublishedConfig
from starmill.learners.optimizer import OptimizerConfig
from starmill.schema import errors
from starmill.schema.settings import ConverterSettings

# Held-out games are counted in thousandths of the training games.
HOLD_OUT_TOTAL = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that decides the result of training, except the data itself.

    Attributes:
        agent: a name in `agents.AGENTS`. Its record says which algorithm and sampler belong
            to it.
        algorithm: the algorithm's config, with the batch and the network in it.
        optim: the optimizer's config. Stored runs know it by this name.
        sampler: of the dataset's batches.
        mmr_above: train on the episodes of players rated above this; None for all.
        outcome: train on the episodes with this outcome (1, 0 or -1); None for all.
        hold_out: of a thousand training games, how many are kept from training. They are
            evaluated together with the held-out split, of which a small dataset has little.
        seed: of the parameters, the batches and everything else that is random.
        log_every: updates between two rows of metrics.
        save_every: updates between two checkpoints; a multiple of log_every.
    """

    agent: str
    algorithm: AlgorithmConfig
    optim: OptimizerConfig
    sampler: str = "episode"
    mmr_above: int | None = None
    outcome: int | None = None
    hold_out: int = 0
    seed: int = 0
    log_every: int = 20
    save_every: int = 500

    def __post_init__(self) -> None:
        """Checks that the parts belong together."""
        problems = []
        record = agents.AGENTS.get(self.agent)
        if record is None:
            problems.append(
                f"agent: expected one of {list(agents.AGENTS)}, found {self.agent!r}"
            )
        else:
            if not isinstance(self.algorithm, record.config):
                problems.append(
                    f"algorithm: {self.agent} takes {record.config.__module__}.Config,"
                    f" found {type(self.algorithm).__module__}.Config"
                )
            if self.sampler != record.sampler:
                problems.append(
                    f"sampler: {self.agent} reads {record.sampler!r} rollouts, "
                    f"found {self.sampler!r}"
                )
        if self.log_every < 1 or self.save_every % self.log_every:
            problems.append(
                f"save_every: expected a multiple of log_every {self.log_every}, "
                f"found {self.save_every}"
            )
        if not 0 <= self.hold_out < HOLD_OUT_TOTAL:
            problems.append(
                f"hold_out: expected 0 to {HOLD_OUT_TOTAL - 1}, found {self.hold_out}"
            )
        # Raises ConfigError for names and weights that make no sense.
        step_weights.table(self.algorithm.step_weights, 0)
        for name in ("batch_size", "rollout", "accumulate"):
            value = getattr(self.algorithm, name)
            if value < 1:
                problems.append(f"{name}: must be at least 1, found {value}")
        if problems:
            raise errors.ConfigError("run: " + "; ".join(problems))

    @property
    def record(self) -> agents.AgentRecord[Any]:
        """Returns the agent's record."""
        return agents.AGENTS[self.agent]

    @property
    def frames_per_update(self) -> int:
        """Returns the frames in one update, accumulated batches included."""
        config = self.algorithm
        return config.batch_size * config.rollout * config.accumulate

    @property
    def updates(self) -> int:
        """Returns how many updates the run's frames make, rounded up."""
        return -(-self.optim.frames // self.frames_per_update)

    @property
    def is_consecutive(self) -> bool:
        """Returns whether each row of a batch continues that row of an earlier batch."""
        return self.sampler == "consecutive"

    def to_json(self) -> dict[str, Any]:
        """Returns the run as JSON."""
        values = dataclasses.asdict(self)
        values["algorithm"]["settings"] = self.algorithm.settings.to_json()
        network = values["algorithm"]["network"]
        if "plane_channels" in network:
            network["plane_channels"] = list(network["plane_channels"])
        return values


def from_json(data: Mapping[str, Any]) -> Run:
    """Returns a run from its JSON. Unknown keys are errors; aliases of agents are not."""
    values = dict(data)
    record = agents.find(str(values.get("agent")))
    values["agent"] = record.name
    algorithm = dict(_mapping(values, "algorithm"))
    network = dict(_mapping(algorithm, "network"))
    if "plane_channels" in network:
        network["plane_channels"] = tuple(network["plane_channels"])
    kind: type = PublishedConfig if "architecture" in network else NetworkConfig
    if "anchors" in network:
        kind = CompactConfig
    algorithm["network"] = _build(kind, network, "network")
    if "settings" in algorithm:
        algorithm["settings"] = ConverterSettings.from_json(algorithm["settings"])
    values["algorithm"] = _build(record.config, algorithm, "algorithm")
    values["optim"] = _build(OptimizerConfig, _mapping(values, "optim"), "optim")
    return typing.cast(Run, _build(Run, values, "run"))


def replace(run: Run, **changes: Any) -> Run:
    """Returns the run with fields changed: its own, its algorithm's or its optimizer's."""
    own: dict[str, Any] = {}
    algorithm: dict[str, Any] = {}
    optimizer: dict[str, Any] = {}
    places = ((own, run), (algorithm, run.algorithm), (optimizer, run.optim))
    for name, value in changes.items():
        for fields, part in places:
            if name in {field.name for field in dataclasses.fields(part)}:
                fields[name] = value
                break
        else:
            raise errors.ConfigError(f"run: {run.agent} has no field {name!r}")
    return dataclasses.replace(
        run,
        algorithm=dataclasses.replace(run.algorithm, **algorithm),
        optim=dataclasses.replace(run.optim, **optimizer),
        **own,
    )


def differences(ours: Any, theirs: Any, where: str = "") -> list[str]:
    """Returns one line for each place in which two JSON values differ: "path: theirs -> ours"."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        lines = []
        for key in sorted({*ours, *theirs}):
            inner = f"{where}.{key}" if where else str(key)
            lines += differences(ours.get(key), theirs.get(key), inner)
        return lines
    return [] if ours == theirs else [f"{where}: {theirs!r} -> {ours!r}"]


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = values.get(key, {})
    if not isinstance(value, Mapping):
        raise errors.ConfigError(
            f"{key}: expected an object, found {type(value).__name__}"
        )
    return value


def _build(kind: type, values: Mapping[str, Any], where: str) -> Any:
    names = {field.name for field in dataclasses.fields(kind)}
    unknown = sorted(set(values) - names)
    if unknown:
        raise errors.ConfigError(
            f"{where}: unknown keys {unknown}; expected some of {sorted(names)}"
        )
    return kind(**values)
