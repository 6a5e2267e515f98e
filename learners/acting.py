"""Trained agents that act: observation dicts in, action dicts out.

In: the folder of a training run or an agent's file, and `Options`. Out: an `Agent`, which plays one
game at a time, or an `Actor`, which takes observations of many games at once and keeps a memory
of each. An action depends on its own game alone: every call of the compiled code has the same
number of frames, whichever games they belong to, because sums over batches of different sizes
differ in their last bits. The defaults are how the paper's agents play: temperature 0.8, and a high rating.
With a search (`Options.search`), MZS becomes MZS-MCTS.
Must not know: games and environments.
"""

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from starmill.learners import (
    agent_file,
    agents,
    compiled_code,
    rollouts,
    runs,
    search,
)
from starmill.learners.losses import action_values
from starmill.learners.networks import layers, parameters, scoring, temperatures
from starmill.learners.networks.compact.config import CompactConfig
from starmill.learners.networks.parameters import AnyLatent, AnyNetwork, Params
from starmill.learners.networks.scoring import Action
from starmill.learners.runs import Run
from starmill.learners.search import Hidden, SearchConfig
from starmill.schema import errors, specs
from starmill.schema.agent import Likely
from starmill.schema.settings import ConverterSettings

Arrays = dict[str, NDArray[Any]]
# `target_return` of a win, which RCBC is told to expect.
_WIN = 3
# What the options of single arguments' temperatures begin with.
_OWN = "temperature_"
# Divides Q where it weighs the policy's functions (Wang et al. 2020: 1).
_CRITIC_TEMPERATURE = 1.0
# Functions that are kept of each step, for people who watch the game.
_LIKELY = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How an agent plays.

    Attributes:
        temperature: divides the logits; lower values play likelier actions.
        own_temperatures: by argument, the temperatures of arguments that have their own.
        mmr: the rating that the network is told; 0 for the one that training stored, which
            is high among the training data's (`training.playing_rating`).
        search: actions sampled at each node of a search; 0 for no search. Only MZS can search.
        simulations: of each search.
        lanes: frames of each call of the compiled code; empty lanes repeat a frame. A processor is
            as fast with one. An accelerator wants more, one for each game that is played at the
            same time.
        legal: whether actions that the training games never had are masked, if the agent was
            trained so. Without it, the plain policy plays.
    """

    temperature: float = 0.8
    own_temperatures: Mapping[str, float] = dataclasses.field(default_factory=dict)
    mmr: int = 0
    search: int = 0
    simulations: int = 32
    lanes: int = 1
    legal: bool = True

    def __post_init__(self) -> None:
        """Checks ranges."""
        unknown = sorted(set(self.own_temperatures) - set(temperatures.ARGUMENTS))
        if unknown:
            raise errors.ConfigError(
                f"temperature_{unknown[0]}: expected temperature_ and one of "
                f"{', '.join(temperatures.ARGUMENTS)}"
            )
        for name, value in {"": self.temperature, **self.own_temperatures}.items():
            if not value > 0:
                raise errors.ConfigError(
                    f"temperature{name and '_'}{name}: must be positive, found {value}"
                )
        if self.search < 0 or self.simulations < 1:
            raise errors.ConfigError(
                "search: expected 0 or more actions and at least 1 simulation, found "
                f"{self.search} and {self.simulations}"
            )
        if self.lanes < 1:
            raise errors.ConfigError(f"lanes: expected 1 or more, found {self.lanes}")


def load(path: Path | str, **options: str) -> "Agent":
    """Returns the agent of a run's newest checkpoint or of a file; see `load_many`."""
    return Agent(load_many(path, **options))


def load_many(path: Path | str, **options: str) -> "Actor":
    """Returns the actor of a run's newest checkpoint or of a file.

    The options are the fields of `Options` as text, as the command line has them;
    `temperature_world` is the temperature of `world` alone, and likewise for other arguments.
    What JAX compiles for the agent is kept on disk (`compiled_code`) for other runs.
    """
    compiled_code.keep()
    kinds: dict[str, Callable[[str], Any]] = {
        "temperature": float,
        "mmr": int,
        "search": int,
        "simulations": int,
        "lanes": int,
        "legal": lambda text: bool(("0", "1").index(text)),
    }
    kinds |= {f"{_OWN}{name}": float for name in temperatures.ARGUMENTS}
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
    own = {
        name.removeprefix(_OWN): values.pop(name)
        for name in sorted(values)
        if name.startswith(_OWN)
    }
    return load_actor(path, Options(**values, own_temperatures=own))


