"""Measures how well a policy predicts games that it has not seen, compared with counting.

In: parameters, held-out episodes and the training games. Out: JSON with each argument's accuracy
and cross-entropy, those of the unigram baseline, and the accuracy of the value's sign in each
half of games. All numbers have intervals, from resampling whole games. A cross-entropy is in nats
for each action that has the argument (for unit_tags, the sum over its slots).
Must not know: files, and how training works.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from starmill.learners import rollouts, splits
from starmill.learners.algorithms import contract
from starmill.learners.algorithms.contract import AlgorithmConfig
from starmill.learners.networks import policy
from starmill.learners.networks.parameters import Params
from starmill.learners.networks.scoring import ARGUMENTS
from starmill.schema import errors, specs
from starmill.schema.episode import LAST
from starmill.schema.loader.dataset import Dataset

# Sums for each episode, from which all other numbers follow.
Sums = dict[str, NDArray[np.float64]]
_ACTIONS = tuple(f"action/{name}" for name in ARGUMENTS)
# Additive smoothings of the unigram baseline. The best one on the held-out games is used, which
# is a choice in the baseline's favour.
SMOOTHINGS = (1.0, 0.1, 0.01, 0.001)
RESAMPLES, INTERVAL_PERCENTILES = 1000, (2.5, 97.5)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number and its 95% interval.

    Attributes:
        value: the estimate; NaN, like the others, if there is nothing to estimate it from.
        low: the interval's lower end.
        high: the interval's upper end.
    """

    value: float
    low: float
    high: float


def evaluate(
    params: Params,
    config: AlgorithmConfig,
    held_out: Dataset,
    training: Dataset,
    *,
    behaviour: Params | None = None,
    batch_size: int = 16,
    on_batch: Callable[[int], None] = lambda frames: None,
) -> dict[str, Any]:
    """Returns the evaluation as JSON: each argument's numbers, the value's, and counts.

    If `behaviour` is given, it predicts all arguments but function and delay, as it does when
    the actor-critics act. `on_batch` is called with the steps done in each batch.
    """
    policies = (params, behaviour)
    # Every action counts here, however much it counted in training.
    config = dataclasses.replace(config, step_weights={})
    ours = network_sums(policies, config, held_out, batch_size, on_batch)
    base = unigram_sums(training, held_out)
    groups = games(held_out)
    result: dict[str, Any] = {
        "dataset": held_out.reference,
        "episodes": len(held_out),
        "games": len(set(groups.tolist())),
        "steps": held_out.steps,
        "arguments": {},
    }

    def estimate(top: NDArray[Any], bottom: NDArray[Any]) -> dict[str, float]:
        return dataclasses.asdict(ratio(top, bottom, groups))

    for name in ARGUMENTS:
        if f"{name}/present" not in ours:
            continue
        count = base[f"{name}/present"]
        result["arguments"][name] = {
            "actions": int(count.sum()),
            "accuracy": estimate(ours[f"{name}/correct"], ours[f"{name}/present"]),
            "unigram_accuracy": estimate(base[f"{name}/correct"], count),
            "accuracy_gain": estimate(
                ours[f"{name}/correct"] - base[f"{name}/correct"], count
            ),
            "cross_entropy": estimate(ours[f"{name}/nats"], ours[f"{name}/present"]),
            "unigram_cross_entropy": estimate(base[f"{name}/nats"], count),
            "cross_entropy_gain": estimate(
                base[f"{name}/nats"] - ours[f"{name}/nats"], count
            ),
        }
    result["value_sign_accuracy"] = {
        half: estimate(ours[f"value/{half}/right"], ours[f"value/{half}/decided"])
        for half in ("first_half", "second_half")
    }
    return result


def ratio(
    top: NDArray[Any], bottom: NDArray[Any], groups: NDArray[np.int64]
) -> Estimate:
    """Returns sum(top) / sum(bottom), with an interval from resampling groups (seeded)."""
    count = int(groups.max(initial=-1)) + 1
    tops = np.bincount(groups, top, count)
    bottoms = np.bincount(groups, bottom, count)
    if bottoms.sum() == 0:
        return Estimate(value=float("nan"), low=float("nan"), high=float("nan"))
    samples = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    divisors = np.maximum(bottoms[samples].sum(1), 1e-9)
    low, high = np.percentile(tops[samples].sum(1) / divisors, INTERVAL_PERCENTILES)
    value = float(tops.sum() / bottoms.sum())
    return Estimate(value=value, low=float(low), high=float(high))


def games(data: Dataset) -> NDArray[np.int64]:
    """Returns the number of each episode's game, [episodes]; two episodes may share one."""
    replay_ids = data.column("replay_id").to_pylist()
    return np.unique(replay_ids, return_inverse=True)[1].astype(np.int64)


def network_sums(
    policies: tuple[Params, Params | None],
    config: AlgorithmConfig,
    data: Dataset,
    batch_size: int,
    on_batch: Callable[[int], None],
) -> Sums:
    """Returns sums for each episode over all its steps; policies: own, behaviour's."""
    score = jax.jit(functools.partial(_frame_scores, config=config))
    lengths = np.asarray(data.column("steps"))
    sums: Sums = {}
    for batch in splits.every_step(data, batch_size):
        scores = {name: np.asarray(v) for name, v in score(policies, batch).items()}
        keep = batch["valid"].reshape(-1)
        number = batch["episode"].reshape(-1)[keep]
        is_late = batch["step"].reshape(-1)[keep] * 2 >= lengths[number]
        value, outcome = scores.pop("value")[keep], batch["outcome"].reshape(-1)[keep]
        decided = (outcome != 0).astype(np.float64)
        right = (np.sign(value) == np.sign(outcome)) * decided
        frames = {name: values[keep] for name, values in scores.items()}
        for half, is_in in (("first_half", ~is_late), ("second_half", is_late)):
            frames[f"value/{half}/right"] = right * is_in
            frames[f"value/{half}/decided"] = decided * is_in
        for name, values in frames.items():
            total = np.bincount(number, values, len(data)).astype(np.float64)
            sums[name] = sums[name] + total if name in sums else total
        on_batch(int(keep.sum()))
    return sums


