"""The protocol's actions as inputs of the game.

In: one player's `sc2api.Action`s (raw, feature-layer, interface). Out: inputs, and the
ActionResult of each action. Must not know: sessions, or how inputs are played.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from starmill.converters.protos import (
    raw_pb2,
    sc2api_pb2,
    spatial_pb2,
    ui_pb2,
)
from starmill.engines.skirmish.observation import (
    feature_layers,
    visible_units,
)
from starmill.engines.skirmish.simulation import action_results, ids, rules
from starmill.engines.skirmish.simulation.game import (
    RECALL,
    Autocast,
    CameraMove,
    ControlGroup,
    Game,
    Input,
    Select,
    UnitCommand,
)

SUCCESS = action_results.SUCCESS
# The inputs of an action, and its ActionResult.
Answer = tuple[list[Input], int]
# What a command is aimed at: a unit's tag, a point, or nothing.
Target = int | tuple[float, float] | None
_GROUPS = 10
_EDGE = 1 / 4096  # the step of a replay's points: the last one on the map
_TAG_LIMIT = 1 << 32


class ActionReader:
    """Turns one player's actions of the current loop into inputs.

    Later actions of a loop use the selection that earlier ones made. Call `next_loop` after the game
    has advanced.
    """

    def __init__(
        self, game: Game, player: int, pictures: feature_layers.Layers
    ) -> None:
        self._game = game
        self._player = player
        self._pictures = pictures
        self._selection: tuple[int, ...] | None = None

    def next_loop(self) -> None:
        """Forgets the selection of the last loop's actions: the game holds it now."""
        self._selection = None

    def read(self, action: sc2api_pb2.Action) -> Answer:
        """Returns the inputs of one action and its ActionResult; no inputs if it is refused."""
        if action.HasField("action_raw"):
            inputs, result = self._raw(action.action_raw)
        elif action.HasField("action_feature_layer"):
            inputs, result = self._spatial(action.action_feature_layer)
        elif action.HasField("action_ui"):
            inputs, result = self._interface(action.action_ui)
        elif action.HasField("action_render"):
            return [], action_results.NOT_SUPPORTED
        else:
            return [], SUCCESS
        for item in inputs:
            if isinstance(item, Select):
                self._selection = item.unit_tags
            elif isinstance(item, ControlGroup) and item.kind == RECALL:
                self._selection = self._game.groups[self._player][item.index]
        return inputs, result

    def selection(self) -> tuple[int, ...]:
        """Returns the tags of the selected units."""
        if self._selection is None:
            units = self._game.world.units
            is_selected = (units["selected"] == 1) & own_units(self._game, self._player)
            self._selection = tuple(int(tag) for tag in units["tag"][is_selected])
        return self._selection

    def _own_tags(self, tags: Iterable[int]) -> tuple[int, ...]:
        """Returns those of the tags that are the player's units."""
        valid = [tag for tag in tags if 0 < tag < _TAG_LIMIT]
        rows = self._game.rows_of(valid)
        units = self._game.world.units
        own = rows[units["owner"][rows] == self._player]
        return tuple(int(tag) for tag in units["tag"][own])

    # Raw actions

    def _raw(self, action: raw_pb2.ActionRaw) -> Answer:
        kind = action.WhichOneof("action")
        if kind == "camera_move":
            point = action.camera_move.center_world_space
            return self._camera(point.x, point.y)
        if kind == "toggle_autocast":
            toggle = action.toggle_autocast
            return self._toggle(toggle.ability_id, self._own_tags(toggle.unit_tags))
        if kind != "unit_command":
            return [], SUCCESS
        command = action.unit_command
        tags = self._own_tags(command.unit_tags)
        if command.HasField("target_unit_tag"):
            target: Target = command.target_unit_tag
        elif command.HasField("target_world_space_pos"):
            point2d = command.target_world_space_pos
            target = (point2d.x, point2d.y)
        else:
            target = None
        return self._command(command.ability_id, tags, target, command.queue_command)

    def _camera(self, x: float, y: float) -> Answer:
        if not (np.isfinite(x) and np.isfinite(y)):
            return [], action_results.ERROR
        left, bottom, right, top = self._game.map.playable
        x, y = min(max(x, left), right), min(max(y, bottom), top)
        return [CameraMove(self._player, x, y)], SUCCESS

    def _toggle(self, ability_id: int, tags: tuple[int, ...]) -> Answer:
        if not tags or not 0 < ability_id < rules.ABILITY_LIMIT:
            return [], action_results.ERROR
        return [Autocast(self._player, ability_id, tags)], SUCCESS

    def _command(
        self,
        ability_id: int,
        tags: tuple[int, ...],
        target: Target,
        queued: bool,
    ) -> Answer:
        if not 0 < ability_id < rules.ABILITY_LIMIT:
            return [], action_results.NOT_SUPPORTED
        if not tags:
            return [], action_results.ERROR
        if target is None:
            command = UnitCommand(self._player, ability_id, tags, queued=queued)
        elif isinstance(target, int):
            if not 0 < target < _TAG_LIMIT:
                return [], action_results.CANT_TARGET_THAT_UNIT
            command = UnitCommand(
                self._player, ability_id, tags, target_tag=target, queued=queued
            )
        else:
            if not np.isfinite(target).all():
                return [], action_results.ERROR
            x = min(max(float(target[0]), 0.0), self._game.map.width - _EDGE)
            y = min(max(float(target[1]), 0.0), self._game.map.height - _EDGE)
            command = UnitCommand(
                self._player, ability_id, tags, target_point=(x, y), queued=queued
            )
        # As in the real game, what cannot be carried out is refused at once.
        code = self._game.command_error(command)
        return ([command], SUCCESS) if code == SUCCESS else ([], code)

    # Feature-layer actions

    def _spatial(self, action: spatial_pb2.ActionSpatial) -> Answer:
        match action.WhichOneof("action"):
            case "unit_command":
                return self._spatial_command(action.unit_command)
            case "camera_move":
                raster = self._pictures.minimap_raster()
                if raster is None:
                    return [], action_results.NOT_SUPPORTED
                pixel = action.camera_move.center_minimap
                return self._camera(*_world(raster, pixel.x, pixel.y))
            case "unit_selection_point":
                return self._select_point(action.unit_selection_point)
            case "unit_selection_rect":
                return self._select_rect(action.unit_selection_rect)
            case _:
                return [], SUCCESS

    def _spatial_command(self, command: spatial_pb2.ActionSpatialUnitCommand) -> Answer:
        target: Target = None
        if command.HasField("target_screen_coord"):
            pixel = command.target_screen_coord
            point = _world(self._pictures.screen_raster(), pixel.x, pixel.y)
            target = self._unit_at(point) or point
        elif command.HasField("target_minimap_coord"):
            raster = self._pictures.minimap_raster()
            if raster is None:
                return [], action_results.NOT_SUPPORTED
            pixel = command.target_minimap_coord
            target = _world(raster, pixel.x, pixel.y)
        tags = self.selection()
        return self._command(command.ability_id, tags, target, command.queue_command)

    def _visible(self) -> visible_units.View:
        return visible_units.player_view(
            self._game, self._player, show_placeholders=False
        )

    def _unit_at(self, point: tuple[float, float]) -> int:
        """Returns the tag of the unit under a point, 0 if there is none."""
        units = self._visible().units
        distances = np.hypot(units["x"] - point[0], units["y"] - point[1])
        under = np.flatnonzero(distances <= units["radius"])
        if not len(under):
            return 0
        return int(units["tag"][under[np.argmin(distances[under])]])

    def _select_point(
        self, select: spatial_pb2.ActionSpatialUnitSelectionPoint
    ) -> Answer:
        pixel = select.selection_screen_coord
        point = _world(self._pictures.screen_raster(), pixel.x, pixel.y)
        picked = self._own_tags([self._unit_at(point)])
        kind = select.type
        point_type = spatial_pb2.ActionSpatialUnitSelectionPoint
        if kind in (point_type.AllType, point_type.AddAllType) and picked:
            picked = self._same_type_on_screen(picked[0])
        if kind == point_type.Toggle:
            before = self.selection()
            picked = tuple(tag for tag in before if tag not in picked) + tuple(
                tag for tag in picked if tag not in before
            )
        elif kind == point_type.AddAllType:
            picked = self._added(picked)
        return self._select(picked)

    def _same_type_on_screen(self, tag: int) -> tuple[int, ...]:
        view = self._visible()
        types = view.units["unit_type"]
        unit_type = types[view.units["tag"] == tag][0]
        alike = types == unit_type
        alike &= view.alliance == visible_units.ALLIANCE_SELF
        alike &= self._pictures.on_screen(view)
        return tuple(int(t) for t in view.units["tag"][alike])

    def _select_rect(
        self, select: spatial_pb2.ActionSpatialUnitSelectionRect
    ) -> Answer:
        raster = self._pictures.screen_raster()
        boxed: list[int] = []
        units = self._game.world.units
        own = own_units(self._game, self._player)
        structures = rules.unit_rules()["structure"][units["unit_type"]] == 1
        for rectangle in select.selection_screen_coord:
            x0, y0 = _world(raster, rectangle.p0.x, rectangle.p0.y)
            x1, y1 = _world(raster, rectangle.p1.x, rectangle.p1.y)
            inside = own & (units["x"] >= min(x0, x1)) & (units["x"] <= max(x0, x1))
            inside &= (units["y"] >= min(y0, y1)) & (units["y"] <= max(y0, y1))
            # As on the real screen, buildings are selected only if there are no units in the box.
            movers = inside & ~structures
            selected = movers if movers.any() else inside
            boxed += [int(tag) for tag in units["tag"][selected]]
        tags = tuple(dict.fromkeys(boxed))
        return self._select(self._added(tags) if select.selection_add else tags)

    def _added(self, tags: tuple[int, ...]) -> tuple[int, ...]:
        before = self.selection()
        return before + tuple(tag for tag in tags if tag not in before)

    def _select(self, tags: tuple[int, ...]) -> Answer:
        if not tags:
            return [], SUCCESS  # a click on nothing keeps the selection
        return [Select(self._player, tags)], SUCCESS

    # Interface actions

    def _interface(self, action: ui_pb2.ActionUI) -> Answer:
        kind = action.WhichOneof("action")
        if kind == "control_group":
            group = action.control_group
            if group.control_group_index >= _GROUPS:
                return [], action_results.ERROR
            item = ControlGroup(
                self._player, group.control_group_index, group.action or RECALL
            )
            return [item], SUCCESS
        if kind == "toggle_autocast":
            return self._toggle(action.toggle_autocast.ability_id, self.selection())
        if kind in ("cargo_panel", "production_panel"):
            return self._panel(kind)
        if kind == "multi_panel":
            return self._multi_panel(action.multi_panel)
        tags = own_units_by_kind(self._game, self._player, kind or "")
        idle = ui_pb2.ActionSelectIdleWorker
        if kind == "select_idle_worker" and action.select_idle_worker.type in (
            idle.Set,
            idle.Add,
        ):
            tags = tags[:1]
        add = (kind == "select_army" and action.select_army.selection_add) or (
            kind == "select_warp_gates" and action.select_warp_gates.selection_add
        )
        return self._select(self._added(tags) if add else tags)

    def _panel(self, kind: str) -> Answer:
        panel_kind = (
            ids.KIND_UNLOAD_ALL if kind == "cargo_panel" else ids.KIND_CANCEL_LAST
        )
        kinds = rules.ability_rules()["kind"]
        for row in self._game.rows_of(self.selection()):
            for ability in self._game.available_abilities(int(row)):
                if kinds[ability] == panel_kind:
                    return self._command(ability, self.selection(), None, False)
        return [], action_results.ERROR

    def _multi_panel(self, panel: ui_pb2.ActionMultiPanel) -> Answer:
        before = self.selection()
        if not 0 <= panel.unit_index < len(before):
            return [], action_results.ERROR
        picked = before[panel.unit_index]
        if panel.type in (
            ui_pb2.ActionMultiPanel.DeselectUnit,
            ui_pb2.ActionMultiPanel.DeselectAllOfType,
        ):
            return self._select(tuple(tag for tag in before if tag != picked))
        return self._select((picked,))