def load_actor(path: Path | str, options: Options) -> "Actor":
    """Returns the actor of a run's newest checkpoint or of a file."""
    trained = agent_file.load_trained(Path(path))
    if options.mmr == 0:
        options = dataclasses.replace(options, mmr=trained.meta.max_mmr)
    return Actor(trained.run, trained.params, trained.behaviour, options)


@dataclasses.dataclass
class Memory:
    """What an actor remembers of one game.

    Attributes:
        seed: of the game's random numbers.
        step: how many actions were taken.
        rows: unit rows that the observations are cut to. It never shrinks within a game.
        previous: the last action's arguments that are inputs of the network.
        state: the network's memory.
        value: the outcome expected at the latest action; None if the network has not learned
            to expect one.
        likely: the likeliest functions at the latest action, likeliest first.
    """

    seed: int
    step: int
    rows: int
    previous: dict[str, int]
    state: Any
    value: float | None = None
    likely: tuple[Likely, ...] = ()


# Actions, memories, values, and the likeliest functions with their probabilities.
_Moves = tuple[Action, Any, jax.Array, tuple[jax.Array, jax.Array]]


class _Move(NamedTuple):
    """What one game gets from a call.

    Attributes:
        action: by argument.
        state: the network's memory after it.
        value: the outcome expected; None if the network has not learned to expect one.
        likely: the likeliest functions, likeliest first.
    """

    action: Arrays
    state: Any
    value: float | None
    likely: tuple[Likely, ...]


