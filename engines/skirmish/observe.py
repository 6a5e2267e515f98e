"""Observations: the game as one player sees it, as the bytes of a ResponseObservation.

In: a game, a player, the interface options. Out: wire bytes. The many rows (units, orders,
passengers) are written from columns, the few singular fields through the message classes.
Which fields are set follows the protocol's own notes: enemies have no orders, snapshots have no
health, and so on.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.converters.protos import common_pb2, raw_pb2, sc2api_pb2, score_pb2
from starmill.engines.skirmish import game as game_lib
from starmill.engines.skirmish import layers, rules, view, wire_writer
from starmill.engines.skirmish import world as world_lib

# Field numbers of the messages that are written by hand.
_OBSERVATION = 3  # ResponseObservation.observation
_RAW_DATA, _FEATURE_LAYERS = 5, 6  # of Observation
_UNITS = 2  # ObservationRaw.units
_CAMERA_WIDTH = 24.0  # world units, the real game's default
_MAX_SIDE = 512  # pixels of a plane, world units of the camera
_ALERT_LOOPS = 2  # an alert is reported with the first observations after it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interface:
    """What the client asked to see. width: of the camera in world units; sizes are (x, y)."""

    raw: bool = True
    score: bool = False
    show_cloaked: bool = False
    show_burrowed: bool = False
    show_placeholders: bool = False
    screen: tuple[int, int] | None = None
    minimap: tuple[int, int] | None = None
    width: float = _CAMERA_WIDTH

    @classmethod
    def from_options(cls, options: sc2api_pb2.InterfaceOptions) -> "Interface":
        """Returns the interface that a request's options ask for.

        Layers of no size, or of an absurd one, are not shown at all.
        """
        layer = options.feature_layer
        sizes = (layer.resolution, layer.minimap_resolution)
        usable = all(
            0 < size.x <= _MAX_SIDE and 0 < size.y <= _MAX_SIDE for size in sizes
        )
        shown = options.HasField("feature_layer") and usable
        width = layer.width if 1.0 <= layer.width <= _MAX_SIDE else _CAMERA_WIDTH
        return cls(
            raw=options.raw,
            score=options.score,
            show_cloaked=options.show_cloaked,
            show_burrowed=options.show_burrowed_shadows,
            show_placeholders=options.show_placeholders,
            screen=(sizes[0].x, sizes[0].y) if shown else None,
            minimap=(sizes[1].x, sizes[1].y) if shown else None,
            width=width,
        )


class Observer:
    """Writes one player's observations of one game. Keeps what does not change."""

    def __init__(self, game: game_lib.Game, player: int, interface: Interface) -> None:
        self._game = game
        self._player = player
        self._interface = interface
        self._layers = layers.Layers(
            game, player, interface.minimap, interface.screen, interface.width
        )

    def observation(
        self,
        *,
        disable_fog: bool = False,
        actions: Sequence[sc2api_pb2.Action] = (),
        action_errors: Sequence[sc2api_pb2.ActionError] = (),
        chat: Sequence[sc2api_pb2.ChatReceived] = (),
        dead: Sequence[int] = (),
        results: Sequence[sc2api_pb2.PlayerResult] = (),
        ui: bytes = b"",
        abilities: Sequence[common_pb2.AvailableAbility] = (),
    ) -> bytes:
        """Returns a ResponseObservation of the game as it stands."""
        seen = view.player_view(
            self._game,
            self._player,
            disable_fog=disable_fog or self._sees_all,
            show_cloaked=self._interface.show_cloaked,
            show_burrowed=self._interface.show_burrowed,
            show_placeholders=self._interface.show_placeholders,
        )
        head = sc2api_pb2.Observation(
            game_loop=self._game.loop,
            player_common=self._common(),
            alerts=self._alerts(),
            abilities=abilities,
        )
        if self._interface.score:
            head.score.CopyFrom(self._score())
        body = head.SerializeToString() + ui
        if self._interface.raw:
            body += wire_writer.field(_RAW_DATA, self._raw(seen, dead))
        if self._interface.minimap is not None:
            body += wire_writer.field(_FEATURE_LAYERS, self._layers.serialized(seen))
        response = sc2api_pb2.ResponseObservation(
            actions=actions,
            action_errors=action_errors,
            chat=chat,
            player_result=results,
        )
        return response.SerializeToString() + wire_writer.field(_OBSERVATION, body)

    @property
    def _sees_all(self) -> bool:
        return bool(self._game.world.players[self._player]["all_visible"])

    def _common(self) -> sc2api_pb2.PlayerCommon:
        state = self._game.world.players[self._player]
        return sc2api_pb2.PlayerCommon(
            player_id=self._player,
            minerals=max(int(state["minerals"]), 0),
            vespene=max(int(state["vespene"]), 0),
            food_cap=int(state["food_cap"]),
            food_used=int(state["food_used_halves"]) // 2,
            food_army=int(state["food_army_halves"]) // 2,
            food_workers=int(state["food_workers_halves"]) // 2,
            idle_worker_count=int(state["idle_worker_count"]),
            army_count=int(state["army_count"]),
            warp_gate_count=int(state["warp_gate_count"]),
            larva_count=int(state["larva_count"]),
        )

    def _alerts(self) -> list[Any]:
        alerts = self._game.world.alerts[self._player]
        recent = alerts["loop"] > self._game.loop - _ALERT_LOOPS
        return sorted({int(kind) for kind in alerts["kind"][recent] if kind > 0})

    def _score(self) -> score_pb2.Score:
        state = self._game.world.players[self._player]
        details = score_pb2.ScoreDetails(
            idle_production_time=float(state["idle_production_loops"]),
            idle_worker_time=float(state["idle_worker_loops"]),
            killed_value_units=float(
                state["killed_minerals"] + state["killed_vespene"]
            ),
            collected_minerals=float(state["collected_minerals"]),
            collected_vespene=float(state["collected_vespene"]),
            spent_minerals=float(state["spent_minerals"]),
            spent_vespene=float(state["spent_vespene"]),
        )
        total = int(state["collected_minerals"]) + int(state["collected_vespene"])
        total += int(state["killed_minerals"]) + int(state["killed_vespene"])
        return score_pb2.Score(
            score_type=score_pb2.Score.Melee, score=total, score_details=details
        )

    def _raw(self, seen: view.View, dead: Sequence[int]) -> bytes:
        world, player = self._game.world, self._player
        camera = world.players[player]
        raw = raw_pb2.ObservationRaw(
            player=raw_pb2.PlayerRaw(
                camera=common_pb2.Point(
                    x=camera["camera_x"], y=camera["camera_y"], z=0.0
                ),
                upgrade_ids=np.flatnonzero(world.upgrades[player]).tolist(),
                power_sources=self._power_sources(seen),
            ),
            map_state=self._layers.map_state(),
            effects=self._effects(),
        )
        if len(dead):
            raw.event.dead_units.extend(dead)
        units = unit_columns(self._game, seen, self._layers.on_screen(seen))
        return raw.SerializeToString() + units.serialized(_UNITS)

    def _power_sources(self, seen: view.View) -> list[raw_pb2.PowerSource]:
        units = seen.units
        radius = rules.unit_rules()["power"][units["unit_type"]]
        gives = (radius > 0) & (seen.alliance == view.SELF)
        gives &= (units["build_progress"] >= 1.0) & (seen.display == view.VISIBLE)
        return [
            raw_pb2.PowerSource(
                pos=common_pb2.Point(x=units["x"][i], y=units["y"][i], z=units["z"][i]),
                radius=radius[i],
                tag=int(units["tag"][i]),
            )
            for i in np.flatnonzero(gives)
        ]

    def _effects(self) -> list[raw_pb2.Effect]:
        world, player = self._game.world, self._player
        effects = world.effects[world.effects["alive"] == 1]
        found = []
        for effect in effects:
            owner = int(effect["owner"])
            x, y = float(effect["x"]), float(effect["y"])
            if owner != player and not self._sees_all and not self._layers.sees(x, y):
                continue
            alliance: Any = view.SELF if owner == player else view.ENEMY
            found.append(
                raw_pb2.Effect(
                    effect_id=int(effect["id"]),
                    pos=[common_pb2.Point2D(x=x, y=y)],
                    alliance=alliance,
                    owner=owner,
                    radius=float(effect["radius"]),
                )
            )
        return found


