"""Captures with one oddity each, from settings that contradict to messages without planes.

`odd(name, seed)` is a tame capture with one of ODDITIES. What the reference converter makes of
each is recorded in `tests/golden/converter/oddities.json`.
"""

from typing import Any

from starmill.converters import protos
from starmill.converters.capture import Capture, Step
from tests.factories import random_captures

raw_pb2, sc2api_pb2 = protos.raw_pb2, protos.sc2api_pb2


def _edit_settings(path: str, value: Any) -> Any:
    def edit(arrays: dict[str, Any]) -> None:
        *outer, last = path.split("/")
        target = arrays["settings"]
        for name in outer:
            target = target[name]
        if value is None:
            target.pop(last, None)
        else:
            target[last] = value

    return edit


def _edit_message(step: int, change: Any, field: str = "player") -> Any:
    def edit(arrays: dict[str, Any]) -> None:
        kind = (
            sc2api_pb2.RequestAction
            if field == "force_action"
            else sc2api_pb2.ResponseObservation
        )
        message = kind.FromString(arrays["steps"][step][field] or b"")
        change(message)
        arrays["steps"][step][field] = message.SerializeToString(deterministic=True)

    return edit


def _edit_game(change: Any) -> Any:
    def edit(arrays: dict[str, Any]) -> None:
        info = sc2api_pb2.ResponseGameInfo.FromString(arrays["game_info"])
        change(info)
        arrays["game_info"] = info.SerializeToString(deterministic=True)

    return edit


def _plane(name: str, **fields: Any) -> Any:
    def change(message: Any) -> None:
        renders = message.observation.feature_layer_data.minimap_renders
        plane = getattr(renders, name)
        for field, value in fields.items():
            if field in ("x", "y"):
                setattr(plane.size, field, value)
            else:
                setattr(plane, field, value)

    return _edit_message(1, change)


def _all_planes(side_x: int, side_y: int) -> Any:
    def change(message: Any) -> None:
        renders = message.observation.feature_layer_data.minimap_renders
        for field in renders.DESCRIPTOR.fields:
            plane = getattr(renders, field.name)
            plane.size.x, plane.size.y = side_x, side_y
            plane.bits_per_pixel = 32
            plane.data = bytes(side_x * side_y * 4)

    return _edit_message(1, change)


def _step_field(field: str, value: Any) -> Any:
    def edit(arrays: dict[str, Any]) -> None:
        arrays["steps"][1][field] = value

    return edit


def _no_layers(message: Any) -> None:
    message.observation.ClearField("feature_layer_data")


def _no_raw(message: Any) -> None:
    message.observation.ClearField("raw_data")


def _unit(**fields: Any) -> Any:
    def change(message: Any) -> None:
        unit = message.observation.raw_data.units.add()
        for field, value in fields.items():
            setattr(unit, field, value)

    return change


def _upgrades(*ids: int) -> Any:
    def change(message: Any) -> None:
        message.observation.raw_data.player.upgrade_ids.extend(ids)

    return change


def _map(x: int, y: int) -> Any:
    def change(info: Any) -> None:
        info.start_raw.map_size.x, info.start_raw.map_size.y = x, y

    return change


def _types(*kinds: int) -> Any:
    def change(info: Any) -> None:
        del info.player_info[:]
        for kind in kinds:
            player = info.player_info.add()
            if kind:
                player.type = kind

    return change


