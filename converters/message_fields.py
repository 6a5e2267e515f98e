"""Which fields of an observation message are read, and into which columns.

Enters: nothing but the game's message definitions. Leaves: column numbers, and the tables by
which `columns` reads a message with `wire.scan`. Knows nothing of what becomes of the numbers.

    ResponseObservation
      actions                      handed on as bytes, see `columns.reported_actions`
      observation
        game_loop                  head
        player_common              head, in the order of PLAYER_FIELDS
        raw_data
          player
            camera                 camera: x, y
            upgrade_ids            upgrades
          units                    units: UNIT_INTEGERS, gathered ones; unit_floats: UNIT_FLOATS
            pos                      X, Y
            orders                   ORDERS counts them; ORDER_0 to 3, PROGRESS_0 and 1
            buff_ids                 BUFFS counts them; BUFF_0 and 1
            passengers             passengers, passenger_floats
          effects                  effects, effect_floats: one row per position
        feature_layer_data
          minimap_renders          planes: an image each, where its pixels are in the message
"""

from typing import Any

from starmill.converters import protos, wire
from starmill.schema import specs

# Columns of a unit's integers.
UNIT_INTEGERS = (
    "display_type",
    "alliance",
    "tag",
    "unit_type",
    "owner",
    "cloak",
    "is_selected",
    "is_on_screen",
    "is_blip",
    "is_powered",
    "is_active",
    "attack_upgrade_level",
    "armor_upgrade_level",
    "shield_upgrade_level",
    "mineral_contents",
    "vespene_contents",
    "is_hallucination",
    "add_on_tag",
    "cargo_space_taken",
    "cargo_space_max",
    "assigned_harvesters",
    "ideal_harvesters",
    "buff_duration_remain",
    "buff_duration_max",
)
(
    DISPLAY_TYPE,
    ALLIANCE,
    TAG,
    UNIT_TYPE,
    OWNER,
    CLOAK,
    IS_SELECTED,
    IS_ON_SCREEN,
    IS_BLIP,
    IS_POWERED,
    IS_ACTIVE,
    ATTACK_UPGRADE_LEVEL,
    ARMOR_UPGRADE_LEVEL,
    SHIELD_UPGRADE_LEVEL,
    MINERAL_CONTENTS,
    VESPENE_CONTENTS,
    IS_HALLUCINATION,
    ADD_ON_TAG,
    CARGO_SPACE_TAKEN,
    CARGO_SPACE_MAX,
    ASSIGNED_HARVESTERS,
    IDEAL_HARVESTERS,
    BUFF_DURATION_REMAIN,
    BUFF_DURATION_MAX,
    # Not fields of the message but gathered from it.
    HAS_ADD_ON_TAG,
    ORDERS,
    ORDER_0,
    ORDER_1,
    ORDER_2,
    ORDER_3,
    BUFFS,
    BUFF_0,
    BUFF_1,
) = range(len(UNIT_INTEGERS) + 9)
# Columns of a unit's floats.
UNIT_FLOATS = (
    "health",
    "shield",
    "energy",
    "health_max",
    "shield_max",
    "energy_max",
    "facing",
    "radius",
    "build_progress",
    "weapon_cooldown",
)
(
    HEALTH,
    SHIELD,
    ENERGY,
    HEALTH_MAX,
    SHIELD_MAX,
    ENERGY_MAX,
    FACING,
    RADIUS,
    BUILD_PROGRESS,
    WEAPON_COOLDOWN,
    X,
    Y,
    PROGRESS_0,
    PROGRESS_1,
) = range(len(UNIT_FLOATS) + 4)
# Passengers: integers, then floats in the first six columns of a unit's.
PASSENGER_TAG, PASSENGER_TYPE, CARRIER = range(3)
# Effects, one record per position.
EFFECT_ID, EFFECT_ALLIANCE, EFFECT_OWNER = range(3)
EFFECT_RADIUS, EFFECT_X, EFFECT_Y = range(3)
# The message's single numbers: `player_common` in the order of the `player` array, whose
# first entry is not the player id; then the loop.
PLAYER_FIELDS = ("player_id", *specs.PLAYER_COLUMNS[1:])
PLAYER_ID = 0
GAME_LOOP = len(PLAYER_FIELDS)
# A minimap plane.
BITS_PER_PIXEL, SIZE_X, SIZE_Y, START, LENGTH = range(5)
# What is counted.
UNITS, PASSENGERS, EFFECTS, UPGRADES = range(4)
# More records of a kind than any game has; a limit on what a crafted message can allocate.
MAX_RECORDS = 1 << 17

