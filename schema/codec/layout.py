"""Which section of a chunk's payload holds which array: follows from the settings alone."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.schema import specs
from starmill.schema.settings import ConverterSettings

UNITS, LISTS, CAMERA = "raw_units", "action/unit_tags", "camera"
_TAG_COLUMN = "tag"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """Which section of a payload holds which array, as the settings have it.

    table: keys of the small int32 arrays, in order; groups: where each begins among the
        table's F rows, and after the last the four corners of the camera.
    lists: key of the padded lists or None; pad: what they are padded with.
    camera: key of the camera plane or None.  planes: keys of the uint8 planes.
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

    @property
    def corners(self) -> int:
        """Row of the table where the camera's corners begin."""
        return int(self.groups[len(self.table)])

    def section(self, key: str) -> int:
        """Returns the number of the section that holds an array."""
        if key in self.planes:
            return 4 + self.planes.index(key)
        return {self.lists: 1, UNITS: 2, self.camera: 3}.get(key, 0)


@functools.lru_cache(maxsize=64)
def layout(settings: ConverterSettings) -> Layout:
    """Returns the layout of payloads for these settings."""
    found = specs.episode_specs(settings)
    planes = tuple(key for key, spec in found.items() if spec.dtype == "uint8")
    special = {UNITS, LISTS, CAMERA, *planes}
    table = tuple(key for key in found if key not in special)
    sizes = [int(np.prod(found[key].shape, dtype=np.int64)) for key in table]
    columns = specs.unit_columns(settings)
    return Layout(
        shapes={key: spec.shape for key, spec in found.items()},
        dtypes={key: np.dtype(spec.dtype) for key, spec in found.items()},
        table=table,
        groups=np.cumsum([0, *sizes, 4 if CAMERA in found else 0]),
        lists=LISTS if LISTS in found else None,
        pad=found[UNITS].shape[0],
        camera=CAMERA if CAMERA in found else None,
        planes=planes,
        tag_column=columns.index(_TAG_COLUMN) if _TAG_COLUMN in columns else -1,
        fingerprint=bytes.fromhex(specs.fingerprint(settings))[:8],
    )
