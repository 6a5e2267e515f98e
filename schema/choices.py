"""Error texts for a value that is not one of those that exist.

In: what was asked for, and what there is. Out: a sentence that lists the choices and suggests
the nearest one. Must not know what the values stand for.
"""

import difflib
from collections.abc import Collection

# A list of choices longer than this is cut short in a message.
_MOST_LISTED = 40


def problem(name: str, value: object, choices: Collection[object]) -> str | None:
    """Returns None if `value` is one of the choices, otherwise what to say about it.

    For example "split 'tran': there are train, valid, test; did you mean 'train'?".
    """
    # Not `value in choices`: a value that cannot be hashed is as wrong as any other.
    if any(value == choice for choice in choices):
        return None
    names = [str(choice) for choice in choices]
    listed = ", ".join(names[:_MOST_LISTED])
    if len(names) > _MOST_LISTED:
        listed += f" and {len(names) - _MOST_LISTED} more"
    text = f"{name} {value!r}: there are {listed}" if names else f"{name} {value!r}"
    nearest = difflib.get_close_matches(str(value), names, n=1)
    return f"{text}; did you mean {nearest[0]!r}?" if nearest else text
