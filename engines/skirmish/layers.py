"""Feature layers: the minimap and the screen as planes, and the raw interface's map state.

In: a game, a player, a view of the units. Out: wire bytes of an ObservationFeatureLayer. Images
have row 0 at the north, as the game sends them; the map's own grids have row 0 at the south.
Units are painted as squares of their radius, the later over the earlier.
"""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from starmill.converters.protos import common_pb2, raw_pb2
from starmill.engines.skirmish import game as game_lib
from starmill.engines.skirmish import view, wire_writer

_RENDERS, _MINIMAP_RENDERS = 1, 2  # of ObservationFeatureLayer
_ALERT_SHOWN_LOOPS = 48
_MAX_RADIUS_PX = 24
_HIDDEN, _FOGGED, _SEEN = 0, 1, 2

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
    """Returns an ImageData of a plane [Y, X] with 1, 8 or 32 bits per pixel."""
    if bits == 1:
        data = np.packbits(plane.astype(bool)).tobytes()
    else:
        data = plane.astype(np.uint8 if bits == 8 else np.dtype("<i4")).tobytes()
    return _image_head(plane.shape[1], plane.shape[0], bits) + wire_writer.field(
        3, data
    )


@functools.cache
def _image_head(width: int, height: int, bits: int) -> bytes:
    size = common_pb2.Size2DI(x=width, y=height)
    head = common_pb2.ImageData(bits_per_pixel=bits, size=size)
    return head.SerializeToString()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Raster:
    """A picture of a part of the map.

    size: pixels (x, y). left, top: world coordinates of the corner. scale: pixels per cell.
    cells: [Y, X] flat index into the map's [H, W] grid; 0 where a pixel is off the map.
    outside: [Y, X] where that is; None if nowhere.
    """

    size: tuple[int, int]
    left: float
    top: float
    scale: tuple[float, float]
    cells: NDArray[np.intp]
    outside: NDArray[np.bool_] | None

    @classmethod
    def over(
        cls,
        size: tuple[int, int],
        corner: tuple[float, float],
        extent: tuple[float, float],
        grid: tuple[int, int],
    ) -> "Raster":
        """Returns a picture of `extent` world units from the top left corner on."""
        scale = (size[0] / extent[0], size[1] / extent[1])
        height, width = grid
        columns = np.floor(corner[0] + (np.arange(size[0]) + 0.5) / scale[0])
        rows = np.floor(corner[1] - (np.arange(size[1]) + 0.5) / scale[1])
        flat = rows[:, None].astype(np.intp) * width + columns[None, :].astype(np.intp)
        inside = ((rows >= 0) & (rows < height))[:, None]
        inside = inside & ((columns >= 0) & (columns < width))[None, :]
        return cls(
            size=size,
            left=corner[0],
            top=corner[1],
            scale=scale,
            cells=np.where(inside, flat, 0),
            outside=None if inside.all() else ~inside,
        )

    def sample(self, grid: NDArray[np.generic]) -> NDArray[np.generic]:
        """Returns the map's grid [H, W] as seen in the picture; 0 off the map."""
        picture = grid.reshape(-1).take(self.cells)
        if self.outside is not None:
            picture[self.outside] = 0
        return picture

    def pixels(
        self, x: NDArray[np.float64], y: NDArray[np.float64]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Returns the pixel column and row of world points; outside the picture too."""
        column = np.floor((x - self.left) * self.scale[0]).astype(np.intp)
        row = np.floor((self.top - y) * self.scale[1]).astype(np.intp)
        return column, row


class Painter:
    """Where each unit of a view falls in a picture; paints any number of planes with it."""

    def __init__(self, raster: Raster, units: np.ndarray) -> None:
        self._size = raster.size
        column, row = raster.pixels(units["x"], units["y"])
        reach = np.floor(units["radius"] * raster.scale[0]).astype(np.intp)
        reach = np.minimum(reach, _MAX_RADIUS_PX)
        pixels, owners = [], []
        for radius in np.unique(reach):
            which = np.flatnonzero(reach == radius)
            offset = np.arange(-radius, radius + 1)
            columns = column[which, None, None] + offset[None, None, :]
            rows = row[which, None, None] + offset[None, :, None]
            inside = (columns >= 0) & (columns < raster.size[0])
            inside = inside & (rows >= 0) & (rows < raster.size[1])
            flat = rows * raster.size[0] + columns
            who = np.broadcast_to(which[:, None, None], flat.shape)
            pixels.append(flat[inside])
            owners.append(who[inside])
        self._pixels = np.concatenate(pixels) if pixels else np.zeros(0, np.intp)
        self._owners = np.concatenate(owners) if owners else np.zeros(0, np.intp)
        order = np.argsort(self._owners, kind="stable")
        self._pixels, self._owners = self._pixels[order], self._owners[order]

    def paint(self, values: NDArray[np.generic]) -> NDArray[np.int32]:
        """Returns a plane with each unit's value where it stands, 0 elsewhere. [Y, X]."""
        plane = np.zeros(self._size[0] * self._size[1], np.int32)
        # Of equal pixels numpy keeps the last; units are in order of the view.
        plane[self._pixels] = values[self._owners]
        return plane.reshape(self._size[1], self._size[0])

    def count(self, amount: int = 1) -> NDArray[np.int32]:
        """Returns how many units stand on each pixel, times `amount`. [Y, X]."""
        total = np.bincount(self._pixels, minlength=self._size[0] * self._size[1])
        return (total * amount).astype(np.int32).reshape(self._size[1], self._size[0])


class Layers:
    """One player's pictures of one game."""

    def __init__(
        self,
        game: game_lib.Game,
        player: int,
        minimap: tuple[int, int] | None,
        screen: tuple[int, int] | None,
        camera_width: float,
    ) -> None:
        self._game = game
        self._player = player
        self._screen_size = screen
        shape = screen or (1, 1)
        self._camera = (camera_width, camera_width * shape[1] / shape[0])
        self._grid = (game.map.height, game.map.width)
        side = float(max(self._grid))
        self._minimap = None
        if minimap is not None:
            corner = (0.0, float(game.map.height))
            self._minimap = Raster.over(minimap, corner, (side, side), self._grid)
            self._height_image = image(self._minimap.sample(game.map.terrain), 8)

    def _visibility(self) -> NDArray[np.uint8]:
        world = self._game.world
        if world.players[self._player]["all_visible"]:
            return np.full(self._grid, _SEEN, np.uint8)
        return world.visibility[self._player]

    def sees(self, x: float, y: float) -> bool:
        """Returns whether the player sees this point now."""
        row, column = int(y), int(x)
        if not (0 <= row < self._grid[0] and 0 <= column < self._grid[1]):
            return False
        return bool(self._visibility()[row, column] == _SEEN)

    def map_state(self) -> raw_pb2.MapState:
        """Returns visibility and creep as the raw interface has them, south row first."""
        state = raw_pb2.MapState()
        state.visibility.ParseFromString(image(self._visibility(), 8))
        state.creep.ParseFromString(image(self._creep(), 1))
        return state

    def _creep(self) -> NDArray[np.bool_]:
        """Creep where the player has ever been: the unseen map shows none."""
        return (self._game.world.creep == 1) & (self._visibility() != _HIDDEN)

    def on_screen(self, seen: view.View) -> NDArray[np.bool_]:
        """Returns which units of a view are inside the camera's rectangle."""
        camera = self._game.world.players[self._player]
        near_x = np.abs(seen.units["x"] - camera["camera_x"]) <= self._camera[0] / 2
        near_y = np.abs(seen.units["y"] - camera["camera_y"]) <= self._camera[1] / 2
        return near_x & near_y

    def serialized(self, seen: view.View) -> bytes:
        """Returns the ObservationFeatureLayer of a view."""
        out = b""
        if self._screen_size is not None:
            out += wire_writer.field(_RENDERS, self._screen(seen))
        if self._minimap is not None:
            out += wire_writer.field(_MINIMAP_RENDERS, self._minimap_planes(seen))
        return out

    def _minimap_planes(self, seen: view.View) -> bytes:
        raster = self._minimap
        if raster is None:
            return b""
        painter = Painter(raster, seen.units)
        planes = {
            **self._terrain(raster),
            "camera": self._camera_plane(raster),
            "alerts": self._alert_plane(raster),
            "player_id": painter.paint(seen.units["owner"]),
            "player_relative": painter.paint(seen.alliance),
            "selected": painter.paint(seen.units["selected"]),
            "unit_type": painter.paint(seen.units["unit_type"]),
        }
        out = wire_writer.field(1, self._height_image)
        for name, plane in planes.items():
            number, bits = MINIMAP_PLANES[name]
            out += wire_writer.field(number, image(plane, bits))
        return out

    def _terrain(self, raster: Raster) -> dict[str, NDArray[np.generic]]:
        world = self._game.world
        free = (world.occupied & 1) == 0  # the second bit marks cells near resources
        return {
            "visibility_map": raster.sample(self._visibility()),
            "creep": raster.sample(self._creep()),
            "buildable": raster.sample((world.placeable != 0) & free),
            "pathable": raster.sample((world.pathable != 0) & free),
        }

    def _camera_plane(self, raster: Raster) -> NDArray[np.bool_]:
        camera = self._game.world.players[self._player]
        plane = np.zeros((raster.size[1], raster.size[0]), bool)
        half_x, half_y = self._camera[0] / 2, self._camera[1] / 2
        x = np.array([camera["camera_x"] - half_x, camera["camera_x"] + half_x])
        y = np.array([camera["camera_y"] + half_y, camera["camera_y"] - half_y])
        column, row = raster.pixels(x, y)
        top, left = max(int(row[0]), 0), max(int(column[0]), 0)
        plane[top : max(int(row[1]) + 1, 0), left : max(int(column[1]) + 1, 0)] = True
        return plane

    def _alert_plane(self, raster: Raster) -> NDArray[np.uint8]:
        plane = np.zeros((raster.size[1], raster.size[0]), np.uint8)
        alerts = self._game.world.alerts[self._player]
        recent = alerts["loop"] > self._game.loop - _ALERT_SHOWN_LOOPS
        alerts = alerts[recent & (alerts["kind"] > 0)]
        columns, rows = raster.pixels(alerts["x"], alerts["y"])
        for column, row in zip(columns, rows, strict=True):
            top, left = max(int(row) - 1, 0), max(int(column) - 1, 0)
            plane[top : max(int(row) + 2, 0), left : max(int(column) + 2, 0)] = 1
        return plane

    def screen_raster(self) -> Raster:
        """Returns the screen's picture for where the camera is now."""
        camera = self._game.world.players[self._player]
        corner = (
            float(camera["camera_x"]) - self._camera[0] / 2,
            float(camera["camera_y"]) + self._camera[1] / 2,
        )
        size = self._screen_size or (1, 1)
        return Raster.over(size, corner, self._camera, self._grid)

    def minimap_raster(self) -> Raster | None:
        """Returns the minimap's picture, None without feature layers."""
        return self._minimap

    def _screen(self, seen: view.View) -> bytes:
        raster = self.screen_raster()
        shown = self.on_screen(seen)
        units = seen.units[shown]
        painter = Painter(raster, units)
        own_power = self._game.world.power[self._player]
        planes: dict[str, NDArray[np.generic]] = {
            "height_map": raster.sample(self._game.map.terrain),
            **self._terrain(raster),
            "power": raster.sample(own_power),
            "effects": self._effect_plane(raster),
            "unit_density": painter.count(),
            "unit_density_aa": np.minimum(painter.count(16), 255),
        }
        for name, values in self._unit_values(seen, shown).items():
            planes[name] = painter.paint(values)
        out = b""
        for name, plane in planes.items():
            number, bits = SCREEN_PLANES[name]
            out += wire_writer.field(number, image(plane, bits))
        return out

    def _unit_values(
        self, seen: view.View, shown: NDArray[np.bool_]
    ) -> dict[str, NDArray[np.generic]]:
        units = seen.units[shown]
        known = (seen.display == view.VISIBLE)[shown]
        known = known & (seen.cloak != view.CLOAKED)[shown]
        timed = units["buff_max"] > 0
        remain = units["buff_remain"] * 255.0 / np.maximum(units["buff_max"], 1)
        rows = np.maximum(seen.rows[shown], 0)
        first_buff = self._game.world.buffs["id"][rows, 0]
        return {
            "player_id": units["owner"],
            "unit_type": units["unit_type"],
            "selected": units["selected"],
            "player_relative": seen.alliance[shown],
            "unit_hit_points": np.where(known, units["health"], 0),
            "unit_energy": np.where(known, units["energy"], 0),
            "unit_shields": np.where(known, units["shield"], 0),
            "unit_hit_points_ratio": _ratio(units, "health", known),
            "unit_energy_ratio": _ratio(units, "energy", known),
            "unit_shields_ratio": _ratio(units, "shield", known),
            "hallucinations": units["hallucination"],
            "cloaked": units["cloaked"],
            "blip": seen.blip[shown],
            "buffs": np.where(known & (units["buff_count"] > 0), first_buff, 0),
            "buff_duration": np.where(known & timed, remain, 0),
            "active": np.where(known, units["active"], 0),
            "build_progress": units["build_progress"] * 255.0,
            "placeholder": (seen.display == view.PLACEHOLDER)[shown],
        }

    def _effect_plane(self, raster: Raster) -> NDArray[np.int32]:
        effects = self._game.world.effects
        shown: Callable[[np.void], bool] = lambda effect: (  # noqa: E731
            int(effect["owner"]) == self._player
            or self.sees(float(effect["x"]), float(effect["y"]))
        )
        alive = effects[effects["alive"] == 1]
        visible = alive[np.array([shown(e) for e in alive], bool)]
        return Painter(raster, visible).paint(visible["id"])


def _ratio(
    units: np.ndarray, name: str, known: NDArray[np.bool_]
) -> NDArray[np.float64]:
    most = np.maximum(units[f"{name}_max"], 1.0)
    share = np.where(known, units[name] * 255.0 / most, 0.0)
    return np.clip(share, 0.0, 255.0)
