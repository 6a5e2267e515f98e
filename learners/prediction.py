"""How well a policy predicts games it has not seen, and what counting alone would give.

In: parameters and a dataset's held-out split. Out: per argument accuracy and cross-entropy, beside
the unigram baseline's; the value's sign accuracy in each half of games; and intervals, by
resampling whole games. A cross-entropy is per action that has the argument (unit_tags: the sum
over its slots), in nats.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from starmill.learners import rollouts
from starmill.learners.algorithms import contract
from starmill.learners.networks import policy
from starmill.schema import errors, specs
from starmill.schema.episode import LAST
from starmill.schema.loader import dataset
from starmill.schema.loader.batch_options import BatchOptions

# Sums per episode that everything else is made of.
Sums = dict[str, NDArray[np.float64]]
_ACTIONS = tuple(f"action/{name}" for name in policy.ARGUMENTS)
# Additive smoothings that the baseline may choose from, with the held-out games in view: the
# choice is in its favour.
SMOOTHINGS = (1.0, 0.1, 0.01, 0.001)
RESAMPLES, INTERVAL = 1000, (2.5, 97.5)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number and its 95% interval."""

    value: float
    low: float
    high: float


def evaluate(
    params: contract.Params,
    config: contract.Config,
    held_out: dataset.Dataset,
    training: dataset.Dataset,
    *,
    behaviour: contract.Params | None = None,
    batch_size: int = 16,
    on_batch: Callable[[int], None] = lambda frames: None,
) -> dict[str, Any]:
    """Returns the evaluation as JSON: by argument, the value's, and counts.

    behaviour: where given, all but function and delay are its (the actor-critics').
    """
    pair = (params, behaviour)
    ours = network_sums(pair, config, held_out, batch_size, on_batch)
    base = unigram_sums(training, held_out)
    groups = games(held_out)
    out: dict[str, Any] = {
        "dataset": held_out.reference,
        "episodes": len(held_out),
        "games": len(set(groups.tolist())),
        "steps": held_out.steps,
        "arguments": {},
    }

    def estimate(top: NDArray[Any], bottom: NDArray[Any]) -> dict[str, float]:
        return dataclasses.asdict(ratio(top, bottom, groups))

    for name in policy.ARGUMENTS:
        if f"{name}/present" not in ours:
            continue
        count = base[f"{name}/present"]
        out["arguments"][name] = {
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
    out["value_sign_accuracy"] = {
        half: estimate(ours[f"value/{half}/right"], ours[f"value/{half}/decided"])
        for half in ("first_half", "second_half")
    }
    return out


def ratio(
    top: NDArray[Any], bottom: NDArray[Any], groups: NDArray[np.int64]
) -> Estimate:
    """Returns sum(top) / sum(bottom) with an interval by resampling groups, seeded."""
    count = int(groups.max(initial=-1)) + 1
    tops = np.bincount(groups, top, count)
    bottoms = np.bincount(groups, bottom, count)
    if bottoms.sum() == 0:
        return Estimate(value=float("nan"), low=float("nan"), high=float("nan"))
    drawn = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    lower = np.maximum(bottoms[drawn].sum(1), 1e-9)
    low, high = np.percentile(tops[drawn].sum(1) / lower, INTERVAL)
    value = float(tops.sum() / bottoms.sum())
    return Estimate(value=value, low=float(low), high=float(high))


def games(data: dataset.Dataset) -> NDArray[np.int64]:
    """Returns the number of the game that each episode is a side of."""
    names = data.table.column("replay_id").to_pylist()
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def network_sums(
    params: tuple[contract.Params, contract.Params | None],
    config: contract.Config,
    data: dataset.Dataset,
    batch_size: int,
    on_batch: Callable[[int], None],
) -> Sums:
    """Returns sums per episode over every step of the data; params: own, behaviour's."""
    step = jax.jit(functools.partial(_frame_scores, config=config))
    lengths = np.asarray(data.table.column("steps"))
    sums: Sums = {}
    for batch in _windows(data, batch_size):
        found = {name: np.asarray(v) for name, v in step(params, batch).items()}
        keep = batch["valid"].reshape(-1)
        number = batch["episode"].reshape(-1)[keep]
        half = batch["step"].reshape(-1)[keep] * 2 >= lengths[number]
        value, outcome = found.pop("value")[keep], batch["outcome"].reshape(-1)[keep]
        decided = (outcome != 0).astype(np.float64)
        right = (np.sign(value) == np.sign(outcome)) * decided
        frames = {name: values[keep] for name, values in found.items()}
        for name, chosen in (("first_half", ~half), ("second_half", half)):
            frames[f"value/{name}/right"] = right * chosen
            frames[f"value/{name}/decided"] = decided * chosen
        for name, values in frames.items():
            total = np.bincount(number, values, len(data)).astype(np.float64)
            sums[name] = sums[name] + total if name in sums else total
        on_batch(int(keep.sum()))
    return sums


def _windows(data: dataset.Dataset, batch_size: int) -> Iterator[rollouts.Batch]:
    """Yields every step once, with the action before it; K is 32, a chunk's length."""
    # The stride leaves one step of overlap: the first of each rollout is the context.
    options = BatchOptions(
        batch_size=batch_size,
        rollout=33,
        stride=32,
        sampler="sequential",
        form="compact",
    )
    for arrays in data.batches(options):
        batch = rollouts.add_previous_action(rollouts.trim_units(arrays, data.settings))
        # The overlapping first step was scored as the last of the rollout before.
        repeated = batch["step"][:, 0] > 0
        batch["valid"] = batch["valid"].copy()
        batch["valid"][repeated, 0] = False
        yield batch


def _frame_scores(
    params: tuple[contract.Params, contract.Params | None],
    batch: rollouts.Batch,
    config: contract.Config,
) -> dict[str, jax.Array]:
    own = contract.forward(params[0], batch, config)
    rest = own if params[1] is None else contract.forward(params[1], batch, config)
    out = {"value": rest.network.value(rest.latent.vector)}
    for name in own.scores.log_prob:
        done = own if name in ("function", "delay") else rest
        present = done.scores.present[name] * done.weight
        out[f"{name}/present"] = present
        out[f"{name}/nats"] = -done.scores.log_prob[name] * done.weight
        out[f"{name}/correct"] = done.scores.correct[name] * present
    return {name: jnp.asarray(value, jnp.float32) for name, value in out.items()}


def unigram_sums(training: dataset.Dataset, held_out: dataset.Dataset) -> Sums:
    """Returns the sums per episode of a model that knows frequencies alone.

    Every argument has its training frequencies, unit_tags those of rows over all slots, end
    marker included; smoothing is the best of SMOOTHINGS on the held-out games.
    """
    sizes = _sizes(held_out)
    counts = {name: np.zeros(size) for name, size in sizes.items()}
    for taken in _actions(training):
        for name, values in taken.items():
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
                # A whole selection is right when each of its slots is.
                np.sum(episode[f"{name}/all_are"](likeliest))
                for episode in tested
            ],
            np.float64,
        )
    return sums


