"""Reads JSON without trusting it.

In: text or bytes that anyone may have written. Out: the value, or a ValueError for all that is
wrong with it. Python's own reader raises RecursionError for lists in lists in lists, and so
does whoever walks through a value that it just managed to read.
"""

import json
from typing import Any

# Far more than any of our files has; every walk through a value manages it.
MOST_LEVELS = 64


def parse(text: str | bytes) -> Any:
    """Returns the value; ValueError if it is no JSON, or nested more than 64 levels deep."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(_too_deep()) from error
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return value
    raise ValueError(_too_deep())


def _inside(value: Any) -> list[Any]:
    """Returns the lists and objects directly in a value."""
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return []
    return [one for one in inner if isinstance(one, dict | list)]


def _too_deep() -> str:
    return f"expected values nested at most {MOST_LEVELS} levels deep"
