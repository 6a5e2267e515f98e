"""Conditions on the episode table, and what to say when no episode satisfies them.

In: the arguments of `Dataset.filter`. Out: rows of the table, or a `ConfigError` that lists
the values that exist. Works on the table alone; no episode is decoded.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow
import pyarrow.compute

from starmill.schema import errors
from starmill.schema.game_constants import RACES
from starmill.schema.replay_row import OUTCOMES
from starmill.schema.selection import SPLITS

Names = str | Collection[str] | None
Numbers = int | Collection[int] | None
MMR_RULES = ("own", "both")


class Condition(NamedTuple):
    """A condition that episodes must satisfy.

    Attributes:
        text: the argument and its value, for messages.
        column: the column of the table that it is about.
        expression: the condition, for pyarrow.
    """

    text: str
    column: str
    expression: pyarrow.compute.Expression


def known_values(statistics: Mapping[str, Any]) -> dict[str, tuple[str | int, ...]]:
    """Returns the values that a filter may ask for, by column.

    Splits, races and outcomes are the same for all datasets; an episode need not have each.
    Maps and versions are those of the whole dataset, by the statistics of its manifest.
    """
    return {
        "split": SPLITS,
        "race": RACES,
        "opponent_race": RACES,
        "map_name": tuple(statistics.get("by_map", ())),
        "game_version": tuple(statistics.get("by_game_version", ())),
        "outcome": tuple(value for value in OUTCOMES.values() if value is not None),
    }


def one_of(
    values: Mapping[str, Names | Numbers], known: Mapping[str, Collection[str | int]]
) -> list[Condition]:
    """Returns conditions that columns have one of the given values.

    Args:
        values: a value or several of them, by column; None for no condition.
        known: the values that may be asked for, by column; others are a ConfigError.
    """
    conditions, problems = [], []
    for column, value in values.items():
        if value is None:
            continue
        options = [value] if isinstance(value, str | int) else list(value)
        problems += [
            errors.choice_problem(column, option, known[column]) for option in options
        ]
        text = f"{column} {' or '.join(repr(option) for option in options)}"
        expression = pyarrow.compute.field(column).isin(options)
        conditions.append((text, column, expression))
    texts = [problem for problem in problems if problem is not None]
    if texts:
        raise errors.ConfigError("; ".join(texts))
    return [Condition(*condition) for condition in conditions]


def in_ranges(
    *,
    mmr_above: int | None,
    mmr_rule: str,
    min_steps: int | None,
    max_steps: int | None,
) -> list[Condition]:
    """Returns the conditions on ratings and lengths; see `Dataset.filter`."""
    problem = errors.choice_problem("mmr_rule", mmr_rule, MMR_RULES)
    if problem is not None:
        raise errors.ConfigError(problem)
    field = pyarrow.compute.field
    conditions = []
    if mmr_above is not None:
        columns = ("mmr", "opponent_mmr") if mmr_rule == "both" else ("mmr",)
        conditions += [
            Condition(f"{column} above {mmr_above}", column, field(column) > mmr_above)
            for column in columns
        ]
    if min_steps is not None:
        text = f"at least {min_steps} steps"
        conditions.append(Condition(text, "steps", field("steps") >= min_steps))
    if max_steps is not None:
        text = f"at most {max_steps} steps"
        conditions.append(Condition(text, "steps", field("steps") <= max_steps))
    return conditions


def apply(
    rows: pyarrow.Table,
    conditions: Sequence[Condition],
    where: pyarrow.compute.Expression | None,
) -> pyarrow.Table:
    """Returns the rows that satisfy all conditions; ConfigError if none does."""
    count = rows.num_rows
    for condition in conditions:
        left = rows.filter(condition.expression)
        if left.num_rows == 0:
            raise errors.ConfigError(
                f"no episode of {count} satisfies the filters: none is left with "
                f"{condition.text}; {_present(rows, condition.column)}"
            )
        rows = left
    if where is None:
        return rows
    try:
        left = rows.filter(where)
    except pyarrow.ArrowInvalid as error:
        raise errors.ConfigError(
            f"where: {error}; the columns are {', '.join(rows.column_names)}"
        ) from error
    if left.num_rows == 0:
        raise errors.ConfigError(
            f"no episode of {count} satisfies the filters: none is left with where={where}"
        )
    return left


def _present(rows: pyarrow.Table, column: str) -> str:
    """Returns a sentence with the values that rows have in a column."""
    values = rows.column(column).drop_null()
    if len(values) == 0:
        return f"{column} is unknown in all of them"
    if column in ("mmr", "opponent_mmr", "steps"):
        bounds = pyarrow.compute.min_max(values).as_py()
        return f"{column} is from {bounds['min']:,} to {bounds['max']:,}"
    present = sorted(values.unique().to_pylist())
    return f"{column} is one of {', '.join(str(value) for value in present)}"
