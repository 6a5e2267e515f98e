"""Which section of a chunk's payload holds which array.

In: converter settings. Out: the layout that follows from them, and nothing else. Knows no
bytes of a section; `packing` and `planes` draw those.

    payload   length u32 of each section | section 0 | 1 | 2 | 3 | 4 ...

    0         table: the small int32 arrays, then the camera's corners
    1         lists: `action/unit_tags`
    2         units: `raw_units`
    3         the camera as int32 [steps, H, W]; empty if it is a rectangle in every step
    4 ...     a plane each: the uint8 arrays
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.schema import specs
from starmill.schema.settings import ConverterSettings

UNITS, LISTS, CAMERA, DELAY = "raw_units", "action/unit_tags", "camera", "action/delay"
TABLE_SECTION, LISTS_SECTION, UNITS_SECTION, CAMERA_SECTION, FIRST_PLANE = range(5)
# Series of the camera's corners in the table: top, bottom, left, right.
CORNERS = 4
_TAG_COLUMN = "tag"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """Where each array of an episode is stored.

    Attributes:
        shapes: shape of each array, without the time axis.
        dtypes: dtype of each array.
        table: keys of the arrays in the table, sorted.
        groups: where each of them begins among the F series of the table; then where the
            camera's corners begin; then F. int64 [len(table) + 2].
        lists: key of the padded lists, or None.
        pad: number that lists are padded with: the most units that a step may have.
        camera: key of the camera's plane, or None.
        planes: keys of the uint8 planes, sorted.
        tag_column: column of `raw_units` that holds the tag, -1 if it has none.
        fingerprint: first 8 bytes of the spec's fingerprint.
        section: number of the section that holds each array.
    """

    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, np.dtype[Any]]
    table: tuple[str, ...]
    groups: NDArray[np.int64]
    lists: str | None
    pad: int
    camera: str | None
    planes: tuple[str, ...]
    tag_column: int
    fingerprint: bytes
    section: Mapping[str, int]

    @property
    def sections(self) -> int:
        """How many sections a payload has."""
        return FIRST_PLANE + len(self.planes)

    @property
    def corners(self) -> int:
        """First series of the table that is a corner of the camera."""
        return int(self.groups[len(self.table)])

    def plane_size(self, key: str) -> int:
        """Returns the number of cells of a plane."""
        return int(np.prod(self.shapes[key], dtype=np.int64))

    def payload_bound(self, steps: int) -> int:
        """Returns the most bytes that a payload of so many steps has.

        The encoder reserves less or as much: see the functions `..._bound` of `packing` and
        `planes`.
        """
        series = int(self.groups[-1])
        capacity, columns = self.shapes[UNITS]
        rows = steps * capacity
        bound = 4 * self.sections + 64 + 16 * self.groups.size + 14 * series * steps
        bound += 64 + 16 * rows + steps + columns * (16 + 20 * rows)
        if self.lists is not None:
            bound += 16 + 4 * steps * (int(np.prod(self.shapes[self.lists])) + 1)
        if self.camera is not None:
            bound += 4 * steps * int(np.prod(self.shapes[self.camera]))
        sizes = [self.plane_size(key) for key in self.planes]
        return bound + sum(64 + size * (13 + steps) for size in sizes)


@functools.lru_cache(maxsize=64)
def layout(settings: ConverterSettings) -> Layout:
    """Returns the layout of payloads for these settings."""
    arrays = specs.episode_specs(settings)
    planes = tuple(key for key, spec in arrays.items() if spec.dtype == "uint8")
    special = {UNITS, LISTS, CAMERA, *planes}
    table = tuple(key for key in arrays if key not in special)
    section = dict.fromkeys(table, TABLE_SECTION)
    section |= {LISTS: LISTS_SECTION, UNITS: UNITS_SECTION, CAMERA: CAMERA_SECTION}
    section |= {key: FIRST_PLANE + number for number, key in enumerate(planes)}
    sizes = [int(np.prod(arrays[key].shape, dtype=np.int64)) for key in table]
    columns = specs.unit_columns(settings)
    return Layout(
        shapes={key: spec.shape for key, spec in arrays.items()},
        dtypes={key: np.dtype(spec.dtype) for key, spec in arrays.items()},
        table=table,
        groups=np.cumsum([0, *sizes, CORNERS if CAMERA in arrays else 0]),
        lists=LISTS if LISTS in arrays else None,
        pad=arrays[UNITS].shape[0],
        camera=CAMERA if CAMERA in arrays else None,
        planes=planes,
        tag_column=columns.index(_TAG_COLUMN) if _TAG_COLUMN in columns else -1,
        fingerprint=bytes.fromhex(specs.fingerprint(settings))[:8],
        section=section,
    )