def unit_columns(
    game: game_lib.Game, seen: view.View, on_screen: NDArray[np.bool_]
) -> wire_writer.MessageColumns:
    """Returns the Unit messages of a view, as columns in ascending field order."""
    units = seen.units
    traits = rules.unit_rules()[units["unit_type"]]
    out = wire_writer.MessageColumns(len(units))
    mine = seen.alliance == view.SELF
    neutral = seen.alliance == view.NEUTRAL
    known = (seen.display == view.VISIBLE) & (seen.cloak != view.CLOAKED)
    own = mine & (seen.display == view.VISIBLE)
    live = known & (units["build_progress"] >= 1.0)
    out.varints(1, seen.display)
    out.varints(2, seen.alliance)
    out.varints(3, units["tag"])
    out.varints(4, units["unit_type"])
    out.varints(5, units["owner"])
    out.points(6, [units["x"], units["y"], units["z"]])
    out.floats(7, units["facing"])
    out.floats(8, units["radius"])
    out.floats(9, units["build_progress"])
    out.varints(10, seen.cloak)
    out.varints(11, units["selected"] == 1, mine)
    out.varints(12, on_screen)
    out.varints(13, seen.blip)
    out.floats(14, units["health"], known)
    out.floats(15, units["health_max"], known)
    out.floats(16, units["shield"], known & (units["shield_max"] > 0))
    out.floats(17, units["energy"], known & (units["energy_max"] > 0))
    out.varints(18, units["minerals"], known & neutral & (traits["mineral_field"] == 1))
    gas = (traits["geyser"] == 1) | (traits["gas_mine"] == 1)
    out.varints(19, units["vespene"], known & gas)
    out.varints(20, units["flying"], known)
    out.varints(21, units["burrowed"], known)
    _add_orders(out, game, seen, own)
    _add_add_ons(out, game, seen, own)
    _add_passengers(out, game, seen, own)
    out.varints(25, units["cargo_used"], own & (units["cargo_max"] > 0))
    out.varints(26, units["cargo_max"], own & (units["cargo_max"] > 0))
    _add_buffs(out, game, seen, known)
    gathers = own & ((traits["town_hall"] == 1) | (traits["gas_mine"] == 1))
    out.varints(28, units["assigned"], gathers)
    out.varints(29, units["ideal"], gathers)
    out.floats(30, np.maximum(units["cooldown"], 0.0), own)
    out.floats(31, traits["detects"], live & (traits["detects"] > 0))
    out.varints(34, units["engaged"], own & (units["engaged"] != 0))
    out.varints(35, units["powered"] == 1, known)
    out.floats(36, units["shield_max"], known & (units["shield_max"] > 0))
    out.floats(37, units["energy_max"], known & (units["energy_max"] > 0))
    out.varints(38, units["hallucination"], own)
    out.varints(39, units["active"], known)
    out.varints(40, units["attack_level"], known)
    out.varints(41, units["armor_level"], known)
    out.varints(42, units["shield_level"], known)
    out.varints(43, units["buff_remain"], own & (units["buff_max"] > 0))
    out.varints(44, units["buff_max"], own & (units["buff_max"] > 0))
    _add_rally(out, seen, own)
    return out


