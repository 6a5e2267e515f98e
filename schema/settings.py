"""The converter's settings, which decide the arrays of an episode.

In: JSON with the field names of the reference converter; an absent field has its proto default.
Out: frozen records that can be checked, and the same JSON again. The specs follow from the
settings alone, so a manifest stores the settings and not the specs. Must not know the game.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from starmill.schema import errors

# Numbers of the reference's settings are int32.
_LARGEST = 2**31 - 1
# Settings may come from anyone's file and decide how much memory a step takes: 476 kB in the
# paper's settings. 32 steps of this size are read at once.
MOST_STEP_BYTES = 4 << 20
_MOST_PLANES = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class CameraDimensions:
    """Distances from the camera's centre to the edges of its view, in world units.

    Attributes:
        left: to the left edge.
        right: to the right edge.
        top: to the top edge.
        bottom: to the bottom edge.
    """

    left: float
    right: float
    top: float
    bottom: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawSettings:
    """Settings of the raw interface: unit rows, camera, and how actions are expressed.

    Attributes:
        resolution: (width, height) of the square grid for positions and for `world`.
        max_unit_count: U, the number of rows of `raw_units`.
        max_unit_selection_size: the most units that an action can command.
        num_unit_features: feature columns of `raw_units`; two more columns follow, for units
            that the last action selected or targeted.
        shuffle_unit_tags: whether the reference shuffles the units of an action, without a
            seed. It changes nothing here: tags are stored in ascending order, and the loader
            can shuffle them with a seed.
        enable_action_repeat: whether actions have the argument `repeat`.
        use_camera_position: whether there are the arrays `camera_position` and `camera_size`.
        camera: whether there is the array `camera`, a plane of what the camera shows.
        use_virtual_camera: whether the view is that of a camera which the actions move,
            instead of the game's own camera.
        virtual_camera_dimensions: how far the virtual camera sees; None for half of
            camera_width_world_units in each direction.
        add_effects_to_units: whether `raw_units` has rows for effects, like storms.
        add_cargo_to_units: whether `raw_units` has rows for units inside other units.
        mask_offscreen_enemies: whether to hide what a player cannot see of enemy units outside
            the camera's view.
    """

    resolution: tuple[int, int] = (0, 0)
    max_unit_count: int = 0
    max_unit_selection_size: int = 0
    num_unit_features: int = 0
    shuffle_unit_tags: int = 0
    enable_action_repeat: bool = False
    use_camera_position: bool = False
    camera: bool = False
    use_virtual_camera: bool = False
    virtual_camera_dimensions: CameraDimensions | None = None
    add_effects_to_units: bool = False
    add_cargo_to_units: bool = False
    mask_offscreen_enemies: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConverterSettings:
    """Everything that decides the arrays of an episode.

    Attributes:
        raw_settings: settings of the raw interface; required, although the default is None.
        num_action_types: the number of functions that actions can have.
        num_unit_types: the number of unit types.
        num_upgrade_types: the number of upgrade types.
        max_num_upgrades: the length of the array of upgrades.
        camera_width_world_units: the width of the camera's view, in world units.
        mmr: the value of the array `mmr` if the converter is given no replay information.
        minimap: (width, height) of the minimap's planes.
        minimap_features: which planes of the minimap there are.
        add_opponent_features: whether there are arrays of the opponent's state.
        supervised: whether steps have the actions of the replay's player.
        crop_to_playable_area: whether the game is asked for the playable part of the map only.
    """

    raw_settings: RawSettings | None = None
    num_action_types: int = 0
    num_unit_types: int = 0
    num_upgrade_types: int = 0
    max_num_upgrades: int = 0
    camera_width_world_units: int = 0
    mmr: int = 0
    minimap: tuple[int, int] = (0, 0)
    minimap_features: tuple[str, ...] = ()
    add_opponent_features: bool = False
    supervised: bool = False
    crop_to_playable_area: bool = False

    def problems(self) -> list[str]:
        """Returns why no converter can have these settings, one line per reason."""
        raw = self.raw_settings
        if raw is None:
            return ["raw_settings: required, found none (visual mode is not supported)"]
        minima = {
            "num_action_types": (self.num_action_types, 539),
            "num_unit_types": (self.num_unit_types, 217),
            "num_upgrade_types": (self.num_upgrade_types, 86),
            "max_num_upgrades": (self.max_num_upgrades, 1),
            "num_unit_features": (raw.num_unit_features, 39),
            "max_unit_selection_size": (raw.max_unit_selection_size, 16),
            "max_unit_count": (raw.max_unit_count, 1),
        }
        problems = [
            f"{name}: expected at least {least}, found {value!r}"
            for name, (value, least) in minima.items()
            if value < least
        ]
        squares = {"resolution": raw.resolution}
        if self.minimap_features:
            squares["minimap"] = self.minimap
        problems += [
            f"{name}: expected a square above 0, found {width} x {height}"
            for name, (width, height) in squares.items()
            if width < 1 or width != height
        ]
        return problems

    def check(self) -> None:
        """Raises ConfigError with all `problems`."""
        problems = self.problems()
        if problems:
            raise errors.ConfigError("settings: " + "; ".join(problems))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ConverterSettings":
        """Returns settings from the reference's JSON.

        Raises ConfigError if a key is unknown, a value is of another type, or a step would
        take more than MOST_STEP_BYTES.
        """
        values = _object(data, "settings")
        raw = values.pop("raw_settings", None)
        if "minimap" in values:
            values["minimap"] = _size(values["minimap"], "minimap")
        if "minimap_features" in values:
            values["minimap_features"] = _names(values["minimap_features"])
        if raw is not None:
            raw = _object(raw, "raw_settings")
            if "resolution" in raw:
                raw["resolution"] = _size(raw["resolution"], "resolution")
            camera = raw.pop("virtual_camera_dimensions", None)
            if camera is not None:
                camera = _object(camera, "virtual_camera_dimensions")
                _known(camera, CameraDimensions, "virtual_camera_dimensions")
                sides = {
                    field.name: 0.0 for field in dataclasses.fields(CameraDimensions)
                }
                raw["virtual_camera_dimensions"] = CameraDimensions(
                    **{**sides, **camera}
                )
            _known(raw, RawSettings, "raw_settings")
            values["raw_settings"] = RawSettings(**raw)
        _known(values, cls, "settings")
        settings = cls(**values)
        size = settings.step_bytes()
        if size > MOST_STEP_BYTES:
            raise errors.ConfigError(
                f"settings: expected steps of at most {MOST_STEP_BYTES:,} bytes, found "
                f"sizes that make {size:,}"
            )
        return settings

    def step_bytes(self) -> int:
        """Returns roughly how many bytes the arrays of a step take."""
        raw = self.raw_settings or RawSettings()
        counts = 2 * (self.num_unit_types + self.max_num_upgrades)
        units = raw.max_unit_count * (raw.num_unit_features + 2)
        cells = raw.resolution[0] * raw.resolution[1]
        sizes = (counts, units, cells, raw.max_unit_selection_size)
        planes = len(self.minimap_features) * self.minimap[0] * self.minimap[1]
        # The columns are also listed by name, even if there are no rows.
        names = 100 * max(0, raw.num_unit_features)
        return 4 * sum(max(0, size) for size in sizes) + max(0, planes) + names

    def to_json(self) -> dict[str, Any]:
        """Returns the reference's JSON form, with every field, and sizes as x and y."""
        out = dataclasses.asdict(self)
        out["minimap"] = {"x": self.minimap[0], "y": self.minimap[1]}
        out["minimap_features"] = list(self.minimap_features)
        if self.raw_settings is None:
            del out["raw_settings"]
            return out
        raw = out["raw_settings"]
        width, height = self.raw_settings.resolution
        raw["resolution"] = {"x": width, "y": height}
        if raw["virtual_camera_dimensions"] is None:
            del raw["virtual_camera_dimensions"]
        return out


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise errors.ConfigError(f"{where}: expected an object, found {value!r:.100}")
    return dict(value)