def _frame_scores(
    policies: tuple[Params, Params | None],
    batch: rollouts.Batch,
    config: AlgorithmConfig,
) -> dict[str, jax.Array]:
    params, behaviour = policies
    own = contract.forward(params, batch, config)
    rest = own if behaviour is None else contract.forward(behaviour, batch, config)
    frames = {"value": rest.network.value(rest.latent.vector)}
    for name in own.scores.log_prob:
        forward = own if name in ("function", "delay") else rest
        present = forward.scores.present[name] * forward.weight
        frames[f"{name}/present"] = present
        frames[f"{name}/nats"] = -forward.scores.log_prob[name] * forward.weight
        frames[f"{name}/correct"] = forward.scores.correct[name] * present
    return {name: jnp.asarray(value, jnp.float32) for name, value in frames.items()}


def unigram_sums(training: Dataset, held_out: Dataset) -> Sums:
    """Returns the sums for each episode of a model that only knows frequencies.

    It predicts every argument with its training frequency; for unit_tags, with that of rows
    over all slots, end marker included. The smoothing is the best of SMOOTHINGS on the
    held-out games.
    """
    sizes = _sizes(held_out)
    counts = {name: np.zeros(size) for name, size in sizes.items()}
    for arguments in _actions(training):
        for name, values in arguments.items():
            counts[name] += np.bincount(values.reshape(-1), minlength=sizes[name])[
                : sizes[name]
            ]
    tested = list(_actions(held_out, flat=False))
    sums: Sums = {}
    for name in sizes:
        likeliest = counts[name].argmax()
        options = []
        for smoothing in SMOOTHINGS:
            share = counts[name] + smoothing
            nats = -np.log(share / share.sum())
            options.append([nats[episode[name]].sum() for episode in tested])
        best = min(options, key=sum)
        sums[f"{name}/nats"] = np.asarray(best, np.float64)
        sums[f"{name}/present"] = np.asarray(
            [episode[f"{name}/actions"] for episode in tested], np.float64
        )
        sums[f"{name}/correct"] = np.asarray(
            [
                # A selection is right if each of its slots is.
                np.sum(episode[f"{name}/all_are"](likeliest))
                for episode in tested
            ],
            np.float64,
        )
    return sums


def _sizes(data: Dataset) -> dict[str, int]:
    """Returns how many values each argument can have."""
    sizes = {}
    for name, spec in specs.action_specs(data.settings).items():
        if not isinstance(spec.maximum, int):
            raise errors.SpecError(
                f"{name}: expected one maximum, found {spec.maximum}"
            )
        sizes[name] = spec.maximum + 1
    return sizes


def _actions(data: Dataset, *, flat: bool = True) -> Iterator[dict[str, Any]]:
    """Yields, for each episode, the values of each argument in the actions that have it.

    Last steps are left out. If not `flat`, also yields how many actions have the argument, and
    a function that says which of them consist of one given value.
    """
    table = policy.argument_table(data.settings)
    keys = [key for key in _ACTIONS if key in data.specs]
    sizes = _sizes(data)
    for episode in data:
        arrays = episode.read(keys=[*keys, "step_type"])
        trained = arrays["step_type"] != LAST
        takes = table[arrays["action/function"]]
        arguments: dict[str, Any] = {}
        for index, name in enumerate(ARGUMENTS):
            if f"action/{name}" not in arrays:
                continue
            values = arrays[f"action/{name}"][trained & takes[:, index]]
            values = np.clip(values, 0, sizes[name] - 1)
            used = _used_slots(values, sizes[name] - 1)
            arguments[name] = values[used]
            if not flat:
                arguments[f"{name}/actions"] = len(values)
                all_are = functools.partial(_all_are, values, used)
                arguments[f"{name}/all_are"] = all_are
        yield arguments


def _used_slots(values: NDArray[Any], end: int) -> NDArray[np.bool_]:
    if values.ndim == 1:
        return np.ones(values.shape, bool)
    ends = values == end
    return np.asarray(np.cumsum(ends, axis=-1) - ends == 0)


def _all_are(
    values: NDArray[Any], used: NDArray[np.bool_], value: int
) -> NDArray[np.bool_]:
    same = (values == value) | ~used
    return same if same.ndim == 1 else np.asarray(same.all(-1))


def table_lines(result: dict[str, Any]) -> Sequence[str]:
    """Returns the evaluation as lines of a Markdown table."""

    def shown(estimate: dict[str, float], scale: float = 1.0) -> str:
        low, high = estimate["low"] * scale, estimate["high"] * scale
        return f"{estimate['value'] * scale:.2f} ({low:.2f} to {high:.2f})"

    lines = [
        "| argument | actions | accuracy % | unigram % | cross-entropy | unigram |",
        "|---|---|---|---|---|---|",
    ]
    for name, numbers in result["arguments"].items():
        lines.append(
            f"| {name} | {numbers['actions']:,} | {shown(numbers['accuracy'], 100)} "
            f"| {shown(numbers['unigram_accuracy'], 100)} "
            f"| {shown(numbers['cross_entropy'])} "
            f"| {shown(numbers['unigram_cross_entropy'])} |"
        )
    for half, estimate in result["value_sign_accuracy"].items():
        lines.append(
            f"| value's sign, {half.replace('_', ' ')} | | {shown(estimate, 100)} | | | |"
        )
    return lines
