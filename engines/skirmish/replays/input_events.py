"""Inputs of a game as a replay's game events, and back, without loss.

In: `game.Input`s and their loops. Out: (loop, user, name, fields) tuples, ready to be encoded.
Decoded events give the same inputs again. An event names no units, because it applies to the
player's selection, so both directions follow the selections with the same `Selections`. Must not
know: how events are encoded.

A game must be given only what a file can hold: points in 1/4096 of a cell (for the camera 1/256),
selections of up to 500 units, and before each command the selection that it applies to.
`Selections.admit` brings inputs into that form before they are played.

Ability ids: `m_abilLink << 5 | m_abilCmdIndex` is 0x80000 + the ability id. `m_unitLink` is the
unit type id. (In the real game, both numberings change with the version.)
"""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from starmill.engines.skirmish.simulation import game
from starmill.engines.skirmish.simulation.debug.cheats import Cheat
from starmill.schema import errors
from starmill.schema.archives import json_text

# Loop, user id (player - 1), name and fields.
Event = tuple[int, int, str, dict[str, Any]]
# From a tag to the unit's type, owner, x and y; None if there is no such unit.
UnitLookup = Callable[[int], tuple[int, int, float, float] | None]

MAX_SELECTION = 500
POINT_SCALE = 4096
CAMERA_SCALE = 256
_ABILITY_OFFSET = 0x80000
_LINK_SHIFT = 5  # the low bits of an ability number are its command index
_COMMAND_MASK = (1 << _LINK_SHIFT) - 1
_POINT_BITS, _CAMERA_BITS = 20, 16  # of a coordinate
_MAX_OWNER = 15  # that a target's owner field can hold
_GROUPS = 10
_CURRENT_SELECTION = 10  # the control group id that stands for the selection
_STATE_REPEAT = 1  # of CommandManagerState: the last command, once more
# Bits of m_cmdFlags.
_FLAG_QUEUED = 2
_FLAG_AUTOCAST = 64
_FLAG_USER = 256
_TARGET_UNIT_FLAGS = 111  # what the real game writes
# m_controlGroupUpdate by kind of control group input.
_GROUP_UPDATES = {
    game.SET: 0,
    game.APPEND: 1,
    game.RECALL: 2,
    game.SET_AND_STEAL: 4,
    game.APPEND_AND_STEAL: 5,
}
_GROUP_KINDS = {update: kind for kind, update in _GROUP_UPDATES.items()}


class Selections:
    """Each player's selection and control groups, according to the inputs alone.

    Units that died stay in them until the player changes the selection. The game drops such units,
    but a reader of the file must be able to follow the selections without playing the game.
    """

    def __init__(self) -> None:
        self._current: dict[int, tuple[int, ...]] = {1: (), 2: ()}
        self._groups: dict[int, list[tuple[int, ...]]] = {
            player: [()] * _GROUPS for player in (1, 2)
        }

    def current(self, player: int) -> tuple[int, ...]:
        """Returns the tags of the units that the player's next command applies to."""
        return self._current[player]

    def follow(self, item: game.Input) -> None:
        """Updates the selection for one input, which `admit` must have returned."""
        if isinstance(item, game.Select):
            self._current[item.player] = item.unit_tags
        elif isinstance(item, game.ControlGroup):
            self._follow_group(item)

    def _follow_group(self, item: game.ControlGroup) -> None:
        groups = self._groups[item.player]
        selected = self._current[item.player]
        if item.kind == game.RECALL:
            self._current[item.player] = groups[item.index]
            return
        if item.kind in {game.SET_AND_STEAL, game.APPEND_AND_STEAL}:
            for index, tags in enumerate(groups):
                groups[index] = tuple(tag for tag in tags if tag not in selected)
        keeps = item.kind in {game.APPEND, game.APPEND_AND_STEAL}
        kept = groups[item.index] if keeps else ()
        added = tuple(tag for tag in selected if tag not in kept)
        groups[item.index] = (kept + added)[:MAX_SELECTION]

    def admit(self, inputs: Iterable[game.Input]) -> list[game.Input]:
        """Returns the inputs in the form that a replay can hold, and follows them."""
        admitted: list[game.Input] = []
        for original in inputs:
            item = _rounded(original)
            if (
                isinstance(item, (game.UnitCommand, game.Autocast))
                and self.current(item.player) != item.unit_tags
            ):
                select = game.Select(item.player, item.unit_tags)
                self.follow(select)
                admitted.append(select)
            self.follow(item)
            admitted.append(item)
        return admitted


