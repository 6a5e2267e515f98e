"""Feature layers: the planes of the minimap and the screen, and the raw interface's map state.

In: a game, a player, a `View` of the units. Out: wire bytes of an ObservationFeatureLayer. Planes
have row 0 in the north, as the game sends them; the map's own grids have row 0 in the south.
`plane_painting` does the painting.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from starmill.converters.protos import common_pb2
from starmill.engines.skirmish.observation import plane_painting
from starmill.engines.skirmish.observation.visible_units import View
from starmill.engines.skirmish.simulation.game import Game
from starmill.engines.skirmish.simulation.records import CELL_HIDDEN, CELL_VISIBLE
from starmill.schema import protobuf

_RENDERS, _MINIMAP_RENDERS = 1, 2  # fields of ObservationFeatureLayer
_MAP_VISIBILITY, _MAP_CREEP = 1, 2  # fields of MapState
_IMAGE_DATA = 3  # field of ImageData
_ALERT_SHOWN_LOOPS = 48
_DENSITY_STEP, _MAX_DENSITY = 16, 255  # of unit_density_aa

# name -> (field number, bits per pixel), as the game sends them.
MINIMAP_PLANES = {
    "height_map": (1, 8),
    "visibility_map": (2, 8),
    "creep": (3, 1),
    "camera": (4, 1),
    "player_id": (5, 8),
    "player_relative": (6, 8),
    "selected": (7, 1),
    "unit_type": (8, 32),
    "alerts": (9, 8),
    "buildable": (10, 1),
    "pathable": (11, 1),
}
SCREEN_PLANES = {
    "height_map": (1, 8),
    "visibility_map": (2, 8),
    "creep": (3, 1),
    "power": (4, 1),
    "player_id": (5, 8),
    "unit_type": (6, 32),
    "selected": (7, 1),
    "unit_hit_points": (8, 32),
    "unit_energy": (9, 32),
    "unit_shields": (10, 32),
    "player_relative": (11, 8),
    "unit_density_aa": (14, 8),
    "unit_density": (15, 8),
    "unit_hit_points_ratio": (17, 8),
    "unit_energy_ratio": (18, 8),
    "unit_shields_ratio": (19, 8),
    "effects": (20, 8),
    "hallucinations": (21, 1),
    "cloaked": (22, 1),
    "blip": (23, 1),
    "buffs": (24, 8),
    "active": (25, 1),
    "buff_duration": (26, 8),
    "build_progress": (27, 8),
    "buildable": (28, 1),
    "pathable": (29, 1),
    "placeholder": (30, 1),
}


def image(plane: NDArray[np.generic], bits: int) -> bytes:
    """Returns the bytes of an ImageData of a plane [Y, X] with 1, 8 or 32 bits a pixel."""
    head = _image_head(plane.shape[1], plane.shape[0], bits)
    return head + protobuf.bytes_field(_IMAGE_DATA, _pixels(plane, bits))


def _pixels(plane: NDArray[np.generic], bits: int) -> bytes:
    if bits == 1:
        return np.packbits(plane.astype(bool)).tobytes()
    return plane.astype(np.uint8 if bits == 8 else np.dtype("<i4")).tobytes()


@functools.cache
def _image_head(width: int, height: int, bits: int) -> bytes:
    size = common_pb2.Size2DI(x=width, y=height)
    head = common_pb2.ImageData(bits_per_pixel=bits, size=size)
    return head.SerializeToString()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Raster:
    """Which part of the map a picture shows.

    Attributes:
        size: (x, y) in pixels.
        left: world coordinate of its left edge.
        top: world coordinate of its top edge.
        scale: (x, y) pixels per cell.
        columns: [X] the map's column under each pixel, -1 off the map.
        rows: [Y] the map's row under each pixel, -1 off the map.
    """

    size: tuple[int, int]
    left: float
    top: float
    scale: tuple[float, float]
    columns: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def over(
        cls,
        size: tuple[int, int],
        corner: tuple[float, float],
        extent: tuple[float, float],
        grid: tuple[int, int],
    ) -> "Raster":
        """Returns a picture of a part of the map.

        Args:
            size: (x, y) in pixels.
            corner: (x, y) of its left and top edge, in world units.
            extent: (x, y) that it shows, in world units.
            grid: (height, width) of the map.
        """
        scale = (size[0] / extent[0], size[1] / extent[1])
        columns = np.floor(corner[0] + (np.arange(size[0]) + 0.5) / scale[0])
        rows = np.floor(corner[1] - (np.arange(size[1]) + 0.5) / scale[1])
        columns[(columns < 0) | (columns >= grid[1])] = -1
        rows[(rows < 0) | (rows >= grid[0])] = -1
        return cls(
            size=size,
            left=corner[0],
            top=corner[1],
            scale=scale,
            columns=columns.astype(np.int64),
            rows=rows.astype(np.int64),
        )

    @functools.cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The picture as `plane_painting` takes it: [6]."""
        return np.array([self.left, self.top, *self.scale, *self.size], np.float64)

    def sample(self, grid: NDArray[np.generic]) -> NDArray[np.generic]:
        """Returns the values of a map's grid [H, W] at the pixels; 0 off the map."""
        picture = grid[self.rows[:, None], self.columns[None, :]]
        picture[self.rows < 0] = 0
        picture[:, self.columns < 0] = 0
        return picture

    def pixels(
        self, x: NDArray[np.float64], y: NDArray[np.float64]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Returns the pixel columns and rows of world points, also of points outside."""
        column = np.floor((x - self.left) * self.scale[0]).astype(np.intp)
        row = np.floor((self.top - y) * self.scale[1]).astype(np.intp)
        return column, row


class Canvas:
    """The bytes of all planes of a picture. From one picture to the next only pixels change.

    `planes` maps names to (field number, bits per pixel).
    """

    def __init__(
        self, planes: Mapping[str, tuple[int, int]], size: tuple[int, int]
    ) -> None:
        self._planes = planes
        self._begins: dict[str, int] = {}
        self._empty = b""
        self.shape = (size[1], size[0])
        for name, (number, bits) in planes.items():
            blank = image(np.zeros(self.shape, np.uint8), bits)
            self._empty += protobuf.bytes_field(number, blank)
            self._begins[name] = len(self._empty) - -(-size[0] * size[1] * bits // 8)
        self.bytes = np.frombuffer(self._empty, np.uint8).copy()

    def clear(self) -> None:
        """Sets all pixels to zero."""
        self.bytes[:] = np.frombuffer(self._empty, np.uint8)

    def begins(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Returns where the pixels of these planes begin."""
        return np.array([self._begins[name] for name in names], np.int64)

    def bits(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Returns the bits per pixel of these planes."""
        return np.array([self._planes[name][1] for name in names], np.int64)

    def bytes_of(self, name: str) -> NDArray[np.uint8]:
        """Returns an 8-bit plane [Y, X] to paint on."""
        begin, (height, width) = self._begins[name], self.shape
        return self.bytes[begin : begin + height * width].reshape(height, width)

    def set(self, name: str, plane: NDArray[np.generic]) -> None:
        """Replaces a plane [Y, X] of 1 or 8 bits a pixel."""
        data = _pixels(plane, self._planes[name][1])
        begin = self._begins[name]
        self.bytes[begin : begin + len(data)] = np.frombuffer(data, np.uint8)


class Layers:
    """One player's minimap and screen in one game.

    `minimap` and `screen` are sizes (x, y) in pixels, or None for a picture that the client did
    not ask for.
    """

    def __init__(
        self,
        game: Game,
        player: int,
        minimap: tuple[int, int] | None,
        screen: tuple[int, int] | None,
        camera_width: float,
    ) -> None:
        self._game = game
        self._player = player
        shape = screen or (1, 1)
        self._camera = (camera_width, camera_width * shape[1] / shape[0])
        self._grid = (game.map.height, game.map.width)
        self._minimap = self._minimap_canvas = self._screen_canvas = None
        if minimap is not None:
            corner, side = (0.0, float(game.map.height)), float(max(self._grid))
            self._minimap = Raster.over(minimap, corner, (side, side), self._grid)
            self._minimap_canvas = Canvas(MINIMAP_PLANES, minimap)
            self._height = self._minimap.sample(game.map.terrain)
        if screen is not None:
            self._screen_canvas = Canvas(SCREEN_PLANES, screen)

    def _visibility(self) -> NDArray[np.uint8]:
        world = self._game.world
        if world.players[self._player]["all_visible"]:
            return np.full(self._grid, CELL_VISIBLE, np.uint8)
        return world.visibility[self._player]

    def sees(self, x: float, y: float) -> bool:
        """Returns whether the player sees this point now."""
        row, column = int(y), int(x)
        if not (0 <= row < self._grid[0] and 0 <= column < self._grid[1]):
            return False
        return bool(self._visibility()[row, column] == CELL_VISIBLE)

    def map_state(self) -> bytes:
        """Returns the raw interface's MapState: visibility and creep, southern row first."""
        visibility = self._visibility()
        # Cells that the player has never seen show no creep.
        creep = (self._game.world.creep == 1) & (visibility != CELL_HIDDEN)
        return protobuf.bytes_field(
            _MAP_VISIBILITY, image(visibility, 8)
        ) + protobuf.bytes_field(_MAP_CREEP, image(creep, 1))

    def on_screen(self, view: View) -> NDArray[np.bool_]:
        """Returns which units of a view are inside the camera's rectangle. Shape [N]."""
        camera = self._game.world.players[self._player]
        near_x = np.abs(view.units["x"] - camera["camera_x"]) <= self._camera[0] / 2
        near_y = np.abs(view.units["y"] - camera["camera_y"]) <= self._camera[1] / 2
        return near_x & near_y

    def serialized(self, view: View, on_screen: NDArray[np.bool_]) -> list[bytes]:
        """Returns the ObservationFeatureLayer of a view, in pieces to be joined."""
        out = []
        if self._screen_canvas is not None:
            self._paint_screen(self._screen_canvas, view, on_screen)
            out += protobuf.bytes_field_parts(
                _RENDERS, [self._screen_canvas.bytes.tobytes()]
            )
        if self._minimap is not None and self._minimap_canvas is not None:
            canvas = self._minimap_canvas
            self._paint_minimap(self._minimap, canvas, view)
            out += protobuf.bytes_field_parts(
                _MINIMAP_RENDERS, [canvas.bytes.tobytes()]
            )
        return out

    def _paint_minimap(self, raster: Raster, canvas: Canvas, view: View) -> None:
        canvas.clear()
        canvas.set("height_map", self._height)
        canvas.set("camera", self._camera_plane(raster))
        self._paint_alerts(raster, canvas.bytes_of("alerts"))
        self._paint_terrain(raster, canvas)
        names = plane_painting.UNITS[: plane_painting.MINIMAP_UNITS]
        everyone = np.ones(len(view.units), bool)
        self._paint_units(raster, canvas, view, everyone, names, np.zeros(0, np.int64))

    def _paint_terrain(self, raster: Raster, canvas: Canvas) -> None:
        plane_painting.paint_terrain(
            self._game.world.state,
            self._player,
            raster.columns,
            raster.rows,
            canvas.begins(plane_painting.TERRAIN),
            canvas.bytes,
        )

    def _paint_units(
        self,
        raster: Raster,
        canvas: Canvas,
        view: View,
        shown: NDArray[np.bool_],
        names: Sequence[str],
        counts: NDArray[np.int64],
    ) -> None:
        plane_painting.paint_units(
            self._game.world.state,
            raster.numbers,
            view,
            shown,
            canvas.begins(names),
            canvas.bits(names),
            canvas.bytes,
            counts,
        )

    def _camera_plane(self, raster: Raster) -> NDArray[np.bool_]:
        """Returns the camera's rectangle on the minimap. Shape [Y, X]."""
        camera = self._game.world.players[self._player]
        plane = np.zeros((raster.size[1], raster.size[0]), bool)
        half_x, half_y = self._camera[0] / 2, self._camera[1] / 2
        x = np.array([camera["camera_x"] - half_x, camera["camera_x"] + half_x])
        y = np.array([camera["camera_y"] + half_y, camera["camera_y"] - half_y])
        column, row = raster.pixels(x, y)
        top, left = max(int(row[0]), 0), max(int(column[0]), 0)
        plane[top : max(int(row[1]) + 1, 0), left : max(int(column[1]) + 1, 0)] = True
        return plane

    def _paint_alerts(self, raster: Raster, plane: NDArray[np.uint8]) -> None:
        """Paints a square of three pixels at each recent alert."""
        alerts = self._game.world.alerts[self._player]
        recent = alerts["loop"] > self._game.loop - _ALERT_SHOWN_LOOPS
        alerts = alerts[recent & (alerts["kind"] > 0)]
        columns, rows = raster.pixels(alerts["x"], alerts["y"])
        for column, row in zip(columns, rows, strict=True):
            top, left = max(int(row) - 1, 0), max(int(column) - 1, 0)
            plane[top : max(int(row) + 2, 0), left : max(int(column) + 2, 0)] = 1

    def screen_shape(self) -> tuple[int, int] | None:
        """Returns the screen's height and width in pixels, or None without feature layers."""
        return self._screen_canvas.shape if self._screen_canvas else None

    def screen_raster(self, camera: tuple[float, float] | None = None) -> Raster:
        """Returns what the screen shows. camera: its centre; None for where it is now."""
        if camera is None:
            state = self._game.world.players[self._player]
            camera = (float(state["camera_x"]), float(state["camera_y"]))
        corner = (camera[0] - self._camera[0] / 2, camera[1] + self._camera[1] / 2)
        height, width = self._screen_canvas.shape if self._screen_canvas else (1, 1)
        return Raster.over((width, height), corner, self._camera, self._grid)

    def minimap_raster(self) -> Raster | None:
        """Returns what the minimap shows, or None without feature layers."""
        return self._minimap

    def _paint_screen(
        self, canvas: Canvas, view: View, on_screen: NDArray[np.bool_]
    ) -> None:
        raster, world = self.screen_raster(), self._game.world
        canvas.clear()
        canvas.set("height_map", raster.sample(self._game.map.terrain))
        canvas.set("power", raster.sample(world.power[self._player]))
        self._paint_terrain(raster, canvas)
        begin = int(canvas.begins(("effects",))[0])
        plane_painting.paint_effects(
            world.state, self._player, raster.numbers, begin, canvas.bytes
        )
        counts = np.zeros(canvas.shape[0] * canvas.shape[1], np.int64)
        names = plane_painting.UNITS
        self._paint_units(raster, canvas, view, on_screen, names, counts)
        density = counts.reshape(canvas.shape)
        canvas.set("unit_density", density)
        shades = np.minimum(density * _DENSITY_STEP, _MAX_DENSITY)
        canvas.set("unit_density_aa", shades)