def _sizes(data: dataset.Dataset) -> dict[str, int]:
    found = specs.action_specs(data.settings)
    out = {}
    for name, spec in found.items():
        if not isinstance(spec.maximum, int):
            raise errors.SpecError(
                f"{name}: expected one maximum, found {spec.maximum}"
            )
        out[name] = spec.maximum + 1
    return out


def _actions(data: dataset.Dataset, *, flat: bool = True) -> Iterator[dict[str, Any]]:
    """Yields, by episode, the present values of each argument, last steps left out.

    Not flat: also how many actions have the argument, and a function that says which of them
    consist of one value alone.
    """
    table = policy.argument_table(data.settings)
    keys = [key for key in _ACTIONS if key in data.specs]
    maxima = _sizes(data)
    for episode in data:
        arrays = episode.read(keys=[*keys, "step_type"])
        trained = arrays["step_type"] != LAST
        takes = table[arrays["action/function"]]
        out: dict[str, Any] = {}
        for index, name in enumerate(policy.ARGUMENTS):
            if f"action/{name}" not in arrays:
                continue
            chosen = arrays[f"action/{name}"][trained & takes[:, index]]
            chosen = np.clip(chosen, 0, maxima[name] - 1)
            used = _used_slots(chosen, maxima[name] - 1)
            out[name] = chosen[used]
            if not flat:
                out[f"{name}/actions"] = len(chosen)
                out[f"{name}/all_are"] = functools.partial(_all_are, chosen, used)
        yield out


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
    for name, found in result["arguments"].items():
        lines.append(
            f"| {name} | {found['actions']:,} | {shown(found['accuracy'], 100)} "
            f"| {shown(found['unigram_accuracy'], 100)} | {shown(found['cross_entropy'])} "
            f"| {shown(found['unigram_cross_entropy'])} |"
        )
    for half, estimate in result["value_sign_accuracy"].items():
        lines.append(
            f"| value's sign, {half.replace('_', ' ')} | | {shown(estimate, 100)} | | | |"
        )
    return lines