def _rounded(item: game.Input) -> game.Input:
    """Returns the input with its point on the file's grid and a selection that fits."""
    if isinstance(item, game.CameraMove):
        x = _on_grid(item.x, CAMERA_SCALE, _CAMERA_BITS)
        y = _on_grid(item.y, CAMERA_SCALE, _CAMERA_BITS)
        return dataclasses.replace(item, x=x / CAMERA_SCALE, y=y / CAMERA_SCALE)
    if isinstance(item, (game.ControlGroup, game.Leave, Cheat)):
        return item
    tags = tuple(int(tag) for tag in item.unit_tags[:MAX_SELECTION])
    if isinstance(item, game.UnitCommand) and item.target_point is not None:
        x, y = (
            _on_grid(value, POINT_SCALE, _POINT_BITS) for value in item.target_point
        )
        point = (x / POINT_SCALE, y / POINT_SCALE)
        return dataclasses.replace(item, unit_tags=tags, target_point=point)
    return dataclasses.replace(item, unit_tags=tags)


def _on_grid(value: float, scale: int, bits: int) -> int:
    """Returns a coordinate as the nearest integer that the file can hold."""
    if not math.isfinite(value):
        raise errors.EngineError(f"a point: expected finite numbers, found {value!r}")
    return min(max(round(float(value) * scale), 0), (1 << bits) - 1)


