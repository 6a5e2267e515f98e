"""A checkpoint that acts: observation dicts in, action dicts out.

`load(folder)` gives an `Agent` for one game at a time; an `Actor` takes many observations at
once, each with its own memory of its game. Temperature 0.8 and the highest rating are the
paper's way to play. OAC's other five arguments come from the behaviour policy it started from;
MZS can search (`search=20`: sampled actions), which makes it MZS-MCTS.
"""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from starmill.learners import (
    agent_file,
    checkpoint,
    rollouts,
    runs,
)
from starmill.learners import (
    search as mcts,
)
from starmill.learners.algorithms import contract
from starmill.learners.networks import layers, policy
from starmill.learners.networks import network as networks
from starmill.schema import errors, specs

Arrays = dict[str, NDArray[Any]]
# RCBC is told that it will win.
_WIN = 3
# R-BVE picks among functions at least this likely, relative to the likeliest.
_PLAUSIBLE = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How a checkpoint plays.

    temperature: divides logits. mmr: the rating input; 0 for the training data's highest.
    search: sampled actions of a search (MZS only); 0 for none. simulations: of a search.
    """

    temperature: float = 0.8
    mmr: int = 0
    search: int = 0
    simulations: int = 32

    def __post_init__(self) -> None:
        """Checks ranges."""
        if not self.temperature > 0:
            raise errors.ConfigError(
                f"temperature: must be positive, found {self.temperature}"
            )
        if self.search < 0 or self.simulations < 1:
            raise errors.ConfigError(
                f"search {self.search} with {self.simulations} simulations: expected 0 "
                "or more, with at least 1"
            )


def load(path: Path | str, **options: str) -> "Agent":
    """Returns the agent of a run's newest checkpoint, or a packed one; options as `Options`."""
    kinds = {"temperature": float, "mmr": int, "search": int, "simulations": int}
    unknown = sorted(set(options) - set(kinds))
    if unknown:
        raise errors.ConfigError(
            f"agent options: unknown {unknown}; expected some of {sorted(kinds)}"
        )
    values: dict[str, Any] = {}
    for name, text in options.items():
        try:
            values[name] = kinds[name](text)
        except ValueError as error:
            raise errors.ConfigError(
                f"agent option {name}: expected a number, found {text!r}"
            ) from error
    return Agent(load_actor(path, Options(**values)))


def load_actor(path: Path | str, options: Options) -> "Actor":
    """Returns the batched form of a run's newest checkpoint."""
    meta, arrays = agent_file.load(Path(path))
    run = runs.from_json(meta.run)
    config = run.algorithm
    shapes = networks.shapes(config.network, config.settings)
    params, missing = checkpoint.graft(arrays, shapes, prefix="0")
    if missing:
        raise errors.FormatError(f"{path}: parameters {missing[:4]} are missing")
    behaviour = None
    if run.agent in ("oac", "eoac"):
        behaviour, missing = checkpoint.graft(arrays, shapes, prefix="2/behaviour")
        if missing:
            raise errors.FormatError(f"{path}: behaviour {missing[:4]} is missing")
    if options.mmr == 0:
        options = dataclasses.replace(options, mmr=meta.max_mmr)
    return Actor(run, params, behaviour, options)


@dataclasses.dataclass
class Memory:
    """What an actor remembers of one game.

    previous: the last action's arguments that are inputs. state: the network's memory.
    rows: unit rows that its observations are cut to; grows, never shrinks, within a game.
    """

    seed: int
    step: int
    rows: int
    previous: dict[str, int]
    state: Any