def _add_orders(
    out: wire_writer.MessageColumns,
    game: game_lib.Game,
    seen: view.View,
    own: NDArray[np.bool_],
) -> None:
    counts = np.where(own, seen.units["order_count"], 0)
    rows, slots = np.nonzero(np.arange(world_lib.MAX_ORDERS) < counts[:, None])
    orders = game.world.orders[seen.rows[rows], slots]
    children = wire_writer.MessageColumns(len(orders))
    children.varints(1, orders["ability"])
    z = np.zeros(len(orders))
    children.points(2, [orders["x"], orders["y"], z], orders["target"] == 1)
    children.varints(3, orders["target_tag"], orders["target"] == 2)
    children.floats(4, orders["progress"], orders["progress"] > 0)
    out.repeated(22, rows, slots, children)


def _add_add_ons(
    out: wire_writer.MessageColumns,
    game: game_lib.Game,
    seen: view.View,
    own: NDArray[np.bool_],
) -> None:
    add_on = seen.units["addon"]
    tags = game.world.units["tag"][np.maximum(add_on, 0)]
    out.varints(23, tags, own & (add_on >= 0))


def _add_passengers(
    out: wire_writer.MessageColumns,
    game: game_lib.Game,
    seen: view.View,
    own: NDArray[np.bool_],
) -> None:
    counts = np.where(own, seen.units["cargo_count"], 0)
    rows, slots = np.nonzero(np.arange(world_lib.MAX_CARGO) < counts[:, None])
    inside = game.world.units[game.world.cargo[seen.rows[rows], slots]]
    children = wire_writer.MessageColumns(len(inside))
    children.varints(1, inside["tag"])
    children.floats(2, inside["health"])
    children.floats(3, inside["health_max"])
    children.floats(4, inside["shield"], inside["shield_max"] > 0)
    children.floats(5, inside["energy"], inside["energy_max"] > 0)
    children.varints(6, inside["unit_type"])
    children.floats(7, inside["shield_max"], inside["shield_max"] > 0)
    children.floats(8, inside["energy_max"], inside["energy_max"] > 0)
    out.repeated(24, rows, slots, children)


def _add_buffs(
    out: wire_writer.MessageColumns,
    game: game_lib.Game,
    seen: view.View,
    known: NDArray[np.bool_],
) -> None:
    counts = np.where(known, seen.units["buff_count"], 0).astype(np.int64)
    buffs = game.world.buffs["id"][np.maximum(seen.rows, 0)].astype(np.int64)
    out.repeated_varints(27, buffs, counts)


def _add_rally(
    out: wire_writer.MessageColumns, seen: view.View, own: NDArray[np.bool_]
) -> None:
    units = seen.units
    rows = np.flatnonzero(own & (units["rally_kind"] > 0))
    children = wire_writer.MessageColumns(len(rows))
    where = [units["rally_x"][rows], units["rally_y"][rows], np.zeros(len(rows))]
    children.points(1, where)
    tags = units["rally_tag"][rows]
    children.varints(2, tags, tags != 0)
    out.repeated(45, rows, np.zeros(len(rows), np.intp), children)