def own_units_by_kind(game: Game, player: int, kind: str) -> tuple[int, ...]:
    """Returns the tags of the player's units that an interface action of this kind selects."""
    units, unit_rules = game.world.units, rules.unit_rules()
    types = units["unit_type"]
    own = own_units(game, player)
    if kind == "select_army":
        selected = own & (unit_rules["army"][types] == 1)
    elif kind == "select_warp_gates":
        selected = own & (types == ids.UNIT_WARP_GATE)
    elif kind == "select_larva":
        selected = own & (types == ids.UNIT_LARVA)
    elif kind == "select_idle_worker":
        selected = own & (unit_rules["worker"][types] == 1)
        selected &= units["order_count"] == 0
    else:
        return ()
    return tuple(int(tag) for tag in units["tag"][selected])


def own_units(game: Game, player: int) -> NDArray[np.bool_]:
    """Returns which units are the player's, alive, and in no transport."""
    units = game.world.units
    own: NDArray[np.bool_] = (units["owner"] == player) & (units["alive"] == 1)
    return own & (units["carrier"] < 0)


def _world(
    raster: feature_layers.Raster, column: float, row: float
) -> tuple[float, float]:
    """Returns the point of the world at the middle of a pixel."""
    x = raster.left + (column + 0.5) / raster.scale[0]
    y = raster.top - (row + 0.5) / raster.scale[1]
    return float(x), float(y)
