"""Observations: the game as one player sees it, as the bytes of a ResponseObservation.

In: a game, a player, and what the client asked to see. Out: wire bytes. Kernels in `unit_messages`
and `plane_painting` write units and planes; the few other fields go through message classes.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.converters.protos import common_pb2, raw_pb2, sc2api_pb2
from starmill.engines.skirmish.observation import (
    feature_layers,
    score_message,
    unit_messages,
    visible_units,
)
from starmill.engines.skirmish.observation.visible_units import View
from starmill.engines.skirmish.simulation import rules
from starmill.engines.skirmish.simulation.game import Game
from starmill.schema import protobuf

_OBSERVATION = 3  # field of ResponseObservation
_RAW_DATA, _FEATURE_LAYERS = 5, 6  # fields of Observation
_UNITS, _MAP_STATE = 2, 3  # fields of ObservationRaw
_CAMERA_WIDTH = 24.0  # world units, the real game's default
_MAX_SIDE = 512  # of a plane in pixels, of the camera in world units
_ALERT_LOOPS = 2  # for so long observations report an alert


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interface:
    """What the client asked to see.

    Attributes:
        raw: the raw interface's units, effects and map state.
        score: the score.
        show_cloaked: list enemies that are cloaked and not detected.
        show_burrowed: list enemies that are burrowed and not detected.
        show_placeholders: list buildings that workers are on their way to.
        screen: (x, y) in pixels of the screen's planes, None for none.
        minimap: (x, y) in pixels of the minimap's planes, None for none.
        camera_width: in world units; meaningless without a screen.
    """

    raw: bool = True
    score: bool = False
    show_cloaked: bool = False
    show_burrowed: bool = False
    show_placeholders: bool = False
    screen: tuple[int, int] | None = None
    minimap: tuple[int, int] | None = None
    camera_width: float = _CAMERA_WIDTH

    @classmethod
    def from_options(cls, options: sc2api_pb2.InterfaceOptions) -> "Interface":
        """Returns the interface that a request's options ask for.

        If a size of the feature layers is 0 or more than 512, there are no feature layers.
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
            camera_width=width,
        )


class Observer:
    """Writes one player's observations of one game, and keeps what all of them share."""

    def __init__(self, game: Game, player: int, interface: Interface) -> None:
        self._game = game
        self._player = player
        self._interface = interface
        self._layers = feature_layers.Layers(
            game, player, interface.minimap, interface.screen, interface.camera_width
        )
        self._buffer = np.empty(0, np.uint8)

    def observation(
        self,
        *,
        disable_fog: bool = False,
        list_hidden: bool = False,
        actions: Sequence[sc2api_pb2.Action] = (),
        action_errors: Sequence[sc2api_pb2.ActionError] = (),
        chat: Sequence[sc2api_pb2.ChatReceived] = (),
        dead: Sequence[int] = (),
        results: Sequence[sc2api_pb2.PlayerResult] = (),
        ui: bytes = b"",
        abilities: Sequence[common_pb2.AvailableAbility] = (),
    ) -> bytes:
        """Returns the bytes of a ResponseObservation of the game as it stands.

        Args:
            disable_fog: see everything that is alive.
            list_hidden: list what is out of sight, without details.
            actions: the player's actions since the last observation.
            action_errors: commands refused since then.
            chat: messages received since then.
            dead: tags of the units that died since then.
            results: of all players, once the game has ended.
            ui: a serialized field `ui_data` of Observation, or nothing.
            abilities: what the selection can do.
        """
        view = visible_units.player_view(
            self._game,
            self._player,
            disable_fog=disable_fog or self._sees_all,
            list_hidden=list_hidden,
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
            head.score.CopyFrom(score_message.score(self._game, self._player))
        on_screen = self._layers.on_screen(view)
        body = [head.SerializeToString(), ui]
        if self._interface.raw:
            body += protobuf.bytes_field_parts(
                _RAW_DATA, self._raw(view, on_screen, dead)
            )
        if self._interface.minimap is not None:
            planes = self._layers.serialized(view, on_screen)
            body += protobuf.bytes_field_parts(_FEATURE_LAYERS, planes)
        response = sc2api_pb2.ResponseObservation(
            actions=actions,
            action_errors=action_errors,
            chat=chat,
            player_result=results,
        )
        return b"".join(
            [
                response.SerializeToString(),
                *protobuf.bytes_field_parts(_OBSERVATION, body),
            ]
        )

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

    def _raw(
        self,
        view: View,
        on_screen: NDArray[np.bool_],
        dead: Sequence[int],
    ) -> list[bytes]:
        world, player = self._game.world, self._player
        camera = world.players[player]
        raw = raw_pb2.ObservationRaw(
            player=raw_pb2.PlayerRaw(
                camera=common_pb2.Point(
                    x=camera["camera_x"], y=camera["camera_y"], z=0.0
                ),
                upgrade_ids=np.flatnonzero(world.upgrades[player]).tolist(),
                power_sources=self._power_sources(view),
            ),
            effects=self._effects(),
        )
        if len(dead):
            raw.event.dead_units.extend(dead)
        return [
            raw.SerializeToString(),
            self._units(view, on_screen),
            *protobuf.bytes_field_parts(_MAP_STATE, [self._layers.map_state()]),
        ]

    def _power_sources(self, view: View) -> list[raw_pb2.PowerSource]:
        """Returns the player's finished pylons and warp prisms that give power."""
        units = view.units
        radius = rules.unit_rules()["power"][units["unit_type"]]
        gives = (radius > 0) & (view.alliance == visible_units.ALLIANCE_SELF)
        gives &= units["build_progress"] >= 1.0
        gives &= view.display == visible_units.DISPLAY_VISIBLE
        return [
            raw_pb2.PowerSource(
                pos=common_pb2.Point(x=units["x"][i], y=units["y"][i], z=units["z"][i]),
                radius=radius[i],
                tag=int(units["tag"][i]),
            )
            for i in np.flatnonzero(gives)
        ]

    def _effects(self) -> list[raw_pb2.Effect]:
        """Returns the area effects that the player owns or sees."""
        world, player = self._game.world, self._player
        effects = world.effects[world.effects["alive"] == 1]
        visible = []
        for effect in effects:
            owner = int(effect["owner"])
            x, y = float(effect["x"]), float(effect["y"])
            if owner != player and not self._sees_all and not self._layers.sees(x, y):
                continue
            alliance: Any = (
                visible_units.ALLIANCE_SELF
                if owner == player
                else visible_units.ALLIANCE_ENEMY
            )
            visible.append(
                raw_pb2.Effect(
                    effect_id=int(effect["id"]),
                    pos=[common_pb2.Point2D(x=x, y=y)],
                    alliance=alliance,
                    owner=owner,
                    radius=float(effect["radius"]),
                )
            )
        return visible

    def _units(self, view: View, on_screen: NDArray[np.bool_]) -> bytes:
        """Returns the units of a view as ObservationRaw's field `units`."""
        room = len(view.units) * unit_messages.MAX_UNIT_BYTES
        if len(self._buffer) < room:
            self._buffer = np.empty(2 * room, np.uint8)
        size = unit_messages.write_units(
            self._game.world.state,
            view,
            on_screen,
            _UNITS,
            self._buffer,
        )
        return self._buffer[:size].tobytes()