class Actor:
    """Acts in many games at once, each with its own `Memory`."""

    def __init__(
        self,
        run: Run,
        params: Params,
        behaviour: Params | None,
        options: Options,
    ) -> None:
        if options.search and not run.algorithm.network.latent_model:
            raise errors.ConfigError(
                f"search={options.search}: {run.agent} has no latent model to search in"
            )
        # Single precision, however it was trained: a processor has no faster one.
        network = dataclasses.replace(run.algorithm.network, compute="float32")
        if isinstance(network, CompactConfig) and not options.legal:
            network = dataclasses.replace(network, legal_actions=False)
            params = parameters.without_counts(params)
            behaviour = behaviour and parameters.without_counts(behaviour)
        run = runs.replace(run, network=network)
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
        # Behaviour cloning alone leaves the value's head untrained; the actor-critics start from a
        # network that has one.
        weight = getattr(run.algorithm, "value_weight", 0.0)
        self._has_value = bool(weight) or behaviour is not None
        self._act = jax.jit(functools.partial(_act, run=run, options=options))
        # Threads that meet a number of rows for the first time wait for one compilation.
        self._compiled: set[int] = set()
        self._compiling = threading.Lock()

    @property
    def settings(self) -> ConverterSettings:
        """Returns the converter settings whose observations it takes, without the actions."""
        return self._settings

    @property
    def lanes(self) -> int:
        """Returns how many games one call of the compiled code serves."""
        return self._options.lanes

    def begin(self, seed: int) -> Memory:
        """Returns the memory of a game that begins."""
        config = self._run.algorithm.network
        network = parameters.merge(self._params, config, self._settings)
        state = {"own": network.memory.initial(1)}
        if self._behaviour is not None:
            state["behaviour"] = network.memory.initial(1)
        previous = dict.fromkeys(rollouts.PREVIOUS, 0)
        # JAX makes keys from 32 bits.
        seed &= 0xFFFFFFFF
        return Memory(seed=seed, step=0, rows=0, previous=previous, state=state)

    def act(
        self, observations: Sequence[Arrays], memories: Sequence[Memory]
    ) -> list[Arrays]:
        """Returns one action for each observation, and updates the memories.

        An action depends on its own game alone, bit for bit, not on the other games in the
        batch. If this raises, no memory was updated. Threads may call it at the same time, with
        different memories.
        """
        frames = [
            self._prepare(observation, memory)
            for observation, memory in zip(observations, memories, strict=True)
        ]
        moves: dict[int, _Move] = {}
        # Grouped by number of rows, since padding would change the random numbers drawn.
        for rows in sorted({memory.rows for memory in memories}):
            same_rows = [i for i, memory in enumerate(memories) if memory.rows == rows]
            for start in range(0, len(same_rows), self.lanes):
                group = same_rows[start : start + self.lanes]
                moves |= self._act_group(group, frames, memories, rows)
        return [
            self._note(move, memory)
            for move, memory in zip(
                (moves[i] for i in range(len(frames))), memories, strict=True
            )
        ]

    def _act_group(
        self,
        group: Sequence[int],
        frames: Sequence[Arrays],
        memories: Sequence[Memory],
        rows: int,
    ) -> dict[int, "_Move"]:
        """Returns the moves of at most `lanes` games, by their number."""
        full = [*group, *[group[0]] * (self.lanes - len(group))]
        stacked = {
            name: np.stack([_padded(frames[i][name], name, rows) for i in full])
            for name in frames[group[0]]
        }
        actions, states, values, (functions, probabilities) = self._call(
            rows,
            stacked,
            np.asarray([memories[i].seed for i in full], np.uint32),
            np.asarray([memories[i].step for i in full], np.uint32),
            jax.tree.map(
                lambda *leaves: jnp.concatenate(leaves),
                *[memories[i].state for i in full],
            ),
        )
        taken = {name: np.asarray(actions[name]) for name in self._arguments}
        best, chances = np.asarray(functions), np.asarray(probabilities)
        return {
            game: _Move(
                action={name: np.asarray(taken[name][lane]) for name in taken},
                state=jax.tree.map(lambda leaf, i=lane: leaf[i : i + 1], states),
                value=float(values[lane]) if self._has_value else None,
                likely=_likely(best[lane], chances[lane]),
            )
            for lane, game in enumerate(group)
        }

    def _call(self, rows: int, *inputs: Any) -> _Moves:
        if rows in self._compiled:
            moves: _Moves = self._act(self._params, self._behaviour, *inputs)
            return moves
        with self._compiling:
            moves = self._act(self._params, self._behaviour, *inputs)
            self._compiled.add(rows)
        return moves

    def _note(self, move: "_Move", memory: Memory) -> Arrays:
        """Returns the move's action, after the memory has taken note of it."""
        memory.step += 1
        memory.state, memory.value, memory.likely = move.state, move.value, move.likely
        memory.previous = {
            name: int(move.action[name])
            for name in rollouts.PREVIOUS
            if name in move.action
        }
        return move.action

    def _prepare(self, observation: Arrays, memory: Memory) -> Arrays:
        missing = sorted(key for key in self._inputs if key not in observation)
        if missing:
            raise errors.SpecError(
                f"observation: expected {sorted(self._inputs)}, found no {missing}"
            )
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
    """Plays one side of one game at a time, as the benchmark expects of an agent."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._memory = actor.begin(0)

    @property
    def settings(self) -> ConverterSettings:
        """Returns the converter settings whose observations it takes."""
        return self._actor.settings

    def reset(self, seed: int, race: str = "") -> None:
        """Begins a game. The race is ignored: observations contain it."""
        self._memory = self._actor.begin(seed)

    @property
    def value(self) -> float | None:
        """Returns the outcome that it expected at its latest action; None if it cannot tell."""
        return self._memory.value

    @property
    def likely(self) -> tuple[Likely, ...]:
        """Returns the likeliest functions at its latest action, likeliest first."""
        return self._memory.likely

    def act(self, observation: Arrays) -> Arrays:
        """Returns the action for an observation of the game."""
        return self._actor.act([observation], [self._memory])[0]


def _act(
    params: Params,
    behaviour: Params | None,
    frames: rollouts.Batch,
    seeds: jax.Array,
    steps: jax.Array,
    states: Any,
    *,
    run: Run,
    options: Options,
) -> _Moves:
    """Returns the actions for frames [F, ...] of F games, and what goes with them.

    These are the new memories, the values [F], and the likeliest functions with their
    probabilities, [F, N] each.
    """
    config = run.algorithm
    network = parameters.merge(params, config.network, config.settings)
    rollout = {name: value[:, None] for name, value in frames.items()}
    latent, own = network.unroll(rollout, states["own"])
    # `rest` chooses the arguments other than function and delay, and judges the state: it is the
    # critic that an actor-critic was trained with.
    rest, rest_latent, after = network, latent, {"own": own}
    if behaviour is not None:
        rest = parameters.merge(behaviour, config.network, config.settings)
        rest_latent, after["behaviour"] = rest.unroll(rollout, states["behaviour"])

    temperature = temperatures.with_changes(
        options.temperature, options.own_temperatures
    )

    legal = scoring.legal_functions(latent)

    def one(
        hidden: Hidden, rest_latent: AnyLatent, seed: jax.Array, step: jax.Array
    ) -> tuple[Action, tuple[jax.Array, jax.Array]]:
        key = jax.random.fold_in(jax.random.key(seed), step)
        first, second = jax.random.split(key)
        single = jax.tree.map(lambda leaf: leaf[None], hidden)
        function, delay, likely = _function_delay(network, single, first, run, options)
        frame = jax.tree.map(lambda leaf: leaf[None], rest_latent)
        action = rest.policy.sample_rest(frame, function, delay, second, temperature)
        action = {name: value[0].astype(jnp.int32) for name, value in action.items()}
        return action, jax.tree.map(lambda leaf: leaf[0], likely)

    hidden = Hidden(latent.vector, legal)
    action, likely = jax.vmap(one)(hidden, rest_latent, seeds, steps)
    return action, after, rest.value(rest_latent.vector), likely


def _function_delay(
    network: AnyNetwork, hidden: Hidden, key: jax.Array, run: Run, options: Options
) -> tuple[jax.Array, jax.Array, tuple[jax.Array, jax.Array]]:
    """Returns function and delay [F], and the likeliest functions with probabilities [F, N]."""
    heads, vector = network.policy, hidden.vector
    temperature = temperatures.with_changes(
        options.temperature, options.own_temperatures
    )
    each = temperatures.of(temperature)
    if options.search:
        result = search.search(
            key,
            hidden,
            search.network_model(network, temperature),
            SearchConfig(actions=options.search, simulations=options.simulations),
        )
        function, delay = result.action
        functions, _ = result.actions
        weights, slots = jax.lax.top_k(result.weights, min(_LIKELY, options.search))
        return function, delay, (jnp.take_along_axis(functions, slots, -1), weights)
    logits = scoring.legal_only(heads.function_logits(vector), hidden.legal)
    likely = _likeliest(logits / each.function)
    first, second = jax.random.split(key)
    if run.record.function_from == agents.ACTION_VALUES:
        q = scoring.legal_only(network.action_values(vector), hidden.legal)
        allowed = action_values.likely_only(q, logits, run.record.likely)
        function, second = allowed.argmax(-1).astype(jnp.int32), key
    elif run.record.function_from == agents.WEIGHTED_POLICY:
        q, warm = network.action_values(vector), logits / each.function
        weighted = action_values.critic_weighted(warm, q, _CRITIC_TEMPERATURE)
        function = layers.choose(jax.random.fold_in(key, 1), weighted, 1.0)
        likely, second = _likeliest(weighted), key
    else:
        function = layers.choose(first, logits, each.function)
    index = layers.choose(second, heads.delay_logits(vector, function), each.delay)
    return function, index + 1, likely


def _likeliest(logits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the likeliest functions and their probabilities, [F, N] each."""
    probabilities, functions = jax.lax.top_k(jax.nn.softmax(logits), _LIKELY)
    return functions, probabilities


def _likely(functions: NDArray[Any], probabilities: NDArray[Any]) -> tuple[Likely, ...]:
    return tuple(
        Likely(int(function), float(probability))
        for function, probability in zip(functions, probabilities, strict=True)
        if probability > 0
    )


def _padded(value: NDArray[Any], name: str, rows: int) -> NDArray[Any]:
    """Returns an input; `units` with empty rows added until there are `rows`."""
    if name != "units" or len(value) == rows:
        return np.asarray(value)
    return np.pad(value, ((0, rows - len(value)), (0, 0)))
