"""A training run as a record: which agent, on which episodes, with which numbers.

In: presets, JSON, options of the command line. Out: a frozen `Run` that is written beside
everything it makes, and read back by agents and by runs that go on.
"""

import dataclasses
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from starmill.learners import optimizer as optim
from starmill.learners.algorithms import (
    awr,
    bc,
    crr,
    eoac,
    muzero,
    oac,
    rbve,
)
from starmill.learners.algorithms import (
    contract as algorithm,
)
from starmill.learners.networks.network import Config
from starmill.schema import errors, settings

# Agents by name. MZS-MCTS is MZS with a search when acting; RCBC is BC told the outcome.
ALGORITHMS: Mapping[str, algorithm.Algorithm] = MappingProxyType(
    {
        "bc": bc,
        "ft-bc": bc,
        "oac": oac,
        "eoac": eoac,
        "mzs": muzero,
        "rcbc": bc,
        "crr": crr,
        "rbve": rbve,
        "awr": awr,
    }
)
CONFIGS: Mapping[str, type[algorithm.Config]] = MappingProxyType(
    {
        "bc": bc.Config,
        "ft-bc": bc.Config,
        "oac": oac.Config,
        "eoac": eoac.Config,
        "mzs": muzero.Config,
        "rcbc": bc.Config,
        "crr": crr.Config,
        "rbve": rbve.Config,
        "awr": awr.Config,
    }
)
# Agents that start from another's parameters: what they improve on.
STARTS_FROM: Mapping[str, str] = MappingProxyType(
    {"ft-bc": "bc", "oac": "bc", "eoac": "bc"}
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that decides what comes out, but for the data itself.

    agent: a name of ALGORITHMS. algorithm: its Config, batch and network included.
    sampler: of the dataset's batches; "consecutive" for eoac.
    mmr_above, outcome: which training episodes; None for all.
    hold_out: of a thousand training games, how many are kept from training, to be evaluated
        with those of the held-out split; a small dataset has few of its own.
    log_every, save_every: in updates; save_every is a multiple of log_every.
    """

    agent: str
    algorithm: algorithm.Config
    optim: optim.Config
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
        if self.agent not in ALGORITHMS:
            problems.append(
                f"agent: expected one of {sorted(ALGORITHMS)}, found {self.agent!r}"
            )
        elif not isinstance(self.algorithm, CONFIGS[self.agent]):
            problems.append(
                f"algorithm: {self.agent} takes {CONFIGS[self.agent].__module__}.Config,"
                f" found {type(self.algorithm).__module__}.Config"
            )
        if self.log_every < 1 or self.save_every % self.log_every:
            problems.append(
                f"save_every: expected a multiple of log_every {self.log_every}, "
                f"found {self.save_every}"
            )
        if not 0 <= self.hold_out < 1000:
            problems.append(f"hold_out: expected 0 to 999, found {self.hold_out}")
        for name in ("batch_size", "rollout", "accumulate"):
            if getattr(self.algorithm, name) < 1:
                problems.append(f"{name}: must be at least 1")
        if (self.agent == "eoac") != (self.sampler == "consecutive"):
            problems.append(
                f"sampler: eoac, and only eoac, reads consecutive rollouts; "
                f"found {self.sampler!r} with {self.agent}"
            )
        if problems:
            raise errors.ConfigError("run: " + "; ".join(problems))

    @property
    def frames_per_update(self) -> int:
        """Returns M * K, accumulated batches included."""
        config = self.algorithm
        return config.batch_size * config.rollout * config.accumulate

    @property
    def updates(self) -> int:
        """Returns how many updates the frames make, rounded up."""
        return -(-self.optim.frames // self.frames_per_update)

    def to_json(self) -> dict[str, Any]:
        """Returns the run as JSON."""
        out = dataclasses.asdict(self)
        out["algorithm"]["settings"] = self.algorithm.settings.to_json()
        out["algorithm"]["network"]["plane_channels"] = list(
            self.algorithm.network.plane_channels
        )
        return out


def from_json(data: Mapping[str, Any]) -> Run:
    """Returns a run from its JSON; unknown keys are errors."""
    values = dict(data)
    agent = str(values.get("agent"))
    if agent not in CONFIGS:
        raise errors.ConfigError(
            f"agent: expected one of {sorted(CONFIGS)}, found {agent!r}"
        )
    parts = dict(_mapping(values, "algorithm"))
    network = dict(_mapping(parts, "network"))
    if "plane_channels" in network:
        network["plane_channels"] = tuple(network["plane_channels"])
    parts["network"] = _record(Config, network, "network")
    if "settings" in parts:
        parts["settings"] = settings.from_json(parts["settings"])
    values["algorithm"] = _record(CONFIGS[agent], parts, "algorithm")
    values["optim"] = _record(optim.Config, _mapping(values, "optim"), "optim")
    return typing.cast(Run, _record(Run, values, "run"))


def replace(run: Run, **changes: Any) -> Run:
    """Returns the run with fields changed, wherever they are: in it, its algorithm or optim."""
    own: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    outer: dict[str, Any] = {}
    for name, value in changes.items():
        for fields, record in ((own, run), (inner, run.algorithm), (outer, run.optim)):
            if hasattr(record, name):
                fields[name] = value
                break
        else:
            raise errors.ConfigError(f"run: {run.agent} has no {name!r}")
    return dataclasses.replace(
        run,
        algorithm=dataclasses.replace(run.algorithm, **inner),
        optim=dataclasses.replace(run.optim, **outer),
        **own,
    )


def differences(ours: Any, theirs: Any, where: str = "") -> list[str]:
    """Returns one line for each place in which two JSON values differ."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        lines = []
        for key in sorted({*ours, *theirs}):
            inner = f"{where}.{key}" if where else str(key)
            lines += differences(ours.get(key), theirs.get(key), inner)
        return lines
    return [] if ours == theirs else [f"{where}: {theirs!r} -> {ours!r}"]


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key, {})
    if not isinstance(found, Mapping):
        raise errors.ConfigError(
            f"{key}: expected an object, found {type(found).__name__}"
        )
    return found


def _record(kind: type, values: Mapping[str, Any], where: str) -> Any:
    names = {field.name for field in dataclasses.fields(kind)}
    unknown = sorted(set(values) - names)
    if unknown:
        raise errors.ConfigError(
            f"{where}: unknown keys {unknown}; expected some of {sorted(names)}"
        )
    return kind(**values)
