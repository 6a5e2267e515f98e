"""Observations against a slow, obvious version, and the fog of war against the world."""

import numpy as np
import pytest

from starmill.converters.protos import raw_pb2, sc2api_pb2
from starmill.engines.skirmish.observation import (
    feature_layers,
    visible_units,
)
from starmill.engines.skirmish.observation.observer import Interface, Observer
from starmill.engines.skirmish.replays import reader
from starmill.engines.skirmish.server import replay_playback
from starmill.engines.skirmish.simulation import rules
from tests.factories import games


@pytest.fixture(scope="module")
def mid_game():
    again = replay_playback.ReplayPlayback(reader.read(games.played().replay), 1)
    again.step(1200)
    return again.game


def _observer(game, player=1, minimap=(128, 128), screen=(32, 24)):
    interface = Interface(
        score=True,
        show_cloaked=True,
        show_burrowed=True,
        show_placeholders=True,
        screen=screen,
        minimap=minimap,
    )
    return Observer(game, player, interface)


def _observe(game, player=1, **more):
    data = _observer(game, player).observation(**more)
    return sc2api_pb2.ResponseObservation.FromString(data)


def _slow_unit(game, seen, i, on_screen):
    """One Unit, field by field, straight from the protocol's notes."""
    unit, rule = seen.units[i], rules.unit_rules()[seen.units["unit_type"][i]]
    out = raw_pb2.Unit(
        display_type=int(seen.display[i]),
        alliance=int(seen.alliance[i]),
        tag=int(unit["tag"]),
        unit_type=int(unit["unit_type"]),
        owner=int(unit["owner"]),
        facing=unit["facing"],
        radius=unit["radius"],
        build_progress=unit["build_progress"],
        cloak=int(seen.cloak[i]),
        is_on_screen=bool(on_screen[i]),
        is_blip=bool(seen.blip[i]),
    )
    out.pos.x, out.pos.y, out.pos.z = unit["x"], unit["y"], unit["z"]
    mine = seen.alliance[i] == visible_units.ALLIANCE_SELF
    if mine:
        out.is_selected = bool(unit["selected"])
    if (
        seen.display[i] != visible_units.DISPLAY_VISIBLE
        or seen.cloak[i] == visible_units.CLOAKED
    ):
        return out
    _slow_known(out, game, seen, i, unit, rule)
    if mine:
        _slow_own(out, game, seen, i, unit, rule)
    return out


def _slow_known(out, game, seen, i, unit, rule):
    out.health, out.health_max = unit["health"], unit["health_max"]
    if unit["shield_max"] > 0:
        out.shield, out.shield_max = unit["shield"], unit["shield_max"]
    if unit["energy_max"] > 0:
        out.energy, out.energy_max = unit["energy"], unit["energy_max"]
    if rule["mineral_field"] and seen.alliance[i] == visible_units.ALLIANCE_NEUTRAL:
        out.mineral_contents = int(unit["minerals"])
    if rule["geyser"] or rule["gas_mine"]:
        out.vespene_contents = int(unit["vespene"])
    out.is_flying, out.is_burrowed = bool(unit["flying"]), bool(unit["burrowed"])
    out.is_powered, out.is_active = bool(unit["powered"]), bool(unit["active"])
    out.attack_upgrade_level = int(unit["attack_level"])
    out.armor_upgrade_level = int(unit["armor_level"])
    out.shield_upgrade_level = int(unit["shield_level"])
    buffs = game.world.buffs[seen.rows[i]][: unit["buff_count"]]
    out.buff_ids.extend(int(b) for b in buffs["id"])
    if rule["detects"] > 0 and unit["build_progress"] >= 1:
        out.detect_range = rule["detects"]


def _slow_orders(out, orders):
    for order in orders:
        item = out.orders.add(ability_id=int(order["ability"]))
        if order["target"] == 1:
            point = item.target_world_space_pos
            point.x, point.y, point.z = order["x"], order["y"], 0
        if order["target"] == 2:
            item.target_unit_tag = int(order["target_tag"])
        if order["progress"] > 0:
            item.progress = order["progress"]


def _slow_riders(out, riders):
    for inside in riders:
        passenger = out.passengers.add(
            tag=int(inside["tag"]),
            unit_type=int(inside["unit_type"]),
            health=inside["health"],
            health_max=inside["health_max"],
        )
        if inside["shield_max"] > 0:
            passenger.shield = inside["shield"]
            passenger.shield_max = inside["shield_max"]
        if inside["energy_max"] > 0:
            passenger.energy = inside["energy"]
            passenger.energy_max = inside["energy_max"]


