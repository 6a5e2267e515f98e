"""The actions of an observation: what the player has done since the last one.

In: inputs as they were played. Out: the protocol's actions, in the form of each interface that the
client uses. An action that the client gave on the screen is reported as it was given. In
replays, and for actions in the raw form, the form on the screen is worked out from the units'
places, so rectangles may differ from those that were drawn. Must not know: sessions.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from starmill.converters.protos import (
    common_pb2,
    error_pb2,
    raw_pb2,
    sc2api_pb2,
    spatial_pb2,
    ui_pb2,
)
from starmill.engines.skirmish.observation.feature_layers import Layers, Raster
from starmill.engines.skirmish.server.action_reader import own_units_by_kind
from starmill.engines.skirmish.server.played_inputs import PlayedInput
from starmill.engines.skirmish.simulation import action_results, game

_KINDS_OF_SELECTION = ("select_army", "select_larva", "select_warp_gates")
_FIRST_SCREEN = 2  # pixels: DeepMind's replay code asks for a screen of one pixel


class ActionReport:
    """Reports one player's actions of one game.

    layers: what the client sees; None reports selections and clicks in the raw form only.
    """

    def __init__(self, play: game.Game, player: int, layers: Layers | None) -> None:
        self._game = play
        self._player = player
        self._layers = layers

    def actions(self, played: Sequence[PlayedInput]) -> list[sc2api_pb2.Action]:
        """Returns the actions that an observation reports for these inputs."""
        actions = []
        for entry in played:
            if entry.implied:
                continue
            action = sc2api_pb2.Action(game_loop=entry.loop)
            is_known = _set_raw(action, entry)
            origin = entry.origin
            if isinstance(origin, sc2api_pb2.Action) and _is_on_screen(origin):
                is_known = True
                if origin.HasField("action_ui"):
                    action.action_ui.CopyFrom(origin.action_ui)
                if origin.HasField("action_feature_layer"):
                    action.action_feature_layer.CopyFrom(origin.action_feature_layer)
            elif self._layers is not None:
                is_known |= self._set_on_screen(action, entry, self._layers)
            if is_known:
                actions.append(action)
        return actions

    def _set_on_screen(
        self, action: sc2api_pb2.Action, entry: PlayedInput, layers: Layers
    ) -> bool:
        """Fills in the form on the screen; returns whether there is one."""
        screen = layers.screen_raster(entry.camera)
        spatial = action.action_feature_layer
        match entry.item:
            case game.UnitCommand():
                _set_command(spatial.unit_command, entry, self._place(entry), layers)
            case game.Autocast():
                action.action_ui.toggle_autocast.ability_id = entry.item.ability_id
            case game.CameraMove():
                minimap = layers.minimap_raster()
                if minimap is None:
                    return False
                _set_pixel(
                    spatial.camera_move.center_minimap,
                    minimap,
                    (entry.item.x, entry.item.y),
                )
            case game.Select():
                return self._set_selection(action, entry.item, screen)
            case _:
                return False
        return True

    def _place(self, entry: PlayedInput) -> tuple[float, float] | None:
        """Returns the point that a command aims at, None if it has no target."""
        command = entry.item
        if not isinstance(command, game.UnitCommand) or not command.target_tag:
            return getattr(command, "target_point", None)
        rows = self._game.rows_of([command.target_tag])
        if not len(rows):
            return None
        unit = self._game.world.units[rows[0]]
        return float(unit["x"]), float(unit["y"])

    def _set_selection(
        self, action: sc2api_pb2.Action, item: game.Select, screen: Raster
    ) -> bool:
        for kind in _KINDS_OF_SELECTION:
            tags = own_units_by_kind(self._game, self._player, kind)
            if len(tags) and set(tags) == set(item.unit_tags):
                getattr(action.action_ui, kind).SetInParent()
                return True
        rows = self._game.rows_of([tag for tag in item.unit_tags if tag > 0])
        if not len(rows):
            return False
        units = self._game.world.units[rows]
        places = list(zip(units["x"].tolist(), units["y"].tolist(), strict=True))
        spatial = action.action_feature_layer
        if len(places) == 1:
            point = spatial.unit_selection_point
            point.type = spatial_pb2.ActionSpatialUnitSelectionPoint.Select
            _set_pixel(point.selection_screen_coord, screen, places[0])
            return True
        rectangle = spatial.unit_selection_rect.selection_screen_coord.add()
        xs, ys = units["x"], units["y"]
        _set_pixel(rectangle.p0, screen, (float(xs.min()), float(ys.max())))
        _set_pixel(rectangle.p1, screen, (float(xs.max()), float(ys.min())))
        return True


def usable_layers(layers: Layers) -> Layers | None:
    """Returns the layers if their screen is large enough to click on, otherwise None."""
    shape = layers.screen_shape()
    return layers if shape is not None and min(shape) >= _FIRST_SCREEN else None


def _is_on_screen(action: sc2api_pb2.Action) -> bool:
    return action.HasField("action_feature_layer") or action.HasField("action_ui")


def _set_raw(action: sc2api_pb2.Action, entry: PlayedInput) -> bool:
    """Fills in the raw form, or that of a control group; returns whether there is one."""
    item = entry.item
    match item:
        case game.UnitCommand():
            _set_raw_command(action.action_raw.unit_command, item, entry.ability)
        case game.Autocast():
            toggle = action.action_raw.toggle_autocast
            toggle.ability_id = item.ability_id
            toggle.unit_tags.extend(item.unit_tags)
        case game.CameraMove():
            point = action.action_raw.camera_move.center_world_space
            point.x, point.y, point.z = item.x, item.y, 0.0
        case game.ControlGroup():
            group: ui_pb2.ActionControlGroup = action.action_ui.control_group
            group.action = item.kind  # type: ignore[assignment]  # the enum's numbers
            group.control_group_index = item.index
        case _:
            return False
    return True


def _set_raw_command(
    command: raw_pb2.ActionRawUnitCommand, item: game.UnitCommand, ability: int
) -> None:
    command.ability_id = ability
    command.unit_tags.extend(item.unit_tags)
    command.queue_command = item.queued
    if item.target_tag:
        command.target_unit_tag = item.target_tag
    elif item.target_point is not None:
        command.target_world_space_pos.x = item.target_point[0]
        command.target_world_space_pos.y = item.target_point[1]


def _set_command(
    command: spatial_pb2.ActionSpatialUnitCommand,
    entry: PlayedInput,
    place: tuple[float, float] | None,
    layers: Layers,
) -> None:
    """Fills in a command on the screen, or on the minimap if its target is off the screen."""
    item = entry.item
    command.ability_id = entry.ability
    command.queue_command = isinstance(item, game.UnitCommand) and item.queued
    if place is None:
        return
    screen, minimap = layers.screen_raster(entry.camera), layers.minimap_raster()
    column, row = _pixel(screen, place)
    if (0 <= column < screen.size[0] and 0 <= row < screen.size[1]) or minimap is None:
        _set_pixel(command.target_screen_coord, screen, place)
    else:
        _set_pixel(command.target_minimap_coord, minimap, place)


def _pixel(raster: Raster, place: tuple[float, float]) -> tuple[int, int]:
    column = int((place[0] - raster.left) * raster.scale[0] // 1)
    row = int((raster.top - place[1]) * raster.scale[1] // 1)
    return column, row


def _set_pixel(
    pixel: common_pb2.PointI, raster: Raster, place: tuple[float, float]
) -> None:
    """Sets the pixel of a place, or the nearest one in the picture."""
    column, row = _pixel(raster, place)
    pixel.x = min(max(column, 0), raster.size[0] - 1)
    pixel.y = min(max(row, 0), raster.size[1] - 1)


def reported_errors(
    refusals: Iterable[game.CommandError], player: int
) -> list[sc2api_pb2.ActionError]:
    """Returns a player's refused commands as an observation reports them."""
    reports = []
    for entry in refusals:
        known = entry.code in error_pb2.ActionResult.values()
        result: Any = entry.code if known else action_results.ERROR
        if entry.player == player:
            reports.append(
                sc2api_pb2.ActionError(
                    unit_tag=entry.tag, ability_id=entry.ability_id, result=result
                )
            )
    return reports