# One thing wrong, or nearly wrong, at a time; `odd` applies it to a tame capture.
ODDITIES: dict[str, Any] = {
    **{
        f"{path}={value}": _edit_settings(path, value)
        for path, values in {
            "raw_settings/num_unit_features": (0, 38, 39, 46),
            "raw_settings/max_unit_count": (0, -1, 1, 2000),
            "raw_settings/max_unit_selection_size": (15, 16, 500),
            "raw_settings/resolution": ({}, {"x": 0, "y": 0}, {"x": 8, "y": 9}),
            "raw_settings/virtual_camera_dimensions": (
                {},
                {"left": 1.0},
                {"left": 4.0, "right": 4.0, "top": -4.0, "bottom": 9.0},
            ),
            "raw_settings": (None, {}),
            "num_action_types": (0, 538, 539, 1000),
            "num_unit_types": (216, 217, 1000),
            "num_upgrade_types": (85, 86, 1000),
            "max_num_upgrades": (-1, 0, 1, 300),
            "camera_width_world_units": (None, 0, 1, -3, 400),
            "minimap": (None, {"x": 16}, {"x": 3, "y": 3}, {"x": 64, "y": 64}),
            "minimap_features": (
                [],
                ["nonsense"],
                ["creep"],
                ["unit_type"],
                ["creep", "creep"],
            ),
            "mmr": (None, -5),
        }.items()
        for value in values
    },
    **{
        f"map {x}x{y}": _edit_game(_map(x, y))
        for x, y in ((0, 0), (0, 64), (64, 0), (1, 1), (-4, 64), (1000, 3))
    },
    **{
        f"players {kinds}": _edit_game(_types(*kinds))
        for kinds in ((), (1,), (0, 0), (1, 2), (1, 1, 1), (3, 3), (1, 3, 1), (1, 3))
    },
    **{f"delay {value}": _step_field("delay", value) for value in (None, 0, -1)},
    "no force_action": _step_field("force_action", None),
    "empty force_action": _step_field("force_action", b""),
    "no opponent": _step_field("opponent", None),
    "empty opponent": _step_field("opponent", b""),
    "empty player": _step_field("player", b""),
    "no layers": _edit_message(1, _no_layers),
    "no raw data": _edit_message(1, _no_raw),
    "opponent without raw data": _edit_message(1, _no_raw, "opponent"),
    "height map of another size": _plane("height_map", x=2, y=2),
    "creep of another size": _plane("creep", x=2, y=2),
    "creep not square": _plane("creep", x=2),
    "creep without size": _plane("creep", x=0, y=0),
    "creep 2 bits": _plane("creep", bits_per_pixel=2),
    "creep -1 bits": _plane("creep", bits_per_pixel=-1),
    "creep without data": _plane("creep", data=b""),
    "height map without data": _plane("height_map", data=b""),
    "planes 6x6": _all_planes(6, 6),
    "planes 6x4": _all_planes(6, 4),
    "planes 0x0": _all_planes(0, 0),
    "planes 64x64": _all_planes(64, 64),
    "unknown own unit": _edit_message(1, _unit(unit_type=3999)),
    "unknown enemy": _edit_message(1, _unit(unit_type=3999, alliance=4)),
    "unknown neutral": _edit_message(1, _unit(unit_type=3999, alliance=3)),
    "type 254": _edit_message(1, _unit(unit_type=254)),
    "type 254 enemy": _edit_message(1, _unit(unit_type=254, alliance=4)),
    "type 2**31": _edit_message(1, _unit(unit_type=2**31)),
    "opponent's unknown unit": _edit_message(1, _unit(unit_type=3999), "opponent"),
    "opponent's unknown enemy": _edit_message(
        1, _unit(unit_type=3999, alliance=4), "opponent"
    ),
    "unknown upgrade": _edit_message(1, _upgrades(999)),
    "upgrade -1": _edit_message(1, _upgrades(2**32 - 1)),
    "unknown upgrade beyond the cap": _edit_message(1, _upgrades(*[1] * 40, 999)),
    "opponent's unknown upgrade": _edit_message(1, _upgrades(999), "opponent"),
}


def odd(name: str, seed: int) -> Capture:
    """A tame capture with one of ODDITIES in it."""
    plain = random_captures.capture(seed, steps=3, tame=True)
    captures: dict[str, Any] = {
        "settings": plain.settings,
        "game_info": plain.game_info,
        "steps": [vars(step).copy() for step in plain.steps],
    }
    ODDITIES[name](captures)
    return Capture(
        settings=captures["settings"],
        game_info=captures["game_info"],
        replay_info=plain.replay_info,
        steps=tuple(Step(**step) for step in captures["steps"]),
        meta={**plain.meta, "name": f"{name} {seed}"},
    )
