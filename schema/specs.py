"""Names, shapes, dtypes and bounds of every array, derived from the settings.

In: `ConverterSettings`. Out: `ArraySpec` per observation and action key, as the reference
declares them, and a fingerprint that changes when any of them does. Bounds are nominal:
the reference never enforces them (column 29, the tag, is often negative).
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from starmill.schema import errors
from starmill.schema.settings import ConverterSettings, RawSettings

Bound = int | tuple[int, ...] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArraySpec:
    """One array of a step, without the time axis.

    Attributes:
        name: the reference's name (the observation's `action/delay` is called `delay`).
        shape: of one step.
        dtype: numpy's name of it.
        minimum: inclusive; a tuple has one bound per column, None means unbounded.
        maximum: inclusive; likewise.
        meaning: one line for people; not part of the fingerprint.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    minimum: Bound = None
    maximum: Bound = None
    meaning: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns the form of the reference's `__spec_json`."""
        out: dict[str, Any] = {
            "name": self.name,
            "shape": list(self.shape),
            "dtype": self.dtype,
        }
        for key, bound in (("minimum", self.minimum), ("maximum", self.maximum)):
            if isinstance(bound, tuple):
                out[f"{key}_per_column"] = list(bound)
            elif bound is not None:
                out[key] = bound
        return out


# Column names of raw_units with their nominal maxima; None stands for num_action_types - 1.
UNIT_COLUMNS: tuple[tuple[str, int | None], ...] = (
    ("unit_type", 254),
    ("alliance", 4),
    ("health", 10000),
    ("shield", 1000),
    ("energy", 200),
    ("cargo_space_taken", 8),
    ("build_progress", 100),
    ("health_ratio", 255),
    ("shield_ratio", 255),
    ("energy_ratio", 255),
    ("display_type", 4),
    ("owner", 16),
    ("x", 256),
    ("y", 256),
    ("facing", 7),
    ("radius", 13),
    ("cloak", 4),
    ("is_selected", 1),
    ("is_blip", 1),
    ("is_powered", 1),
    ("mineral_contents", 1800),
    ("vespene_contents", 2250),
    ("cargo_space_max", 8),
    ("assigned_harvesters", 64),
    ("ideal_harvesters", 64),
    ("weapon_cooldown", 50),
    ("order_length", 32),
    ("order_id_0", None),
    ("order_id_1", None),
    ("tag", 2**31 - 1),
    ("hallucination", 1),
    ("buff_id_0", 47),
    ("buff_id_1", 47),
    ("addon_unit_type", 42),
    ("active", 1),
    ("is_on_screen", 1),
    ("order_progress_0", 100),
    ("order_progress_1", 100),
    ("order_id_2", None),
    ("order_id_3", None),
    ("is_in_cargo", 1),
    ("buff_duration_remain", 4000),
    ("buff_duration_max", 4000),
    ("attack_upgrade_level", 3),
    ("armor_upgrade_level", 3),
    ("shield_upgrade_level", 3),
)
EXTRA_UNIT_COLUMNS = ("last_selected", "last_targeted")
PLAYER_COLUMNS = (
    "one",
    "minerals",
    "vespene",
    "food_used",
    "food_cap",
    "food_army",
    "food_workers",
    "idle_worker_count",
    "army_count",
    "warp_gate_count",
    "larva_count",
)
# Largest value of each minimap plane.
PLANES: dict[str, int] = {
    "height_map": 255,
    "visibility_map": 3,
    "creep": 1,
    "camera": 1,
    "player_id": 16,
    "player_relative": 4,
    "selected": 1,
    "unit_type": 243,
    "alerts": 1,
    "buildable": 1,
    "pathable": 1,
}
# The order in which the policy chooses arguments (paper, appendix on architecture).
ACTION_ARGUMENTS = (
    "function",
    "delay",
    "queued",
    "repeat",
    "unit_tags",
    "target_unit_tag",
    "world",
)
MAX_DELAY = 127


