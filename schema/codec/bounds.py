"""Every index and length that compiled loops take from stored bytes, and how each is bounded.

A shard can hold any bytes: its checksums only show that its writer wrote them. A loop compares
each number with its bound before it uses it, and returns the bound's code as a negative number
instead of reading, writing or allocating. It raises nothing: an exception that passes through
compiled code leaks the arrays of all loops that it passes.
`tests/schema/codec/test_bounds.py` attacks every row of the table.
"""

from typing import NamedTuple

# The codes are constants, so that compiled loops can use them.
NUMBER = 1
STREAM = 2
MODE = 3
SERIES = 4
DELTAS = 5
CHANGES = 6
COLLECTED = 7
LIST = 8
INSTANCES = 9
LISTED_ROWS = 10
LISTED_ROW = 11
ORDER = 12
NEW_ROWS = 13
INSERTED_ROWS = 14
INSERTED_ROW = 15
ROWS = 16
FORM = 17
CELL = 18
FLIPS = 19
CORNERS = 20
CAMERA = 21


class Bound(NamedTuple):
    """A number that is taken from stored bytes.

    Attributes:
        code: what loops return, negative, if the number is out of bounds.
        section: the sections of a payload that hold it.
        number: the number's meaning.
        bound: what it must satisfy before it is used.
        message: the text of the error.
    """

    code: int
    section: str
    number: str
    bound: str
    message: str


TABLE = (
    Bound(NUMBER, "all", "bytes of a varint", "six, all inside the section",
          "the section ends inside a number"),
    Bound(STREAM, "all", "begin and size of a stream, place of a byte",
          "the last byte is inside the section", "the section is shorter than its streams"),
    Bound(MODE, "table, units", "mode of a column", "0, 1 or 2",
          "a column has no known mode"),
    Bound(SERIES, "table, units", "gap to the next series that changes",
          "the series is one of the column's", "a series beyond the last is named"),
    Bound(DELTAS, "table, units", "bits of a mask: a place among the differences",
          "below the number of differences", "more changes are named than are held"),
    Bound(CHANGES, "table, units, planes", "changes in all: a length to allocate",
          "series (or cells) times the later steps", "more changes are stated than can be"),
    Bound(COLLECTED, "table, units", "changes in the steps that are read",
          "the changes in all", "more changes are held than are stated"),
    Bound(LIST, "lists", "length of a list, and its place among the values",
          "the spec's length; the values", "a list is longer than the spec allows"),
    Bound(INSTANCES, "units", "instances: a length to allocate",
          "the steps times the spec's rows", "there are more instances than the spec allows"),
    Bound(LISTED_ROWS, "units", "rows of a step that lists them",
          "the rest of the list", "fewer rows are listed than there are"),
    Bound(LISTED_ROW, "units", "instance of a listed row", "below the instances",
          "a row beyond the last is named"),
    Bound(ORDER, "units", "flag of a step's order", "0, 1 or 2, and 2 in the first step",
          "the rows of the first step are not listed, or an order has no known form"),
    Bound(NEW_ROWS, "units", "rows of a step with its new ones", "the instances",
          "a row is there twice"),
    Bound(INSERTED_ROWS, "units", "rows that a step inserts", "the rest of the ids",
          "fewer rows are inserted than are new"),
    Bound(INSERTED_ROW, "units", "instance of an inserted row, and rows before it",
          "below the instances; the rows that remain",
          "a row is inserted beyond the last"),
    Bound(ROWS, "units", "rows of a step", "the spec's rows, and the buffer's",
          "there are more rows than the spec allows"),
    Bound(FORM, "planes", "form of the first step", "0, 1 or 2",
          "the first step has no known form"),
    Bound(CELL, "planes", "gap to the next cell that changes", "the cell is in the plane",
          "a cell beyond the last is named"),
    Bound(FLIPS, "planes", "bits of a mask: a place among the flips",
          "below the number of flips", "more flips are named than are held"),
    Bound(CORNERS, "table", "corners of the camera", "a rectangle inside the plane",
          "the camera is not inside the plane"),
    Bound(CAMERA, "camera", "bytes of the section", "4 times the steps times the cells",
          "the camera is stored in another size"),
)  # fmt: skip

_MESSAGES = {bound.code: bound.message for bound in TABLE}


def message(status: int) -> str:
    """Returns what a loop found out of bounds, by the negative number that it returned."""
    return _MESSAGES[-status]
