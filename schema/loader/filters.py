"""Conditions on the episode table, and what to say when no episode satisfies them.

In: the arguments of `Dataset.filter`. Out: numbers of rows of the table, or a `ConfigError` that
lists the values that exist. Reads the columns that conditions name; no episode is decoded.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.compute
from numpy.typing import NDArray

from starmill.schema import errors, table
from starmill.schema.game_constants import RACES
from starmill.schema.loader.lazy_table import LazyTable, ascending
from starmill.schema.replay_row import OUTCOMES
from starmill.schema.selection import SPLITS

Names = str | Collection[str] | None
Numbers = int | Collection[int] | None
MMR_RULES = ("own", "both")
# The column of row numbers while rows are chosen; no column of a table has this name.
_NUMBER = "row number"


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
    content: LazyTable,
    rows: NDArray[np.int64],
    conditions: Sequence[Condition],
    where: pyarrow.compute.Expression | None,
) -> NDArray[np.int64]:
    """Returns the rows that satisfy all conditions, in their order; ConfigError if none does.

    Args:
        content: the table.
        rows: numbers of the rows to choose from.
        conditions: read one column each.
        where: any other condition; reads the columns that it names.
    """
    count = len(rows)
    for condition in conditions:
        left = _rows_with(content, rows, condition.expression, [condition.column])
        if len(left) == 0:
            raise errors.ConfigError(
                f"no episode of {count} satisfies the filters: none is left with "
                f"{condition.text}; {_present(content, rows, condition.column)}"
            )
        rows = left
    if where is None:
        return rows
    left = rows_where(content, rows, where)
    if len(left) == 0:
        raise errors.ConfigError(
            f"no episode of {count} satisfies the filters: none is left with where={where}"
        )
    return left


def rows_where(
    content: LazyTable, rows: NDArray[np.int64], where: pyarrow.compute.Expression
) -> NDArray[np.int64]:
    """Returns the rows that satisfy an expression on any columns; ConfigError for others."""
    try:
        return _rows_with(content, rows, where, _columns_of(where))
    except pyarrow.ArrowInvalid as error:
        raise errors.ConfigError(
            f"where: {error}; the columns are {', '.join(content.names)}"
        ) from error


def _rows_with(
    content: LazyTable,
    rows: NDArray[np.int64],
    expression: pyarrow.compute.Expression,
    names: Sequence[str],
) -> NDArray[np.int64]:
    is_kept = np.zeros(content.num_rows, np.bool_)
    for part in content.pieces(names, ascending(rows)):
        end = part.first + part.content.num_rows
        numbered = part.content.append_column(
            _NUMBER, pyarrow.array(np.arange(part.first, end))
        )
        is_kept[np.asarray(numbered.filter(expression).column(_NUMBER))] = True
    return rows[is_kept[rows]]


def _columns_of(expression: pyarrow.compute.Expression) -> list[str]:
    """Returns the columns that an expression needs: without them it cannot be evaluated."""
    nothing = table.EPISODE_SCHEMA.empty_table()
    nothing.filter(expression)
    names = []
    for name in nothing.column_names:
        try:
            nothing.drop_columns([name]).filter(expression)
        except pyarrow.ArrowInvalid:
            names.append(name)
    # An expression without columns is true of all rows or of none; any column counts them.
    return names or ["steps"]


def _present(content: LazyTable, rows: NDArray[np.int64], column: str) -> str:
    """Returns a sentence with the values that rows have in a column."""
    values = content.columns([column], rows).column(column).drop_null()
    if len(values) == 0:
        return f"{column} is unknown in all of them"
    if column in ("mmr", "opponent_mmr", "steps"):
        bounds = pyarrow.compute.min_max(values).as_py()
        return f"{column} is from {bounds['min']:,} to {bounds['max']:,}"
    present = sorted(values.unique().to_pylist())
    return f"{column} is one of {', '.join(str(value) for value in present)}"