def unit_columns(settings: ConverterSettings) -> tuple[str, ...]:
    """Returns the names of raw_units' columns in order."""
    return tuple(name for name, _ in _unit_columns(settings))


def action_specs(settings: ConverterSettings) -> dict[str, ArraySpec]:
    """Returns the specs of an agent's action by argument name, in the policy's order."""
    raw = raw_settings(settings)
    units = raw.max_unit_count
    cells = raw.resolution[0] * raw.resolution[1]

    def scalar(name: str, low: int, high: int, meaning: str) -> ArraySpec:
        return ArraySpec(
            name=name,
            shape=(),
            dtype="int32",
            minimum=low,
            maximum=high,
            meaning=meaning,
        )

    specs = {
        "function": scalar(
            "function",
            0,
            settings.num_action_types - 1,
            "what to do, by function table",
        ),
        "delay": scalar("delay", 1, MAX_DELAY, "game loops until the next step"),
        "queued": scalar("queued", 0, 1, "1: after the units' present orders"),
        "repeat": scalar("repeat", 0, 2, "identical commands, less one"),
        "unit_tags": ArraySpec(
            name="unit_tags",
            shape=(raw.max_unit_selection_size,),
            dtype="int32",
            minimum=0,
            maximum=units,
            meaning="rows of raw_units that are commanded; U ends the list",
        ),
        "target_unit_tag": scalar(
            "target_unit_tag", 0, units - 1, "row of raw_units that is the target"
        ),
        "world": scalar(
            "world", 0, cells - 1, "target cell, row * resolution + column"
        ),
    }
    if not raw.enable_action_repeat:
        del specs["repeat"]
    return specs


def observation_specs(settings: ConverterSettings) -> dict[str, ArraySpec]:
    """Returns the specs of a step's arrays by key, sorted, `action/*` included."""
    specs = [*_vector_specs(settings), *_spatial_specs(settings), _units_spec(settings)]
    if settings.supervised:
        for name, spec in action_specs(settings).items():
            # The reference forgot the prefix in this one name; the key has it.
            shown = name if name == "delay" else f"action/{name}"
            specs.append(dataclasses.replace(spec, name=shown))
    by_key = {("action/delay" if s.name == "delay" else s.name): s for s in specs}
    return dict(sorted(by_key.items()))


def episode_specs(settings: ConverterSettings) -> dict[str, ArraySpec]:
    """Returns the specs of an episode's stored arrays, without the time axis.

    The reference's arrays of shape (1,) become scalars, so a stacked episode has [T] there,
    as the reference's own recordings do.
    """
    return {
        key: dataclasses.replace(spec, shape=()) if spec.shape == (1,) else spec
        for key, spec in observation_specs(settings).items()
    }


def to_json(described: Mapping[str, ArraySpec]) -> dict[str, Any]:
    """Returns specs by key in the form of the reference's `__spec_json`."""
    return {key: spec.to_json() for key, spec in described.items()}


def fingerprint(settings: ConverterSettings) -> str:
    """Returns a hex digest that changes when any array's name, shape, dtype or bound does."""
    content = to_json(observation_specs(settings))
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def problems(
    arrays: Mapping[str, np.ndarray],
    expected: Mapping[str, ArraySpec],
    leading: tuple[int, ...] = (),
) -> list[str]:
    """Returns a sentence for every array that is missing, unexpected or not as its spec says.

    Keys, shapes and dtypes are checked; bounds are nominal.

    leading: dimensions before those of the spec, such as the steps of an episode.
    """
    texts = []
    if set(arrays) != set(expected):
        missing = sorted(set(expected) - set(arrays))
        extra = sorted(set(arrays) - set(expected))
        texts.append(f"missing arrays {missing}, unexpected {extra}")
    for key in sorted(set(expected) & set(arrays)):
        array, spec = arrays[key], expected[key]
        shape = (*leading, *spec.shape)
        if array.shape != shape or array.dtype != np.dtype(spec.dtype):
            texts.append(
                f"{key}: expected {spec.dtype} {shape}, found {array.dtype} {array.shape}"
            )
    return texts


