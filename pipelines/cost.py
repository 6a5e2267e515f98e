"""What a build will cost: core hours, steps and bytes, from measured rates.

In: a plan. Out: numbers for people who decide whether, where and on how many cores to run.
"""

import dataclasses
from typing import Any

from starmill.pipelines import plan


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rates:
    """What one core does, measured by `make perf ONLY=generate` (docs/scale.md).

    source: where the numbers are from, in a sentence.
    loops_per_step: game loops per kept step of one player.
    bytes_per_step: encoded.
    core_seconds_per_loop: of the engine, per game loop and player, observations apart.
    core_seconds_per_step: observing twice, converting and encoding.
    """

    source: str
    loops_per_step: float
    bytes_per_step: float
    core_seconds_per_loop: float
    core_seconds_per_step: float


# Steps and bytes of the real game follow the paper and the codec's own measurements; what
# its engine costs is not measured here (the game is not to be had), so it is assumed.
RATES = {
    "skirmish": Rates(
        source="measured on ladder games of the embedded engine, one busy server core",
        loops_per_step=13.0,
        bytes_per_step=140.0,
        core_seconds_per_loop=0.00005,
        core_seconds_per_step=0.0065,
    ),
    "sc2": Rates(
        source="engine ASSUMED: 1,000 loops a second, 5 ms an observation; rest measured",
        loops_per_step=12.0,
        bytes_per_step=1500.0,
        core_seconds_per_loop=0.001,
        core_seconds_per_step=0.012,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """What is to be expected; loops are of both sides together."""

    replays: int
    loops: int
    steps: int
    size_bytes: int
    core_hours: float
    rates: Rates


def estimate(made: plan.BuildPlan, *, engine: str) -> Cost:
    """Returns what the plan will cost; what is reused costs nothing."""
    rates = RATES[engine]
    share = made.sides / max(1, made.selected)
    loops = round(made.loops * share)
    steps = round(loops / rates.loops_per_step)
    to_play = 1 - made.reused / max(1, made.selected)
    seconds = loops * rates.core_seconds_per_loop + steps * rates.core_seconds_per_step
    return Cost(
        replays=made.selected - made.reused,
        loops=loops,
        steps=steps,
        size_bytes=round(steps * rates.bytes_per_step),
        core_hours=seconds * to_play / 3600,
        rates=rates,
    )


def lines(expected: Cost) -> list[str]:
    """Returns the estimate for people."""
    hours = expected.core_hours
    return [
        f"to play      {expected.replays:,} replays, {expected.loops:,} game loops",
        f"steps        about {expected.steps:,}",
        f"bytes        about {expected.size_bytes:,}, twice that while it is built",
        f"core hours   about {hours:,.2f} ({hours / 64:,.2f} h on 64 cores)",
        f"rates        {expected.rates.source}",
    ]


def to_json(made: plan.BuildPlan, expected: Cost) -> dict[str, Any]:
    """Returns plan and estimate for machines."""
    return {
        "read": made.read,
        "selected": made.selected,
        "rejected": dict(made.rejected),
        "episodes": made.sides,
        "reused": made.reused,
        "shards": dict(made.shard_counts),
        "replays": expected.replays,
        "loops": expected.loops,
        "steps": expected.steps,
        "bytes": expected.size_bytes,
        "core_hours": expected.core_hours,
    }
