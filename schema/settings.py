"""What the converter is told to produce: the reference's settings as frozen records.

In: JSON with the reference's own field names (an absent field has its proto default).
Out: validated records, and the same JSON back. The specs follow from these alone, which
is why they live in `schema`: a manifest stores them, a dataset derives its specs from them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from starmill.schema import errors


@dataclasses.dataclass(frozen=True, kw_only=True)
class CameraDimensions:
    """Distances from the camera's centre to the edges of its view, in world units."""

    left: float
    right: float
    top: float
    bottom: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawSettings:
    """The raw interface: unit rows, camera, and how actions are expressed.

    resolution: side of the square grid that positions and `world` are given in.
    max_unit_count: rows of `raw_units`, U.
    num_unit_features: feature columns; two more columns follow (last selected, targeted).
    shuffle_unit_tags: the reference's unseeded shuffle; ours stores tags ascending and
        shuffles in the loader, so this only records what the reference was told.
    virtual_camera_dimensions: None means half of camera_width_world_units to each side.
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
    """Everything that shapes the arrays of an episode.

    mmr: what the `mmr` array holds where the replay has no rating information.
    minimap: (width, height) that specs promise for the planes.
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
        """Returns what keeps a converter from being made with these, one line each."""
        raw = self.raw_settings
        if raw is None:
            return ["raw_settings: required, found none (visual mode is not offered)"]
        minima = {
            "num_action_types": (self.num_action_types, 539),
            "num_unit_types": (self.num_unit_types, 217),
            "num_upgrade_types": (self.num_upgrade_types, 86),
            "max_num_upgrades": (self.max_num_upgrades, 1),
            "num_unit_features": (raw.num_unit_features, 39),
            "max_unit_selection_size": (raw.max_unit_selection_size, 16),
            "max_unit_count": (raw.max_unit_count, 1),
        }
        found = [
            f"{name}: expected at least {least}, found {value!r}"
            for name, (value, least) in minima.items()
            if value < least
        ]
        squares = {"resolution": raw.resolution}
        if self.minimap_features:
            squares["minimap"] = self.minimap
        found += [
            f"{name}: expected a square above 0, found {width} x {height}"
            for name, (width, height) in squares.items()
            if width < 1 or width != height
        ]
        return found

    def check(self) -> None:
        """Raises ConfigError with all `problems`."""
        found = self.problems()
        if found:
            raise errors.ConfigError("settings: " + "; ".join(found))

    def to_json(self) -> dict[str, Any]:
        """Returns the reference's JSON form: every field present, sizes as x and y."""
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


def from_json(data: Mapping[str, Any]) -> ConverterSettings:
    """Returns settings from the reference's JSON; unknown keys are errors."""
    values = dict(data)
    raw = values.pop("raw_settings", None)
    if "minimap" in values:
        values["minimap"] = _size(values["minimap"], "minimap")
    if "minimap_features" in values:
        values["minimap_features"] = tuple(values["minimap_features"])
    if raw is not None:
        raw = dict(raw)
        if "resolution" in raw:
            raw["resolution"] = _size(raw["resolution"], "resolution")
        camera = raw.pop("virtual_camera_dimensions", None)
        if camera is not None:
            _known(camera, CameraDimensions, "virtual_camera_dimensions")
            sides = {field.name: 0.0 for field in dataclasses.fields(CameraDimensions)}
            raw["virtual_camera_dimensions"] = CameraDimensions(**{**sides, **camera})
        _known(raw, RawSettings, "raw_settings")
        values["raw_settings"] = RawSettings(**raw)
    _known(values, ConverterSettings, "settings")
    return ConverterSettings(**values)


def _size(value: Mapping[str, int], where: str) -> tuple[int, int]:
    unknown = set(value) - {"x", "y"}
    if unknown:
        raise errors.ConfigError(
            f"{where}: expected keys x and y, found {sorted(unknown)}"
        )
    return int(value.get("x", 0)), int(value.get("y", 0))


def _known(values: Mapping[str, Any], record: type, where: str) -> None:
    names = {field.name for field in dataclasses.fields(record)}
    unknown = sorted(set(values) - names)
    if unknown:
        raise errors.ConfigError(
            f"{where}: unknown keys {unknown}; expected some of {sorted(names)}"
        )


# The settings that AlphaStar Unplugged was made with, but for the reference's unseeded
# shuffle of unit_tags (the loader shuffles, seeded, when asked to).
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