def raw_settings(
    settings: ConverterSettings,
) -> RawSettings:
    """Returns the settings of the raw interface, without which there are no arrays."""
    if settings.raw_settings is None:
        raise errors.ConfigError("settings: raw_settings are required, found none")
    return settings.raw_settings


def _vector_specs(settings: ConverterSettings) -> list[ArraySpec]:
    def plain(name: str, shape: tuple[int, ...], meaning: str) -> ArraySpec:
        return ArraySpec(name=name, shape=shape, dtype="int32", meaning=meaning)

    specs = [
        plain("game_loop", (1,), "engine time of the observation"),
        plain("player", (len(PLAYER_COLUMNS),), ", ".join(PLAYER_COLUMNS)),
        plain("home_race_requested", (1,), "1 Terran, 2 Zerg, 3 Protoss, 4 random"),
        plain("away_race_requested", (1,), "the opponent's"),
        plain("away_race_observed", (1,), "4 until an enemy was seen"),
        plain("mmr", (), "the player's rating"),
    ]
    counts = plain("unit_counts_bow", (settings.num_unit_types,), "own units by type")
    upgrades = ArraySpec(
        name="upgrades_fixed_length",
        shape=(settings.max_num_upgrades,),
        dtype="int32",
        minimum=0,
        maximum=settings.num_upgrade_types + 1,
        meaning="finished upgrades, zero padded",
    )
    specs += [counts, upgrades]
    if settings.add_opponent_features:
        specs.append(plain("opponent_player", (10,), "player without its first entry"))
        for spec in (counts, upgrades):
            specs.append(dataclasses.replace(spec, name=f"opponent_{spec.name}"))
    return specs


def _spatial_specs(settings: ConverterSettings) -> list[ArraySpec]:
    raw = raw_settings(settings)
    specs = []
    if raw.use_camera_position:
        specs += [
            ArraySpec(
                name="camera_position", shape=(2,), dtype="int32", meaning="x, y"
            ),
            ArraySpec(name="camera_size", shape=(2,), dtype="int32", meaning="x, y"),
        ]
    if raw.camera:
        specs.append(
            ArraySpec(
                name="camera",
                shape=(raw.resolution[1], raw.resolution[0]),
                dtype="int32",
                minimum=0,
                maximum=1,
                meaning="1 where the camera sees; always one rectangle",
            )
        )
    for plane in settings.minimap_features:
        if plane not in PLANES:
            raise errors.ConfigError(
                f"minimap_features: unknown plane {plane!r}; known: {sorted(PLANES)}"
            )
        specs.append(
            ArraySpec(
                name=f"minimap_{plane}",
                shape=(settings.minimap[1], settings.minimap[0]),
                dtype="uint8",
                minimum=0,
                maximum=PLANES[plane],
                meaning=f"the game's {plane} layer",
            )
        )
    return specs


def _unit_columns(
    settings: ConverterSettings,
) -> list[tuple[str, int | None]]:
    count = raw_settings(settings).num_unit_features
    # More features than there are is allowed: columns that stay zero.
    unused = [(f"unused_{i}", 0) for i in range(len(UNIT_COLUMNS), count)]
    extra = [(name, 1) for name in EXTRA_UNIT_COLUMNS]
    return [*UNIT_COLUMNS[:count], *unused, *extra]


def _units_spec(settings: ConverterSettings) -> ArraySpec:
    raw = raw_settings(settings)
    maxima = [
        settings.num_action_types - 1 if high is None else high
        for _, high in _unit_columns(settings)
    ]
    return ArraySpec(
        name="raw_units",
        shape=(raw.max_unit_count, len(maxima)),
        dtype="int32",
        minimum=(0,) * len(maxima),
        maximum=tuple(maxima),
        meaning="units, then passengers, then effects, then zero rows",
    )