class EventWriter:
    """Turns admitted inputs into events. Each player has a sequence of command numbers."""

    def __init__(self, lookup: UnitLookup) -> None:
        self._lookup = lookup
        self._selections = Selections()
        self._sequence = {1: 0, 2: 0}
        self._last: dict[int, game.UnitCommand | None] = {1: None, 2: None}

    def write(self, loop: int, item: game.Input) -> list[Event]:
        """Returns the events of one input, in their order in the file."""
        events = [
            (loop, item.player - 1, name, fields) for name, fields in self._fields(item)
        ]
        self._selections.follow(item)
        return events

    def _fields(self, item: game.Input) -> list[tuple[str, dict[str, Any]]]:
        match item:
            case game.UnitCommand():
                return self._command(item)
            case game.Autocast():
                flags = _FLAG_USER | _FLAG_AUTOCAST
                self._last[item.player] = None
                return [self._cmd(item.player, item.ability_id, flags, {"None": None})]
            case game.Select():
                self._last[item.player] = None
                return [("SelectionDelta", self._delta(item))]
            case game.ControlGroup():
                if item.kind == game.RECALL:
                    self._last[item.player] = None
                update = {
                    "m_controlGroupIndex": item.index,
                    "m_controlGroupUpdate": _GROUP_UPDATES[item.kind],
                    "m_mask": {"None": None},
                }
                return [("ControlGroupUpdate", update)]
            case game.CameraMove():
                return [("CameraUpdate", camera_fields(item.x, item.y))]
            case game.Leave():
                return [("GameUserLeave", {"m_leaveReason": 0})]
            case Cheat():
                return [("GameCheat", {"m_data": _cheat_fields(item)})]

    def _command(self, item: game.UnitCommand) -> list[tuple[str, dict[str, Any]]]:
        target = self._target(item)
        last = self._last[item.player]
        self._last[item.player] = item
        flags = _FLAG_USER | (_FLAG_QUEUED if item.queued else 0)
        if last is None or not _is_repeat(last, item):
            return [self._cmd(item.player, item.ability_id, flags, target)]
        # For a repeated command, the game writes the new target, if any, and a repeat event.
        events: list[tuple[str, dict[str, Any]]] = []
        if item.target_point is not None and item.target_point != last.target_point:
            events.append(("CmdUpdateTargetPoint", {"m_target": target["TargetPoint"]}))
        elif item.target_tag != last.target_tag:
            events.append(("CmdUpdateTargetUnit", {"m_target": target["TargetUnit"]}))
        self._sequence[item.player] += 1
        state = {"m_state": _STATE_REPEAT, "m_sequence": self._sequence[item.player]}
        return [*events, ("CommandManagerState", state)]

    def _cmd(
        self, player: int, ability_id: int, flags: int, data: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        self._sequence[player] += 1
        number = _ABILITY_OFFSET + ability_id
        ability = {
            "m_abilLink": number >> _LINK_SHIFT,
            "m_abilCmdIndex": number & _COMMAND_MASK,
            "m_abilCmdData": None,
        }
        fields = {
            "m_cmdFlags": flags,
            "m_abil": ability,
            "m_data": data,
            "m_sequence": self._sequence[player],
            "m_otherUnit": None,
            "m_unitGroup": None,
        }
        return "Cmd", fields

    def _target(self, item: game.UnitCommand) -> dict[str, Any]:
        if item.target_point is not None:
            return {"TargetPoint": _point(*item.target_point)}
        if not item.target_tag:
            return {"None": None}
        unit_type, owner, x, y = self._lookup(item.target_tag) or (0, 0, 0.0, 0.0)
        target = {
            "m_targetUnitFlags": _TARGET_UNIT_FLAGS,
            "m_timer": 0,
            "m_tag": item.target_tag,
            "m_snapshotUnitLink": unit_type,
            "m_snapshotControlPlayerId": owner if owner <= _MAX_OWNER else 0,
            "m_snapshotUpkeepPlayerId": owner if owner <= _MAX_OWNER else 0,
            "m_snapshotPoint": _point(x, y),
        }
        return {"TargetUnit": target}

    def _delta(self, item: game.Select) -> dict[str, Any]:
        """Returns the change from the previous selection: what to remove, then what to add."""
        before = self._selections.current(item.player)
        kept = set(item.unit_tags)
        removed = [index for index, tag in enumerate(before) if tag not in kept]
        still = tuple(tag for tag in before if tag in kept)
        remove: dict[str, Any]
        if item.unit_tags[: len(still)] == still and still:
            remove = {"OneIndices": removed} if removed else {"None": None}
            added = item.unit_tags[len(still) :]
        else:
            remove = {"ZeroIndices": []} if before else {"None": None}
            added = item.unit_tags
        delta = {
            "m_subgroupIndex": 0,
            "m_removeMask": remove,
            "m_addSubgroups": self._subgroups(added),
            "m_addUnitTags": list(added),
        }
        return {"m_controlGroupId": _CURRENT_SELECTION, "m_delta": delta}

    def _subgroups(self, tags: Sequence[int]) -> list[dict[str, int]]:
        groups: list[dict[str, int]] = []
        for tag in tags:
            unit = self._lookup(tag)
            unit_type = unit[0] if unit else 0
            if groups and groups[-1]["m_unitLink"] == unit_type:
                groups[-1]["m_count"] += 1
                continue
            group = {"m_unitLink": unit_type, "m_count": 1}
            group |= {"m_subgroupPriority": 1, "m_intraSubgroupPriority": 1}
            groups.append(group)
        return groups


def camera_fields(x: float, y: float) -> dict[str, Any]:
    """Returns the fields of an event that centres the camera on a point."""
    target = {"x": round(x * CAMERA_SCALE), "y": round(y * CAMERA_SCALE)}
    unused = dict.fromkeys(("m_distance", "m_pitch", "m_yaw", "m_reason"))
    return {"m_target": target, "m_follow": False, **unused}


def _cheat_fields(item: Cheat) -> dict[str, Any]:
    """Returns the data of a cheat's event: a word, and its arguments as JSON."""
    return {
        "m_point": {"x": 0, "y": 0},
        "m_time": 0,
        "m_verb": item.verb.encode(),
        "m_arguments": json.dumps(item.numbers).encode(),
    }


def _point(x: float, y: float) -> dict[str, int]:
    return {"x": round(x * POINT_SCALE), "y": round(y * POINT_SCALE), "z": 0}


def _is_repeat(last: game.UnitCommand, item: game.UnitCommand) -> bool:
    """Returns whether a command differs from the last one in its target at most."""
    return (
        last.ability_id == item.ability_id
        and last.queued == item.queued
        and (last.target_point is None) == (item.target_point is None)
        and bool(last.target_tag) == bool(item.target_tag)
        and last.unit_tags == item.unit_tags
    )


class EventReader:
    """Turns decoded events back into inputs; ignores other events."""

    def __init__(self) -> None:
        self._selections = Selections()
        self._last: dict[int, game.UnitCommand | None] = {1: None, 2: None}

    def read(self, event: Mapping[str, Any]) -> game.Input | None:
        """Returns the input that an event stands for, None if it stands for none."""
        name = event["_event"].removeprefix("NNet.Game.S").removesuffix("Event")
        player = event["_userid"]["m_userId"] + 1
        handler = _READERS.get(name)
        if handler is None or player not in (1, 2):
            return None
        item: game.Input | None = handler(self, player, event)
        if item is not None:
            self._selections.follow(item)
        return item

    def _read_cmd(self, player: int, event: Mapping[str, Any]) -> game.Input:
        ability = event["m_abil"]
        if ability is None:
            raise errors.ReplayError("events", "Cmd: expected an ability, found none")
        number = ability["m_abilLink"] << _LINK_SHIFT | ability["m_abilCmdIndex"]
        ability_id = number - _ABILITY_OFFSET
        tags = self._selections.current(player)
        if event["m_cmdFlags"] & _FLAG_AUTOCAST:
            self._last[player] = None
            return game.Autocast(player, ability_id, tags)
        data = event["m_data"]
        command = game.UnitCommand(
            player,
            ability_id,
            tags,
            target_tag=data["TargetUnit"]["m_tag"] if "TargetUnit" in data else 0,
            target_point=_world(data["TargetPoint"]) if "TargetPoint" in data else None,
            queued=bool(event["m_cmdFlags"] & _FLAG_QUEUED),
        )
        self._last[player] = command
        return command

    def _read_point(self, player: int, event: Mapping[str, Any]) -> None:
        last = self._last[player]
        if last is not None:
            point = _world(event["m_target"])
            self._last[player] = dataclasses.replace(last, target_point=point)

    def _read_unit(self, player: int, event: Mapping[str, Any]) -> None:
        last = self._last[player]
        if last is not None:
            tag = event["m_target"]["m_tag"]
            self._last[player] = dataclasses.replace(last, target_tag=tag)

    def _read_repeat(self, player: int, event: Mapping[str, Any]) -> game.Input | None:
        return self._last[player] if event["m_state"] == _STATE_REPEAT else None

    def _read_selection(
        self, player: int, event: Mapping[str, Any]
    ) -> game.Input | None:
        if event["m_controlGroupId"] != _CURRENT_SELECTION:
            return None
        self._last[player] = None
        delta = event["m_delta"]
        before = self._selections.current(player)
        kept = _after_removal(before, delta["m_removeMask"])
        return game.Select(player, kept + tuple(delta["m_addUnitTags"]))

    def _read_group(self, player: int, event: Mapping[str, Any]) -> game.Input | None:
        kind = _GROUP_KINDS.get(event["m_controlGroupUpdate"])
        if kind is None:
            return None
        if kind == game.RECALL:
            self._last[player] = None
        return game.ControlGroup(player, event["m_controlGroupIndex"], kind)

    def _read_camera(self, player: int, event: Mapping[str, Any]) -> game.Input | None:
        target = event["m_target"]
        if target is None:
            return None
        x, y = target["x"] / CAMERA_SCALE, target["y"] / CAMERA_SCALE
        return game.CameraMove(player, x, y)

    def _read_cheat(self, player: int, event: Mapping[str, Any]) -> game.Input:
        data = event["m_data"]
        numbers = json_text.parse(data["m_arguments"])
        return Cheat(
            player, data["m_verb"].decode(), tuple(_number(one) for one in numbers)
        )

    def _read_leave(self, player: int, event: Mapping[str, Any]) -> game.Input:
        return game.Leave(player)


_READERS: dict[str, Callable[..., game.Input | None]] = {
    "Cmd": EventReader._read_cmd,
    "CmdUpdateTargetPoint": EventReader._read_point,
    "CmdUpdateTargetUnit": EventReader._read_unit,
    "CommandManagerState": EventReader._read_repeat,
    "SelectionDelta": EventReader._read_selection,
    "ControlGroupUpdate": EventReader._read_group,
    "CameraUpdate": EventReader._read_camera,
    "GameUserLeave": EventReader._read_leave,
    "GameCheat": EventReader._read_cheat,
}


def _number(value: Any) -> float:
    """Returns a number unchanged; ValueError for anything else."""
    if not isinstance(value, (int, float)):
        raise ValueError(f"expected a number, found {value!r}")
    return value


def _world(point: Mapping[str, int]) -> tuple[float, float]:
    return point["x"] / POINT_SCALE, point["y"] / POINT_SCALE


def _after_removal(tags: tuple[int, ...], mask: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the tags that a SelectionDelta's m_removeMask leaves, in any of its four forms."""
    if "None" in mask:
        return tags
    if "ZeroIndices" in mask:
        return tuple(tags[i] for i in mask["ZeroIndices"] if i < len(tags))
    if "OneIndices" in mask:
        removed = set(mask["OneIndices"])
        return tuple(tag for i, tag in enumerate(tags) if i not in removed)
    length, bits = mask["Mask"]
    return tuple(tag for i, tag in enumerate(tags) if i >= length or not bits >> i & 1)
