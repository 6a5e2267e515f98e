"""Estimates what a build will cost in core hours, steps and bytes, from measured rates.

In: a plan. Out: numbers that help to decide whether, where and on how many cores to run it.
"""

import dataclasses
from typing import Any

from starmill.pipelines import plan

_SECONDS_PER_HOUR = 3600
# Cores of the machine whose hours are printed as an example.
_EXAMPLE_CORES = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rates:
    """What one core does, as measured by `make perf ONLY=generate` (docs/scale.md).

    Attributes:
        source: where the numbers come from, in a sentence.
        loops_per_step: game loops per kept step of one player.
        bytes_per_step: encoded.
        core_seconds_per_loop: of the engine, per game loop and player, without observations.
        core_seconds_per_step: to observe twice, convert and encode.
    """

    source: str
    loops_per_step: float
    bytes_per_step: float
    core_seconds_per_loop: float
    core_seconds_per_step: float


# The real game: steps and bytes follow from the paper and from measurements of the codec. The
# cost of its engine is assumed, because StarCraft II was unavailable.
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
    """The estimated cost of a build.

    Attributes:
        replays: to play; reused ones are not among them.
        loops: game loops of all sides together, reused ones included.
        steps: kept steps of all sides.
        size_bytes: of the finished shards.
        core_hours: to play, convert and encode what is not reused.
        rates: that the estimate is based on.
    """

    replays: int
    loops: int
    steps: int
    size_bytes: int
    core_hours: float
    rates: Rates


def estimate(build_plan: plan.BuildPlan, *, engine: str) -> Cost:
    """Returns the estimated cost of a plan; replays that are reused cost nothing."""
    rates = RATES[engine]
    replays = max(1, build_plan.selected)
    loops = round(build_plan.loops * build_plan.sides / replays)
    steps = round(loops / rates.loops_per_step)
    seconds = loops * rates.core_seconds_per_loop + steps * rates.core_seconds_per_step
    played_share = 1 - build_plan.reused / replays
    return Cost(
        replays=build_plan.selected - build_plan.reused,
        loops=loops,
        steps=steps,
        size_bytes=round(steps * rates.bytes_per_step),
        core_hours=seconds * played_share / _SECONDS_PER_HOUR,
        rates=rates,
    )


def lines(expected: Cost) -> list[str]:
    """Returns the estimate as lines of text."""
    hours = expected.core_hours
    return [
        f"to play      {expected.replays:,} replays, {expected.loops:,} game loops",
        f"steps        about {expected.steps:,}",
        f"bytes        about {expected.size_bytes:,}, twice that during the build",
        f"core hours   about {hours:,.2f} ({hours / _EXAMPLE_CORES:,.2f} h on "
        f"{_EXAMPLE_CORES} cores)",
        f"rates        {expected.rates.source}",
    ]


def to_json(build_plan: plan.BuildPlan, expected: Cost) -> dict[str, Any]:
    """Returns the plan and the estimate as JSON."""
    return {
        "read": build_plan.read,
        "selected": build_plan.selected,
        "rejected": dict(build_plan.rejected),
        "episodes": build_plan.sides,
        "reused": build_plan.reused,
        "shards": dict(build_plan.shard_counts),
        "replays": expected.replays,
        "loops": expected.loops,
        "steps": expected.steps,
        "bytes": expected.size_bytes,
        "core_hours": expected.core_hours,
    }
