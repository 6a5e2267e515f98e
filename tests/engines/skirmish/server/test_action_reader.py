"""Actions of every interface as inputs."""

import math

import pytest

from starmill.converters.protos import sc2api_pb2, spatial_pb2, ui_pb2
from starmill.engines.skirmish.observation import feature_layers
from starmill.engines.skirmish.server import action_reader
from starmill.engines.skirmish.simulation import action_results
from starmill.engines.skirmish.simulation.game import (
    APPEND,
    RECALL,
    SET,
    CameraMove,
    ControlGroup,
    Select,
    UnitCommand,
)
from tests.factories import arena

SCREEN = 64
WIDTH = 24.0  # cells that the screen is wide
MOVE = 16
UI = ui_pb2.ActionControlGroup


@pytest.fixture
def game():
    game = arena.new_game()
    x, y = arena.OPEN
    arena.put(game, "Marine", 1, x, y)
    arena.put(game, "Marine", 1, x + 2, y)
    arena.put(game, "Bunker", 1, x - 4, y)
    arena.put(game, "Zergling", 2, x, y + 4)
    arena.look(game)
    game.step([CameraMove(1, x, y)])
    return game


@pytest.fixture
def reader(game):
    pictures = feature_layers.Layers(game, 1, (64, 64), (SCREEN, SCREEN), WIDTH)
    return action_reader.ActionReader(game, 1, pictures)


def _tags(game, kind, player=1):
    return tuple(arena.tag(game, row) for row in arena.rows_of(game, kind, player))


def _pixel(reader, x, y):
    raster = reader._pictures.screen_raster()
    column = round((x - raster.left) * raster.scale[0] - 0.5)
    row = round((raster.top - y) * raster.scale[1] - 0.5)
    return column, row


def _raw(**command):
    action = sc2api_pb2.Action()
    unit_command = action.action_raw.unit_command
    unit_command.unit_tags.extend(command.pop("tags"))
    if "point" in command:
        point = unit_command.target_world_space_pos
        point.x, point.y = command.pop("point")
    for name, value in command.items():
        setattr(unit_command, name, value)
    return action


def _click(reader, kind, x, y):
    action = sc2api_pb2.Action()
    select = action.action_feature_layer.unit_selection_point
    select.type = kind
    pixel = select.selection_screen_coord
    pixel.x, pixel.y = _pixel(reader, x, y)
    return reader.read(action)


def test_raw_commands_reach_own_units_only(game, reader):
    first, second = _tags(game, "Marine")
    enemy = _tags(game, "Zergling", 2)
    action = _raw(ability_id=MOVE, tags=(first, *enemy, 999), point=(50.0, 51.0))
    command = UnitCommand(1, MOVE, (first,), target_point=(50.0, 51.0))
    assert reader.read(action) == ([command], action_results.SUCCESS)
    action = _raw(ability_id=23, tags=(second,), target_unit_tag=enemy[0])
    action.action_raw.unit_command.queue_command = True
    ((command,), _) = reader.read(action)
    assert command == UnitCommand(1, 23, (second,), enemy[0], queued=True)


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ({"ability_id": MOVE, "tags": ()}, action_results.ERROR),
        ({"ability_id": 0}, action_results.NOT_SUPPORTED),
        ({"ability_id": 10**6}, action_results.NOT_SUPPORTED),
        ({"ability_id": MOVE, "point": (math.nan, 1.0)}, action_results.ERROR),
        (
            {"ability_id": MOVE, "target_unit_tag": 1 << 40},
            action_results.CANT_TARGET_THAT_UNIT,
        ),
    ],
)
def test_raw_commands_that_make_no_sense_are_refused(game, reader, command, result):
    action = _raw(**{"tags": _tags(game, "Marine"), **command})
    assert reader.read(action) == ([], result)


def test_points_are_kept_on_the_map(game, reader):
    tags = _tags(game, "Marine")
    ((command,), _) = reader.read(_raw(ability_id=MOVE, tags=tags, point=(-9.0, 1e6)))
    assert command.target_point == (0.0, game.map.height - 1 / 4096)
    game.step([command])
    assert not game.take_errors()
    action = sc2api_pb2.Action()
    center = action.action_raw.camera_move.center_world_space
    center.x, center.y = 1e6, -1e6
    left, bottom, right, top = game.map.playable
    assert reader.read(action) == ([CameraMove(1, right, bottom)], 1)


def test_clicks_select_toggle_and_add(game, reader):
    x, y = arena.OPEN
    first, second = _tags(game, "Marine")
    kinds = spatial_pb2.ActionSpatialUnitSelectionPoint
    assert _click(reader, kinds.Select, x, y) == ([Select(1, (first,))], 1)
    assert _click(reader, kinds.Toggle, x + 2, y) == ([Select(1, (first, second))], 1)
    assert _click(reader, kinds.Toggle, x, y) == ([Select(1, (second,))], 1)
    # A double click selects all of a type on the screen.
    assert _click(reader, kinds.AllType, x, y) == ([Select(1, (first, second))], 1)
    # Clicks on nothing and on enemies keep the selection.
    assert _click(reader, kinds.Select, x + 7, y + 7) == ([], 1)
    assert _click(reader, kinds.Select, x, y + 4) == ([], 1)
    assert reader.selection() == (first, second)
    reader.next_loop()
    assert reader.selection() == ()


