"""Reads many byte ranges of a folder's files at once.

In: a `storage.RangeReader`, and ranges. Out: their bytes. Ranges that are close together are one
request, and all requests to an object store run at the same time. Must not know what is in them.
"""

import bisect
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from starmill.schema import errors, storage

# Ranges of a file that are no further apart are read as one: a request costs more than these bytes.
_MOST_GAP_BYTES = 1 << 17


class Range(NamedTuple):
    """A range of a file of a folder.

    Attributes:
        name: of the file.
        begin: its first byte.
        end: the byte after its last one.
    """

    name: str
    begin: int
    end: int


def spans(ranges: Iterable[Range], gap: int) -> list[Range]:
    """Returns the ranges to read for some ranges, sorted; some that are close become one.

    Args:
        ranges: in any order.
        gap: the most bytes between two ranges that become one.
    """
    out: list[Range] = []
    for item in sorted(set(ranges)):
        last = out[-1] if out else None
        if last and last.name == item.name and item.begin <= last.end + gap:
            out[-1] = last._replace(end=max(last.end, item.end))
        else:
            out.append(item)
    return out


def read_many(files: storage.RangeReader, ranges: Sequence[Range]) -> list[bytes]:
    """Returns the bytes of ranges, as `RangeReader.read` does; a store is asked for all at once."""
    wanted = spans(ranges, 0 if storage.is_local(files.folder) else _MOST_GAP_BYTES)
    if storage.is_local(files.folder) or len(wanted) == 1:
        data = [files.read(*item) for item in wanted]
    else:
        data = _fetch(files, wanted)
    out = []
    for item in ranges:
        number = bisect.bisect_right(wanted, (item.name, item.begin, math.inf)) - 1
        base = wanted[number].begin
        out.append(data[number][item.begin - base : item.end - base])
    return out


def _fetch(files: storage.RangeReader, ranges: Sequence[Range]) -> list[bytes]:
    """Returns the bytes of ranges of a store; the requests run at the same time."""
    urls = [files.url(item.name) for item in ranges]
    filesystem, _ = storage.filesystem_of(files.folder)
    paths = [filesystem._strip_protocol(url) for url in urls]
    data: dict[int, bytes] = {}

    def attempt() -> None:
        left = [number for number in range(len(ranges)) if number not in data]
        answers = filesystem.cat_ranges(
            [paths[number] for number in left],
            [ranges[number].begin for number in left],
            [ranges[number].end for number in left],
            on_error="return",
        )
        failures = []
        for number, answer in zip(left, answers, strict=True):
            if isinstance(answer, FileNotFoundError):
                raise errors.ShardCorrupt(f"{urls[number]}: the file is missing")
            if isinstance(answer, BaseException):
                failures.append(answer)
            else:
                data[number] = bytes(answer)
        if failures:
            raise failures[0]

    try:
        storage.retry(attempt, f"reading {len(ranges)} ranges of {files.folder}")
    except OSError as error:
        first = next(url for n, url in enumerate(urls) if n not in data)
        raise errors.ShardCorrupt(f"{first}: cannot be read: {error}") from error
    for number, item in enumerate(ranges):
        storage.check_length(urls[number], data[number], item.begin, item.end)
    return [data[number] for number in range(len(ranges))]
