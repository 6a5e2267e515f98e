"""What observations report of a player's actions, in every interface."""

import pytest

from starmill.converters.protos import sc2api_pb2, spatial_pb2, ui_pb2
from starmill.engines.skirmish.observation import feature_layers
from starmill.engines.skirmish.server import action_reader, action_report, played_inputs
from starmill.engines.skirmish.simulation import action_results
from starmill.engines.skirmish.simulation.game import (
    SET,
    Autocast,
    CameraMove,
    CommandError,
    ControlGroup,
    Select,
    UnitCommand,
)
from tests.factories import arena

SCREEN, WIDTH = 64, 24.0
MOVE, ATTACK, ANY_ATTACK, SCAN_MOVE = 16, 23, 3674, 19
X, Y = arena.OPEN


@pytest.fixture
def game():
    game = arena.new_game()
    for index in range(2):
        arena.put(game, "Marine", 1, X + 2 * index, Y)
    arena.put(game, "Medivac", 1, X, Y + 3)
    arena.put(game, "Zergling", 2, X, Y + 6)
    arena.look(game)
    game.step([CameraMove(1, X, Y)])
    return game


def _layers(game, screen=SCREEN):
    return feature_layers.Layers(game, 1, (64, 64), (screen, screen), WIDTH)


def _tags(game, *kinds, player=1):
    rows = [row for kind in kinds for row in arena.rows_of(game, kind, player)]
    return tuple(arena.tag(game, row) for row in rows)


def _played(game, *items, origin=None, implied=False):
    return played_inputs.note(game, [(item, origin, implied) for item in items])


def _report(game, played, layers=None):
    return action_report.ActionReport(game, 1, layers).actions(played)


def test_raw_reports_read_back_as_the_same_inputs(game):
    tags = _tags(game, "Marine")
    inputs = [
        UnitCommand(1, MOVE, tags, target_point=(50.5, 40.25), queued=True),
        UnitCommand(1, ATTACK, tags, _tags(game, "Zergling", player=2)[0]),
        UnitCommand(1, 4, tags),
        Autocast(1, 31, tags),
        CameraMove(1, 50.5, 40.25),
        ControlGroup(1, 7, SET),
    ]
    reports = _report(game, _played(game, *inputs))
    assert [action.game_loop for action in reports] == [game.loop] * len(inputs)
    reader = action_reader.ActionReader(game, 1, _layers(game))
    assert [item for one in reports for item in reader.read(one)[0]] == inputs
    # The raw form has no selections.
    assert _report(game, _played(game, Select(1, tags))) == []


@pytest.mark.parametrize(
    ("kinds", "ability"),
    [
        (("Marine",), ATTACK),
        (("Medivac",), SCAN_MOVE),
        (("Medivac", "Marine"), SCAN_MOVE),
        (("Marine", "Medivac"), ATTACK),
    ],
)
def test_general_abilities_are_reported_as_the_first_units_own(game, kinds, ability):
    command = UnitCommand(1, ANY_ATTACK, _tags(game, *kinds), target_point=(X, Y))
    (action,) = _report(game, _played(game, command), _layers(game))
    assert action.action_raw.unit_command.ability_id == ability
    assert action.action_feature_layer.unit_command.ability_id == ability


def test_commands_are_reported_on_the_screen_or_on_the_minimap(game):
    tags = _tags(game, "Marine")
    layers = _layers(game)
    raster = layers.screen_raster()
    near = (raster.left + 20.5 / raster.scale[0], raster.top - 11.5 / raster.scale[1])
    commands = [
        UnitCommand(1, MOVE, tags, target_point=near),
        UnitCommand(1, MOVE, tags, target_point=(20.0, 20.0)),
        UnitCommand(1, 4, tags, queued=True),
    ]
    on_screen, on_minimap, without = (
        action.action_feature_layer.unit_command
        for action in _report(game, _played(game, *commands), layers)
    )
    pixel = on_screen.target_screen_coord
    assert (pixel.x, pixel.y) == (20, 11)
    pixel = on_minimap.target_minimap_coord
    assert (pixel.x, pixel.y) == (10, 53)  # of 120 cells on 64 pixels
    assert without.WhichOneof("target") is None
    assert without.queue_command


def test_the_camera_is_where_it_was_when_the_command_was_given(game):
    tags = _tags(game, "Marine")
    command = UnitCommand(1, MOVE, tags, target_point=(X + 20, Y))
    layers = _layers(game)
    played = _played(game, CameraMove(1, X + 20, Y), command)
    camera, action = _report(game, played, layers)
    assert camera.action_feature_layer.HasField("camera_move")
    pixel = action.action_feature_layer.unit_command.target_screen_coord
    assert (pixel.x, pixel.y) == (SCREEN // 2, SCREEN // 2)


def test_selections_of_a_replay_are_reported_as_clicks_rectangles_and_armies(game):
    layers = _layers(game)
    marines, army = _tags(game, "Marine"), _tags(game, "Marine", "Medivac")
    point, rectangle, everyone = _report(
        game,
        _played(game, Select(1, marines[:1]), Select(1, marines), Select(1, army)),
        layers,
    )
    assert point.action_feature_layer.HasField("unit_selection_point")
    (box,) = rectangle.action_feature_layer.unit_selection_rect.selection_screen_coord
    assert box.p0.x < box.p1.x
    assert everyone.action_ui.HasField("select_army")


def test_actions_on_the_screen_are_reported_as_they_were_given(game):
    tags = _tags(game, "Marine")
    origin = sc2api_pb2.Action()
    select = origin.action_feature_layer.unit_selection_point
    select.type = spatial_pb2.ActionSpatialUnitSelectionPoint.AllType
    select.selection_screen_coord.x = 5
    played = _played(game, Select(1, tags), origin=origin)
    (action,) = _report(game, played, _layers(game))
    assert action.action_feature_layer == origin.action_feature_layer
    panel = sc2api_pb2.Action(
        action_ui=ui_pb2.ActionUI(multi_panel=ui_pb2.ActionMultiPanel(unit_index=1))
    )
    played = _played(game, Select(1, tags), origin=panel)
    (action,) = _report(game, played, _layers(game))
    assert action.action_ui == panel.action_ui


def test_what_the_client_did_not_ask_for_is_not_reported(game):
    played = _played(game, Select(1, _tags(game, "Marine")), implied=True)
    assert _report(game, played, _layers(game)) == []


def test_a_screen_of_one_pixel_is_none(game):
    assert action_report.usable_layers(_layers(game, screen=1)) is None
    assert action_report.usable_layers(_layers(game)) is not None


def test_only_own_refusals_are_reported_and_unknown_codes_are_errors():
    refused = [
        CommandError(loop=5, player=1, ability_id=MOVE, tag=7, code=9),
        CommandError(loop=5, player=2, ability_id=MOVE, tag=8, code=9),
        CommandError(loop=5, player=1, ability_id=MOVE, tag=9, code=10**6),
    ]
    reports = action_report.reported_errors(refused, 1)
    assert [(r.unit_tag, r.result) for r in reports] == [
        (7, 9),
        (9, action_results.ERROR),
    ]