def test_boxes_take_units_before_buildings(game, reader):
    x, y = arena.OPEN
    marines, bunkers = _tags(game, "Marine"), _tags(game, "Bunker")

    def box(x0, x1, *, add=False):
        action = sc2api_pb2.Action()
        select = action.action_feature_layer.unit_selection_rect
        select.selection_add = add
        rectangle = select.selection_screen_coord.add()
        for point, corner in (
            (rectangle.p0, (x0, y - 2)),
            (rectangle.p1, (x1, y + 2)),
        ):
            point.x, point.y = _pixel(reader, *corner)
        return reader.read(action)[0]

    assert box(x - 6, x + 4) == [Select(1, marines)]
    assert box(x - 6, x - 2) == [Select(1, bunkers)]
    assert box(x + 4, x - 1, add=True) == [Select(1, bunkers + marines)]


def test_screen_commands_apply_to_the_selection_and_the_unit_under_the_click(
    game, reader
):
    x, y = arena.OPEN
    (enemy,) = _tags(game, "Zergling", 2)
    tags = _tags(game, "Marine")
    reader.read(_raw(ability_id=MOVE, tags=tags, point=(x, y)))
    _click(reader, spatial_pb2.ActionSpatialUnitSelectionPoint.AllType, x, y)
    action = sc2api_pb2.Action()
    command = action.action_feature_layer.unit_command
    command.ability_id = 23
    pixel = command.target_screen_coord
    pixel.x, pixel.y = _pixel(reader, x, y + 4)
    assert reader.read(action)[0] == [UnitCommand(1, 23, tags, enemy)]
    pixel.x, pixel.y = _pixel(reader, x + 7, y + 7)
    ((ground,), _) = reader.read(action)
    assert ground.target_point == pytest.approx((x + 7, y + 7), abs=WIDTH / SCREEN)


def test_interface_actions(game, reader):
    marines = _tags(game, "Marine")

    def read(**fields):
        return reader.read(sc2api_pb2.Action(action_ui=ui_pb2.ActionUI(**fields)))

    group = ui_pb2.ActionControlGroup(control_group_index=3, action=UI.Append)
    assert read(control_group=group) == ([ControlGroup(1, 3, APPEND)], 1)
    group = ui_pb2.ActionControlGroup(control_group_index=10, action=UI.Set)
    assert read(control_group=group) == ([], action_results.ERROR)
    assert read(select_army=ui_pb2.ActionSelectArmy()) == ([Select(1, marines)], 1)
    panel = ui_pb2.ActionMultiPanel(
        type=ui_pb2.ActionMultiPanel.DeselectUnit, unit_index=0
    )
    assert read(multi_panel=panel) == ([Select(1, marines[1:])], 1)
    panel.unit_index = 5
    assert read(multi_panel=panel) == ([], action_results.ERROR)
    one = ui_pb2.ActionSelectIdleWorker(type=ui_pb2.ActionSelectIdleWorker.Set)
    every = ui_pb2.ActionSelectIdleWorker(type=ui_pb2.ActionSelectIdleWorker.All)
    workers = arena.rows_of(game, "SCV", 1)
    game.world.units["order_count"][workers] = 0
    tags = _tags(game, "SCV")
    assert read(select_idle_worker=one) == ([Select(1, tags[:1])], 1)
    assert read(select_idle_worker=every) == ([Select(1, tags)], 1)


def test_a_recalled_group_is_the_selection_of_later_actions(game, reader):
    tags = _tags(game, "Marine")
    game.step([Select(1, tags), ControlGroup(1, 2, SET), Select(1, ())])
    reader.next_loop()
    recall = ui_pb2.ActionControlGroup(control_group_index=2, action=UI.Recall)
    action = sc2api_pb2.Action(action_ui=ui_pb2.ActionUI(control_group=recall))
    assert reader.read(action) == ([ControlGroup(1, 2, RECALL)], 1)
    assert reader.selection() == tags


def test_what_cannot_be_carried_out_is_refused_at_once(game, reader):
    tags = _tags(game, "Marine")
    stim = _raw(ability_id=380, tags=tags)
    assert reader.read(stim) == ([], action_results.TECH_REQUIREMENTS_NOT_MET)
    train = _raw(ability_id=524, tags=tags)
    assert reader.read(train) == ([], action_results.NOT_SUPPORTED)
    game.world.players["minerals"][1] = 10
    hall = _tags(game, "CommandCenter")
    train = _raw(ability_id=524, tags=hall)
    assert reader.read(train) == ([], action_results.NOT_ENOUGH_MINERALS)