def _slow_own(out, game, seen, i, unit, rule):
    world, row = game.world, seen.rows[i]
    _slow_orders(out, world.orders[row][: unit["order_count"]])
    if unit["addon"] >= 0:
        out.add_on_tag = int(world.units["tag"][unit["addon"]])
    _slow_riders(out, world.units[world.cargo[row][: unit["cargo_count"]]])
    if unit["cargo_max"] > 0:
        out.cargo_space_taken = int(unit["cargo_used"])
        out.cargo_space_max = int(unit["cargo_max"])
    if rule["town_hall"] or rule["gas_mine"]:
        out.assigned_harvesters = int(unit["assigned"])
        out.ideal_harvesters = int(unit["ideal"])
    out.weapon_cooldown = max(unit["cooldown"], 0)
    if unit["engaged"]:
        out.engaged_target_tag = int(unit["engaged"])
    out.is_hallucination = bool(unit["hallucination"])
    if unit["buff_max"] > 0:
        out.buff_duration_remain = int(unit["buff_remain"])
        out.buff_duration_max = int(unit["buff_max"])
    if unit["rally_kind"] > 0:
        rally = out.rally_targets.add()
        rally.point.x, rally.point.y = unit["rally_x"], unit["rally_y"]
        rally.point.z = 0
        if unit["rally_tag"]:
            rally.tag = int(unit["rally_tag"])


@pytest.mark.parametrize("player", [1, 2])
@pytest.mark.parametrize("fog", [True, False])
def test_units_equal_those_set_field_by_field(mid_game, player, fog):
    seen = visible_units.player_view(mid_game, player, disable_fog=not fog)
    pictures = feature_layers.Layers(mid_game, player, (128, 128), (1, 1), 24.0)
    on_screen = pictures.on_screen(seen)
    expected = [
        _slow_unit(mid_game, seen, i, on_screen) for i in range(len(seen.units))
    ]
    observer = Observer(mid_game, player, Interface())
    fast = observer._units(seen, on_screen)
    parsed = raw_pb2.ObservationRaw.FromString(fast).units
    assert len(parsed) > 30
    for actual, want in zip(parsed, expected, strict=True):
        assert actual == want
    assert any(unit.orders for unit in parsed)


def test_the_fog_hides_what_is_out_of_sight(mid_game):
    shown = _observe(mid_game).observation.raw_data.units
    enemies = [
        u
        for u in shown
        if u.alliance == visible_units.ALLIANCE_ENEMY and u.display_type == 1
    ]
    visible = mid_game.world.visibility[1]
    for unit in enemies:
        assert visible[int(unit.pos.y), int(unit.pos.x)] > 0
    everything = _observe(mid_game, disable_fog=True).observation.raw_data.units
    mine = [u for u in everything if u.alliance == visible_units.ALLIANCE_SELF]
    theirs = [u for u in everything if u.alliance == visible_units.ALLIANCE_ENEMY]
    assert mine and theirs
    assert len(theirs) > len(enemies)


def test_the_minimap_has_north_on_top_and_units_where_they_are(mid_game):
    seen = _observe(mid_game)
    planes = seen.observation.feature_layer_data.minimap_renders

    def plane(name, dtype):
        image = getattr(planes, name)
        data = np.frombuffer(image.data, dtype)
        if image.bits_per_pixel == 1:
            data = np.unpackbits(data)
        return data.reshape(image.size.y, image.size.x)

    relative = plane("player_relative", np.uint8)
    hall = next(
        u
        for u in seen.observation.raw_data.units
        if u.alliance == visible_units.ALLIANCE_SELF
        and rules.unit_rules()["town_hall"][u.unit_type]
    )
    height, width = mid_game.map.height, mid_game.map.width
    scale = 128 / max(height, width)
    row, column = int((height - hall.pos.y) * scale), int(hall.pos.x * scale)
    assert relative[row, column] == visible_units.ALLIANCE_SELF
    visibility = plane("visibility_map", np.uint8)
    assert visibility[row, column] == 2
    assert visibility.min() == 0
    assert plane("pathable", np.uint8)[row, column] == 0
    terrain = plane("height_map", np.uint8)
    cell = mid_game.map.terrain[int(hall.pos.y), int(hall.pos.x)]
    assert terrain[row, column] == cell
    camera = plane("camera", np.uint8)
    assert 0 < camera.sum() < camera.size / 4