class Actor:
    """Acts in many games at once."""

    def __init__(
        self,
        run: runs.Run,
        params: contract.Params,
        behaviour: contract.Params | None,
        options: Options,
    ) -> None:
        if options.search and not run.algorithm.network.latent_model:
            raise errors.ConfigError(
                f"search={options.search}: {run.agent} has no latent model to search in"
            )
        self._run, self._options = run, options
        self._params, self._behaviour = params, behaviour
        self._settings = run.algorithm.settings
        every = specs.episode_specs(self._settings)
        self._inputs = {
            key: spec.shape
            for key, spec in every.items()
            if not key.startswith("action/")
        }
        self._arguments = tuple(specs.action_specs(self._settings))
        self._act = jax.jit(functools.partial(_act, run=run, options=options))

    @property
    def settings(self) -> Any:
        """Returns the converter settings whose observations it takes, actions left out."""
        return self._settings

    def begin(self, seed: int) -> Memory:
        """Returns the memory of a game that begins."""
        config = self._run.algorithm.network
        network = networks.merge(self._params, config, self._settings)
        state = {"own": network.memory.initial(1)}
        if self._behaviour is not None:
            state["behaviour"] = network.memory.initial(1)
        previous = dict.fromkeys(rollouts.PREVIOUS, 0)
        # Keys are made from 32 bits.
        seed &= 0xFFFFFFFF
        return Memory(seed=seed, step=0, rows=0, previous=previous, state=state)

    def act(
        self, observations: Sequence[Arrays], memories: Sequence[Memory]
    ) -> list[Arrays]:
        """Returns one action for each observation; the memories are brought up to date.

        An action depends on its own game alone, not on who else is in the batch.
        """
        frames = [
            self._prepare(observation, memory)
            for observation, memory in zip(observations, memories, strict=True)
        ]
        out: list[Arrays] = [{}] * len(frames)
        # By number of rows: padding others would change the random numbers drawn.
        for rows in sorted({memory.rows for memory in memories}):
            group = [i for i, memory in enumerate(memories) if memory.rows == rows]
            actions = self._act_alike(
                [frames[i] for i in group], [memories[i] for i in group], rows
            )
            for index, action in zip(group, actions, strict=True):
                out[index] = action
        return out

    def _act_alike(
        self, frames: Sequence[Arrays], memories: Sequence[Memory], rows: int
    ) -> list[Arrays]:
        stacked = {
            name: np.stack([_grown(one[name], name, rows) for one in frames])
            for name in frames[0]
        }
        actions, states = self._act(
            self._params,
            self._behaviour,
            stacked,
            np.asarray([memory.seed for memory in memories], np.uint32),
            np.asarray([memory.step for memory in memories], np.uint32),
            jax.tree.map(
                lambda *leaves: jnp.concatenate(leaves),
                *[memory.state for memory in memories],
            ),
        )
        actions = {name: np.asarray(value) for name, value in actions.items()}
        out = []
        for i, memory in enumerate(memories):
            one = {name: np.asarray(actions[name][i]) for name in self._arguments}
            memory.step += 1
            memory.state = jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], states)
            memory.previous = {
                name: int(one[name]) for name in rollouts.PREVIOUS if name in one
            }
            out.append(one)
        return out

    def _prepare(self, observation: Arrays, memory: Memory) -> Arrays:
        missing = sorted(key for key in self._inputs if key not in observation)
        if missing:
            raise errors.SpecError(f"observation: expected {missing} too")
        one = {
            key: np.asarray(observation[key]).reshape(shape)
            for key, shape in self._inputs.items()
        }
        one["mmr"] = np.int32(self._options.mmr)  # type: ignore[assignment]  # a scalar array
        trimmed = rollouts.trim_units(one, self._settings)
        memory.rows = max(memory.rows, trimmed["units"].shape[0])
        delay = np.asarray(observation.get("prev_delay", 0), np.int32).reshape(())
        trimmed["prev_delay"] = delay
        for name, value in memory.previous.items():
            trimmed[f"prev_{name}"] = np.int32(value)
        trimmed["step_type"] = np.int32(0 if memory.step == 0 else 1)
        trimmed["target_return"] = np.int32(_WIN)
        return trimmed


class Agent:
    """Plays one side of one game at a time: the benchmark's agent protocol."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._memory = actor.begin(0)

    @property
    def settings(self) -> Any:
        """Returns the converter settings whose observations it takes."""
        return self._actor.settings

    def reset(self, seed: int, race: str = "") -> None:
        """Begins a game; the race is in the observations."""
        self._memory = self._actor.begin(seed)

    def act(self, observation: Arrays) -> Arrays:
        """Returns the action for the present observation."""
        return self._actor.act([observation], [self._memory])[0]


def _act(
    params: contract.Params,
    behaviour: contract.Params | None,
    frames: rollouts.Batch,
    seeds: jax.Array,
    steps: jax.Array,
    states: Any,
    *,
    run: runs.Run,
    options: Options,
) -> tuple[policy.Action, Any]:
    config = run.algorithm
    network = networks.merge(params, config.network, config.settings)
    single = {name: value[:, None] for name, value in frames.items()}
    latent, own = network.unroll(single, states["own"])
    chooser, rest, after = network, latent, {"own": own}
    if behaviour is not None:
        chooser = networks.merge(behaviour, config.network, config.settings)
        rest, after["behaviour"] = chooser.unroll(single, states["behaviour"])

    def one(
        vector: jax.Array, rest: policy.Latent, seed: jax.Array, step: jax.Array
    ) -> policy.Action:
        key = jax.random.fold_in(jax.random.key(seed), step)
        first, second = jax.random.split(key)
        function, delay = _function_delay(network, vector[None], first, run, options)
        alone = jax.tree.map(lambda leaf: leaf[None], rest)
        action = chooser.policy.sample_rest(
            alone, function, delay, second, options.temperature
        )
        return {name: value[0].astype(jnp.int32) for name, value in action.items()}

    action = jax.vmap(one)(latent.vector, rest, seeds, steps)
    return action, after


def _function_delay(
    network: networks.Network,
    vector: jax.Array,
    key: jax.Array,
    run: runs.Run,
    options: Options,
) -> tuple[jax.Array, jax.Array]:
    heads, temperature = network.policy, options.temperature
    if options.search:
        found = mcts.search(
            key,
            vector,
            mcts.network_model(network, temperature),
            mcts.Config(actions=options.search, simulations=options.simulations),
        )
        return found.action  # type: ignore[no-any-return]  # (function, delay)
    function, delay = heads.sample_function_delay(vector, key, temperature)
    if run.agent == "rbve":
        logits = heads.function_logits(vector)
        likely = logits >= logits.max(-1, keepdims=True) + np.log(_PLAUSIBLE)
        q = jnp.where(likely, network.action_values(vector), -jnp.inf)
        function = q.argmax(-1).astype(jnp.int32)
        index = layers.choose(key, heads.delay_logits(vector, function), temperature)
        delay = index + 1
    return function, delay


def _grown(value: NDArray[Any], name: str, rows: int) -> NDArray[Any]:
    if name != "units" or len(value) == rows:
        return np.asarray(value)
    return np.pad(value, ((0, rows - len(value)), (0, 0)))