def _size(value: Any, where: str) -> tuple[int, int]:
    value = _object(value, where)
    unknown = set(value) - {"x", "y"}
    if unknown:
        raise errors.ConfigError(
            f"{where}: expected keys x and y, found {sorted(map(str, unknown))}"
        )
    for side in value.values():
        if not _is_number(side):
            raise errors.ConfigError(f"{where}: expected numbers, found {side!r:.100}")
    return int(value.get("x", 0)), int(value.get("y", 0))


def _names(value: Any) -> tuple[str, ...]:
    is_list = isinstance(value, list | tuple) and len(value) <= _MOST_PLANES
    if not is_list or not all(isinstance(name, str) for name in value):
        raise errors.ConfigError(
            f"minimap_features: expected a list of names, found {value!r:.100}"
        )
    return tuple(value)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return is_number and abs(value) <= _LARGEST


def _known(values: Mapping[str, Any], record: type, where: str) -> None:
    fields = {field.name: field for field in dataclasses.fields(record)}
    unknown = sorted(map(str, set(values) - set(fields)))
    if unknown:
        raise errors.ConfigError(
            f"{where}: unknown keys {unknown}; expected some of {sorted(fields)}"
        )
    for name, value in values.items():
        if fields[name].type in {int, float, bool} and not _is_number(value):
            raise errors.ConfigError(
                f"{where}: {name}: expected a number, found {value!r:.100}"
            )


# The settings of AlphaStar Unplugged, except that unit_tags are not shuffled: the reference does
# that without a seed, the loader with one if asked to.
UNPLUGGED = ConverterSettings(
    raw_settings=RawSettings(
        resolution=(256, 256),
        max_unit_count=512,
        max_unit_selection_size=64,
        num_unit_features=46,
        shuffle_unit_tags=0,
        enable_action_repeat=True,
        use_camera_position=True,
        camera=True,
        use_virtual_camera=True,
        virtual_camera_dimensions=CameraDimensions(
            left=16.0, right=16.0, top=13.0, bottom=7.0
        ),
        add_effects_to_units=True,
        add_cargo_to_units=True,
        mask_offscreen_enemies=True,
    ),
    num_action_types=556,
    num_unit_types=243,
    num_upgrade_types=90,
    max_num_upgrades=40,
    camera_width_world_units=24,
    mmr=6000,
    minimap=(128, 128),
    minimap_features=(
        "height_map",
        "visibility_map",
        "creep",
        "player_relative",
        "alerts",
        "pathable",
        "buildable",
    ),
    supervised=True,
)