VISIBLE, SELF = 1, 1
GRAMMAR = wire.grammar(protos.sc2api_pb2.ResponseObservation.DESCRIPTOR)
RESPONSE_TABLE = wire.reading(
    protos.sc2api_pb2.ResponseObservation.DESCRIPTOR, {}, ("observation",)
)
OBSERVATION_TABLE = wire.reading(
    protos.sc2api_pb2.Observation.DESCRIPTOR,
    {"game_loop": GAME_LOOP},
    ("player_common", "raw_data", "feature_layer_data"),
)
PLAYER_COMMON_TABLE = wire.reading(
    protos.sc2api_pb2.PlayerCommon.DESCRIPTOR,
    {name: column for column, name in enumerate(PLAYER_FIELDS)},
)
RAW_TABLE = wire.reading(
    protos.raw_pb2.ObservationRaw.DESCRIPTOR,
    {},
    ("player", "units", "effects"),
)
PLAYER_RAW_TABLE = wire.reading(
    protos.raw_pb2.PlayerRaw.DESCRIPTOR, {}, ("camera", "upgrade_ids")
)
UNIT_TABLE = wire.reading(
    protos.raw_pb2.Unit.DESCRIPTOR,
    {name: column for column, name in enumerate(UNIT_INTEGERS)}
    | {name: column for column, name in enumerate(UNIT_FLOATS)},
    ("pos", "orders", "buff_ids", "passengers"),
    presence={"add_on_tag": HAS_ADD_ON_TAG},
)
ORDER_TABLE = wire.reading(
    protos.raw_pb2.UnitOrder.DESCRIPTOR, {"ability_id": 0, "progress": 0}
)
PASSENGER_TABLE = wire.reading(
    protos.raw_pb2.PassengerUnit.DESCRIPTOR,
    {"tag": PASSENGER_TAG, "unit_type": PASSENGER_TYPE}
    | {name: column for column, name in enumerate(UNIT_FLOATS[:6])},
)
EFFECT_TABLE = wire.reading(
    protos.raw_pb2.Effect.DESCRIPTOR,
    {
        "effect_id": EFFECT_ID,
        "alliance": EFFECT_ALLIANCE,
        "owner": EFFECT_OWNER,
        "radius": EFFECT_RADIUS,
    },
    ("pos",),
)
POINT_TABLE = wire.reading(protos.common_pb2.Point.DESCRIPTOR, {"x": 0, "y": 1})
POINT2_TABLE = wire.reading(protos.common_pb2.Point2D.DESCRIPTOR, {"x": 0, "y": 1})
FEATURE_LAYERS_TABLE = wire.reading(
    protos.spatial_pb2.ObservationFeatureLayer.DESCRIPTOR,
    {},
    ("minimap_renders",),
)
_MINIMAP_DESCRIPTOR = protos.spatial_pb2.FeatureLayersMinimap.DESCRIPTOR
MINIMAP_TABLE = wire.reading(
    _MINIMAP_DESCRIPTOR,
    {},
    tuple(field.name for field in _MINIMAP_DESCRIPTOR.fields),
)
IMAGE_TABLE = wire.reading(
    protos.common_pb2.ImageData.DESCRIPTOR,
    {"bits_per_pixel": BITS_PER_PIXEL},
    ("size", "data"),
)
SIZE_TABLE = wire.reading(
    protos.common_pb2.Size2DI.DESCRIPTOR, {"x": SIZE_X, "y": SIZE_Y}
)
# Minimap plane -> its row in `Columns.planes`.
PLANE_ROWS = {field.name: field.number for field in _MINIMAP_DESCRIPTOR.fields}


def _number(message: Any, field: str) -> int:
    number: int = message.DESCRIPTOR.fields_by_name[field].number
    return number


ACTIONS_FIELD = _number(protos.sc2api_pb2.ResponseObservation, "actions")
PLAYER_COMMON_FIELD = _number(protos.sc2api_pb2.Observation, "player_common")
RAW_FIELD = _number(protos.sc2api_pb2.Observation, "raw_data")
PLAYER_FIELD = _number(protos.raw_pb2.ObservationRaw, "player")
UNITS_FIELD = _number(protos.raw_pb2.ObservationRaw, "units")
CAMERA_FIELD = _number(protos.raw_pb2.PlayerRaw, "camera")
POS_FIELD = _number(protos.raw_pb2.Unit, "pos")
ORDERS_FIELD = _number(protos.raw_pb2.Unit, "orders")
BUFFS_FIELD = _number(protos.raw_pb2.Unit, "buff_ids")
IMAGE_SIZE_FIELD = _number(protos.common_pb2.ImageData, "size")