def _slow_planes(game, seen, shown, raster, planes):
    """Paints the screen's unit planes pixel by pixel, in Python."""
    height, width = raster.size[1], raster.size[0]
    out = {name: np.zeros((height, width), np.int64) for name in planes}
    for i in np.flatnonzero(shown):
        unit = seen.units[i]
        known = (
            seen.display[i] == visible_units.DISPLAY_VISIBLE
            and seen.cloak[i] != visible_units.CLOAKED
        )
        values = {
            "player_id": unit["owner"],
            "player_relative": seen.alliance[i],
            "selected": unit["selected"],
            "unit_type": unit["unit_type"],
            "unit_hit_points": int(unit["health"]) if known else 0,
            "unit_shields": int(unit["shield"]) if known else 0,
            "unit_hit_points_ratio": int(
                255 * unit["health"] / max(unit["health_max"], 1)
            )
            if known
            else 0,
            "cloaked": unit["cloaked"] != 0,
            "active": known and unit["active"] != 0,
            "build_progress": int(255 * unit["build_progress"]),
            "placeholder": seen.display[i] == visible_units.DISPLAY_PLACEHOLDER,
        }
        column = int(np.floor((unit["x"] - raster.left) * raster.scale[0]))
        row = int(np.floor((raster.top - unit["y"]) * raster.scale[1]))
        reach = int(np.floor(unit["radius"] * raster.scale[0]))
        for y in range(max(row - reach, 0), min(row + reach + 1, height)):
            for x in range(max(column - reach, 0), min(column + reach + 1, width)):
                out["unit_density"][y, x] += 1
                for name, value in values.items():
                    out[name][y, x] = value
    return out


@pytest.mark.parametrize("player", [1, 2])
def test_the_screen_shows_units_as_painted_one_by_one(mid_game, player):
    camera = mid_game.world.players[player]
    before = camera["camera_x"], camera["camera_y"]
    start = mid_game.map.starts[mid_game.players[player - 1].start]
    camera["camera_x"], camera["camera_y"] = start
    pictures = feature_layers.Layers(mid_game, player, (64, 64), (32, 24), 24.0)
    seen = visible_units.player_view(mid_game, player)
    shown = pictures.on_screen(seen)
    assert shown.sum() > 5
    screen = _observe(mid_game, player).observation.feature_layer_data.renders
    raster = pictures.screen_raster()
    camera["camera_x"], camera["camera_y"] = before
    names = [
        *("player_id", "player_relative", "selected", "unit_type", "unit_hit_points"),
        *("unit_shields", "unit_hit_points_ratio", "cloaked", "active"),
        *("build_progress", "placeholder", "unit_density"),
    ]
    expected = _slow_planes(mid_game, seen, shown, raster, names)
    for name in names:
        image = getattr(screen, name)
        dtype = np.int32 if image.bits_per_pixel == 32 else np.uint8
        data = np.frombuffer(image.data, dtype)
        if image.bits_per_pixel == 1:
            data = np.unpackbits(data)
        np.testing.assert_array_equal(
            data.reshape(24, 32), expected[name], err_msg=name
        )
    assert expected["unit_density"].max() > 0


def test_screen_planes_have_the_size_asked_for(mid_game):
    screen = _observe(mid_game).observation.feature_layer_data.renders
    for name, (_, bits) in feature_layers.SCREEN_PLANES.items():
        image = getattr(screen, name)
        assert (image.size.x, image.size.y) == (32, 24), name
        assert image.bits_per_pixel == bits
        assert len(image.data) == -(-32 * 24 * bits // 8)


def test_player_numbers_are_those_of_the_world(mid_game):
    for player in (1, 2):
        common = _observe(mid_game, player).observation.player_common
        state = mid_game.world.players[player]
        assert common.minerals == state["minerals"]
        assert common.food_used == state["food_used_halves"] // 2
        assert common.larva_count == state["larva_count"]


def test_observing_changes_nothing(mid_game):
    before = mid_game.state_digest()
    first = _observer(mid_game).observation()
    assert first == _observer(mid_game).observation()
    assert mid_game.state_digest() == before
