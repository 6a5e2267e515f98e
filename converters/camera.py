"""Where the player looks: the camera in world units, on the grid, and as a plane.

In: the camera's centre and the settings. Out: its view, position, size and the rectangle of
grid cells that it covers. Without a virtual camera the game itself says what is in view.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.converters import geometry
from starmill.schema import errors, specs
from starmill.schema.settings import ConverterSettings


class Reach(NamedTuple):
    """Distances from a camera's centre to its edges, in world units.

    Attributes:
        left: to the edge at smaller world x.
        right: to the edge at larger world x.
        top: to the edge at smaller world y.
        bottom: to the edge at larger world y.
    """

    left: np.float32
    right: np.float32
    top: np.float32
    bottom: np.float32


class View(NamedTuple):
    """What a camera sees, in world units; the edges belong to it.

    Attributes:
        left: smallest x.
        right: largest x.
        top: smallest y.
        bottom: largest y.
    """

    left: np.float32
    right: np.float32
    top: np.float32
    bottom: np.float32


class Rectangle(NamedTuple):
    """Cells of the grid.

    Attributes:
        left: first column.
        right: column after the last.
        top: first row.
        bottom: row after the last.
    """

    left: int
    right: int
    top: int
    bottom: int


class Sight(NamedTuple):
    """A camera at one place.

    Attributes:
        centre: x and y in world units.
        view: what is around the centre; meaningless without a virtual camera.
        position: grid column and row of the centre.
        cells: the cells in view, cut at the border; none if no plane is drawn.
    """

    centre: tuple[np.float32, np.float32]
    view: View
    position: tuple[int, int]
    cells: Rectangle


NO_VIEW = View(np.float32(0), np.float32(0), np.float32(0), np.float32(0))
NOWHERE = Rectangle(0, 0, 0, 0)


def virtual_reach(settings: ConverterSettings) -> Reach:
    """Returns how far the virtual camera sees.

    Raises ConverterError where a side is missing or not above 0.
    """
    sides = specs.raw_settings(settings).virtual_camera_dimensions
    if sides is None:
        half = np.float32(settings.camera_width_world_units) / np.float32(2)
        reach = Reach(half, half, half, half)
    else:
        reach = Reach(
            np.float32(sides.left),
            np.float32(sides.right),
            np.float32(sides.top),
            np.float32(sides.bottom),
        )
    if not all(side > 0 for side in reach):
        raise errors.ConverterError(
            "virtual_camera_dimensions: expected four sides above 0, found "
            f"{[float(side) for side in reach]}"
        )
    return reach


def view_from(x: np.float32, y: np.float32, reach: Reach) -> View:
    """Returns what a camera at x, y sees."""
    return View(x - reach.left, x + reach.right, y - reach.top, y + reach.bottom)


def size(grid: geometry.Grid, width_world_units: int) -> tuple[int, int]:
    """Returns the side of the game's own camera in cells, twice."""
    share = np.float32(width_world_units) / np.float32(grid.side)
    cells = int(geometry.trunc(np.float32(grid.resolution) * share))
    return cells, cells


def _cut(value: int, grid: geometry.Grid) -> int:
    return min(max(value, 0), grid.resolution)


def virtual_rectangle(grid: geometry.Grid, view: View) -> Rectangle:
    """Returns the cells in a virtual camera's view, cut at the grid's border.

    Raises ConverterError where its opposite edges fall into one cell.
    """
    left = int(geometry.column(grid, view.left))
    right = int(geometry.column(grid, view.right))
    top = int(geometry.row(grid, view.bottom))
    bottom = int(geometry.row(grid, view.top))
    if left >= right or top >= bottom:
        raise errors.ConverterError(
            "virtual camera: expected more than one cell each way, found columns "
            f"{left} to {right}, rows {top} to {bottom}"
        )
    return Rectangle(
        _cut(left, grid), _cut(right + 1, grid), _cut(top, grid), _cut(bottom + 1, grid)
    )


def rectangle(
    grid: geometry.Grid, place: tuple[int, int], cells: tuple[int, int]
) -> Rectangle:
    """Returns the cells in the game's own camera's view, cut at the grid's border."""
    (x, y), (width, height) = place, cells
    return Rectangle(
        _cut(x - width // 2, grid),
        _cut(x + width // 2, grid),
        _cut(y - height // 2, grid),
        _cut(y + height // 2, grid),
    )


def look(
    grid: geometry.Grid,
    centre: tuple[np.float32, np.float32],
    reach: Reach | None,
    cells: tuple[int, int] | None,
) -> Sight:
    """Returns what a camera sees, and where that is on the grid.

    Args:
        grid: the map's.
        centre: the camera's, in world units.
        reach: of a virtual camera; None for the game's own.
        cells: `size` of the game's own camera; None where no plane is drawn.
    """
    x, y = centre
    position = int(geometry.column(grid, x)), int(geometry.row(grid, y))
    view = NO_VIEW if reach is None else view_from(x, y, reach)
    lit = NOWHERE
    if cells is not None and reach is None:
        lit = rectangle(grid, position, cells)
    elif cells is not None:
        lit = virtual_rectangle(grid, view)
    return Sight(centre, view, position, lit)


def light(plane: NDArray[Any], before: Rectangle, now: Rectangle) -> None:
    """Clears the rectangle that was lit before, and sets the plane to 1 in another."""
    plane[before.top : before.bottom, before.left : before.right] = 0
    plane[now.top : now.bottom, now.left : now.right] = 1
