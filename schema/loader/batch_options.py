"""What batches contain: the user's options, and the plan that they become for one host.

In: `BatchOptions`, a dataset's arrays, and which host of how many this is. Out: a `BatchPlan`,
which says everything that decides the content of batch n except the dataset itself, and the
check that a saved state belongs to the same plan.
"""

import dataclasses
import zlib
from collections.abc import Collection, Iterable, Mapping

from starmill.schema import errors
from starmill.schema.loader import samplers
from starmill.schema.loader.samplers import SamplingPlan

FORMS = ("dense", "compact")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """Which rollouts are in a batch, and which arrays of them. docs/using-the-data.md has more.

    Attributes:
        batch_size: B, the number of rollouts in a batch; with several hosts, in each host's
            part of the batch.
        rollout: K, the number of steps in a rollout.
        seed: decides every random choice, 0 to 2**63 - 1. Only the "sequential" sampler
            without shuffled unit tags works without one.
        sampler: how rollouts are chosen: "episode", "step", "consecutive" or "sequential"; see
            `samplers.SamplingPlan`.
        form: "dense" for the arrays as the specs describe them, or "compact" (see `compact`).
        keys: the stored arrays to read; None for all of them. Kept sorted.
        stride: steps from the start of one rollout to the start of the next; None for K. Less
            than K makes rollouts overlap. For the samplers "consecutive" and "sequential".
        cross_episodes: whether a rollout that reaches the end of its episode continues with the
            next episode; otherwise it is padded. For "consecutive" and "sequential".
        shuffle_unit_tags: whether to put the units of each action in a random order, which
            depends on the seed; otherwise they are in ascending order.
        parts: how many successive batches together are one draw of the sampler. With the
            "consecutive" sampler, row b of batch n then continues row b of batch n - parts.
        ahead: if not 0, a rollout has 2 K steps: K as drawn, and K that begin `ahead` steps
            after the first. Those after the episode's end are padding. At least K; for the
            samplers "episode" and "step".
    """

    batch_size: int
    rollout: int
    seed: int | None = None
    sampler: str = "episode"
    form: str = "dense"
    keys: Collection[str] | None = None
    stride: int | None = None
    cross_episodes: bool = False
    shuffle_unit_tags: bool = False
    parts: int = 1
    ahead: int = 0

    def __post_init__(self) -> None:
        """Raises ConfigError, naming every option that makes no sense."""
        problems = [
            problem
            for problem in (
                errors.choice_problem("sampler", self.sampler, samplers.NAMES),
                errors.choice_problem("form", self.form, FORMS),
                self._seed_problem(),
                self._keys_problem(),
            )
            if problem is not None
        ]
        for name in ("batch_size", "rollout", "stride", "parts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                problems.append(f"{name}: must be at least 1, found {value}")
        if self.stride is not None and self.stride > self.rollout:
            problems.append(
                f"stride {self.stride}: would skip steps, expected at most the rollout's "
                f"{self.rollout}"
            )
        if self.sampler in samplers.NAMES and self.sampler not in samplers.ORDERED:
            if self.cross_episodes:
                problems.append(f"cross_episodes: not with sampler {self.sampler!r}")
            if self.stride not in (None, self.rollout):
                problems.append(f"stride: not with sampler {self.sampler!r}")
        if self.ahead and (
            self.ahead < self.rollout or self.sampler in samplers.ORDERED
        ):
            problems.append(
                f"ahead {self.ahead}: expected 0, or at least the rollout's {self.rollout} with "
                f'sampler "episode" or "step", found sampler {self.sampler!r}'
            )
        if problems:
            raise errors.ConfigError("; ".join(problems))
        if self.keys is not None:
            object.__setattr__(self, "keys", tuple(sorted(set(self.keys))))

    def _seed_problem(self) -> str | None:
        if self.seed is not None:
            if 0 <= self.seed < 1 << 63:
                return None
            return f"seed: expected 0 to 2**63 - 1, found {self.seed}"
        if self.sampler not in samplers.NAMES:
            return None
        if self.sampler != "sequential":
            reason = f"sampler {self.sampler!r} is random"
        elif self.shuffle_unit_tags:
            reason = "shuffle_unit_tags is random"
        else:
            return None
        return f"seed: {reason} and needs one, to be repeatable; pass seed=0 if any will do"

    def _keys_problem(self) -> str | None:
        if isinstance(self.keys, str):
            return f"keys: expected a list of names, found the string {self.keys!r}"
        return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """`BatchOptions` for one dataset and one host.

    Attributes:
        sampling: how the rollouts of a batch are drawn, over all hosts.
        form: "dense" or "compact".
        keys: the stored arrays to read, sorted.
        first_lane: the first of the batch's lanes that this host reads.
        lanes: how many lanes this host reads.
        parts: how many successive batches share the sampler's lanes.
        shuffle_unit_tags: whether the units of each action are in random order.
    """

    sampling: SamplingPlan
    form: str
    keys: tuple[str, ...]
    first_lane: int
    lanes: int
    shuffle_unit_tags: bool
    parts: int = 1

    def draw(self, batch: int) -> tuple[int, int]:
        """Returns the sampler's draw that a batch is of, and the first lane to read of it."""
        draw, part = divmod(batch, self.parts)
        return draw, part * (self.sampling.lanes // self.parts) + self.first_lane

    def fingerprint(self) -> int:
        """Returns a number that differs where batches would.

        Lanes of hosts do not count. The hashed text is frozen, class name and all: checkpoints
        store this number, and one that changes would keep them from being resumed.
        """
        sampling = self.sampling
        text = (
            f"(Plan(sampler={sampling.sampler!r}, lanes={sampling.lanes}, "
            f"rollout={sampling.rollout}, stride={sampling.stride}, "
            f"cross_episodes={sampling.cross_episodes}, seed={sampling.seed}), "
            f"{self.keys!r}, {self.form!r}, {self.shuffle_unit_tags})"
        )
        # Only where they matter, so that the numbers in older checkpoints stay true.
        if self.parts != 1:
            text += f"parts={self.parts}"
        if sampling.ahead:
            text += f"ahead={sampling.ahead}"
        return zlib.crc32(text.encode())


def plan_for_host(
    options: BatchOptions, stored: Iterable[str], *, host: int = 0, hosts: int = 1
) -> BatchPlan:
    """Returns the plan of one host.

    Args:
        options: what the user asked for.
        stored: the keys of all stored arrays of the dataset.
        host: which host this is, from 0.
        hosts: how many hosts share the batches. Each reads `batch_size` lanes.
    """
    if hosts < 1:
        raise errors.ConfigError(f"hosts: must be at least 1, found {hosts}")
    if not 0 <= host < hosts:
        raise errors.ConfigError(f"host {host}: expected 0 to {hosts - 1}")
    keys = tuple(sorted(stored)) if options.keys is None else tuple(options.keys)
    check_keys(keys, stored)
    size, rollout = int(options.batch_size), int(options.rollout)
    return BatchPlan(
        sampling=SamplingPlan(
            sampler=options.sampler,
            lanes=size * int(hosts) * int(options.parts),
            rollout=rollout,
            stride=rollout if options.stride is None else int(options.stride),
            cross_episodes=bool(options.cross_episodes),
            seed=int(options.seed or 0),
            ahead=int(options.ahead),
        ),
        form=options.form,
        keys=keys,
        first_lane=int(host) * size,
        lanes=size,
        shuffle_unit_tags=bool(options.shuffle_unit_tags),
        parts=int(options.parts),
    )


def check_keys(keys: Iterable[str], known: Iterable[str]) -> None:
    """Raises ConfigError, naming every key that is not known."""
    known = sorted(known)
    answers = [errors.choice_problem("key", key, known) for key in keys]
    problems = [answer for answer in answers if answer is not None]
    if problems:
        raise errors.ConfigError("; ".join(problems))


def check_state(state: Mapping[str, int], plan: BatchPlan, dataset: int) -> int:
    """Returns the position in a saved state; ConfigError if the state is of another iteration.

    Args:
        state: what `BatchIterator.get_state` returned.
        plan: of this iteration.
        dataset: the fingerprint of this iteration's dataset and filters.
    """
    expected = {"options": plan.fingerprint(), "dataset": dataset}
    if set(state) != {*expected, "position"}:
        raise errors.ConfigError(
            f"state: expected position, options and dataset, found {sorted(state)}"
        )
    for key, value in expected.items():
        if state[key] != value:
            raise errors.ConfigError(
                f"state: saved with other {key} ({state[key]}, here {value}); "
                f"resume with the same dataset, filters and options"
            )
    return int(state["position"])
