"""How well values predict outcomes, by minute of the game.

In: values, outcomes and game loops of steps. Out: JSON and lines of a table. An error is the mean squared
error as a share of the outcomes' variance: 1 is no better than a constant, 0 is perfect.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.schema.game_constants import LOOPS_PER_MINUTE

# The minutes at which groups of steps begin; the last group is open-ended.
MINUTES = (0, 3, 6, 9, 12)


def measure(
    values: NDArray[np.float32],
    outcome: NDArray[np.float32],
    loop: NDArray[np.int32],
) -> dict[str, Any]:
    """Returns errors and the share of right signs, of all steps and by minute."""
    squares = np.square(values - outcome)
    variance = max(float(outcome.var()), 1e-9)
    right = np.sign(values) == np.sign(outcome)
    minute = loop / LOOPS_PER_MINUTE

    def part(keep: NDArray[np.bool_]) -> dict[str, float]:
        decided = keep & (outcome != 0)
        return {
            "steps": int(keep.sum()),
            "error": _mean(squares[keep]) / variance,
            "sign": _mean(right[decided]),
            "value": _mean(values[keep]),
            "outcome": _mean(outcome[keep]),
        }

    ends = (*MINUTES[1:], np.inf)
    return {
        "all": part(np.ones(len(values), bool)),
        "minutes": {
            str(start): part((minute >= start) & (minute < end))
            for start, end in zip(MINUTES, ends, strict=True)
        },
    }


def table_lines(measured: dict[str, dict[str, Any]]) -> list[str]:
    """Returns errors, and in brackets shares of right signs, as a Markdown table by name."""
    starts = " | ".join(f"from minute {start}" for start in MINUTES)
    lines = [
        f"| values | all | {starts} |",
        "|---" * (len(MINUTES) + 2) + "|",
    ]
    for name, result in measured.items():
        parts = [result["all"], *result["minutes"].values()]
        cells = " | ".join(f"{p['error']:.3f} ({p['sign']:.2f})" for p in parts)
        lines.append(f"| {name} | {cells} |")
    return lines


def _mean(values: NDArray[Any]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
