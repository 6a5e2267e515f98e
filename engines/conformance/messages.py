"""What must be true of each observation of a replay, on its own and after the one before.

In: the observations of one player in order, as the game sent them. Out: entries in the ledger.
Computes with the protocol's messages and plain numpy: the converter, whose assumptions are
checked here, is not used.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.converters.protos import raw_pb2, sc2api_pb2
from starmill.engines.conformance.ledger import Ledger
from starmill.schema import vocab
from starmill.schema.settings import ConverterSettings

_PLANES = (
    "height_map",
    "visibility_map",
    "creep",
    "player_relative",
    "alerts",
    "pathable",
    "buildable",
)
_BITS = (1, 8)
_VISIBLE_PIXEL, _OWN_PIXEL = 2, 1
_FOG_TOLERANCE_CELLS, _CAMERA_TOLERANCE_CELLS = 2.0, 2.0
# Units can overlap in a pixel, and the camera can be moved twice between two observations.
_MOST = 0.9


@dataclasses.dataclass
class _Share:
    """How many of the cases agree, over a whole playback.

    Attributes:
        agreeing: cases that agree.
        cases: all cases.
    """

    agreeing: int = 0
    cases: int = 0

    def add(self, agrees: bool) -> None:
        self.agreeing += agrees
        self.cases += 1


class ObservationChecks:
    """Checks the observations of one player of one replay."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        player_id: int,
        game_info: bytes,
        settings: ConverterSettings,
    ) -> None:
        info = sc2api_pb2.ResponseGameInfo.FromString(game_info)
        self._ledger = ledger
        self._player_id = player_id
        self._size = (info.start_raw.map_size.x, info.start_raw.map_size.y)
        self._side = settings.minimap[0]
        self._previous_loop = 0
        self._previous_actions: list[bytes] = []
        self._on_minimap, self._camera = _Share(), _Share()

    def check(self, message: sc2api_pb2.ResponseObservation) -> None:
        """Checks the next observation."""
        observation = message.observation
        self._check_player(observation)
        self._check_ids(observation.raw_data)
        if self._check_planes(observation):
            self._check_places(observation)
        self._check_actions(message)
        self._previous_loop = observation.game_loop

    def finish(self) -> None:
        """Checks what holds of most cases only."""
        for name, share, text in (
            ("geometry.minimap", self._on_minimap, "own units are in their pixel"),
            ("geometry.camera_follows", self._camera, "moves lead to their target"),
        ):
            if share.cases:
                self._ledger.expect(
                    name,
                    share.agreeing >= _MOST * share.cases,
                    f"player {self._player_id}: {share.agreeing} of {share.cases} {text}",
                )

    def _check_player(self, observation: sc2api_pb2.Observation) -> None:
        player_id = observation.player_common.player_id
        self._ledger.expect(
            "start.player",
            player_id == self._player_id,
            f"loop {observation.game_loop}: expected player {self._player_id}, "
            f"found {player_id}",
        )
        camera = observation.raw_data.player.camera
        width, height = self._size
        self._ledger.expect(
            "geometry.camera",
            observation.raw_data.player.HasField("camera")
            and 0 <= camera.x <= width
            and 0 <= camera.y <= height,
            f"loop {observation.game_loop}: expected a camera on the map of "
            f"{width} x {height}, found ({camera.x:g}, {camera.y:g})",
        )

    def _check_ids(self, raw: raw_pb2.ObservationRaw) -> None:
        for table, values in (
            ("unit_types", [unit.unit_type for unit in raw.units]),
            ("buffs", [buff for unit in raw.units for buff in unit.buff_ids]),
            ("upgrades", list(raw.player.upgrade_ids)),
        ):
            unknown = sorted(set(values) - _known_ids(table))
            self._ledger.expect(
                "ids.known", not unknown, f"{table}: unknown ids {unknown[:20]}"
            )

    def _check_planes(self, observation: sc2api_pb2.Observation) -> bool:
        renders = observation.feature_layer_data.minimap_renders
        problems = []
        for name in _PLANES:
            plane = getattr(renders, name)
            pixels = plane.size.x * plane.size.y
            is_good = (
                (plane.size.x, plane.size.y) == (self._side, self._side)
                and plane.bits_per_pixel in _BITS
                and len(plane.data) * 8 == plane.bits_per_pixel * pixels
            )
            if not is_good:
                problems.append(
                    f"{name} is {plane.size.x} x {plane.size.y} with "
                    f"{plane.bits_per_pixel} bits in {len(plane.data)} bytes"
                )
        return self._ledger.expect(
            "geometry.planes",
            not problems,
            f"loop {observation.game_loop}: expected {self._side} x {self._side} "
            f"pixels; {'; '.join(problems)}",
        )

    def _check_places(self, observation: sc2api_pb2.Observation) -> None:
        renders = observation.feature_layer_data.minimap_renders
        if min(self._size) <= 0:
            return
        visible = _pixels(renders.visibility_map) == _VISIBLE_PIXEL
        own = _pixels(renders.player_relative) == _OWN_PIXEL
        for unit in observation.raw_data.units:
            if unit.display_type != raw_pb2.Visible:
                continue
            if unit.alliance == raw_pb2.Self:
                self._on_minimap.add(self._is_near(own, unit, 0.0))
            elif unit.alliance == raw_pb2.Enemy:
                reach = unit.radius + _FOG_TOLERANCE_CELLS
                self._ledger.expect(
                    "start.fog",
                    self._is_near(visible, unit, reach),
                    f"loop {observation.game_loop}: an enemy of type {unit.unit_type} is "
                    f"visible at ({unit.pos.x:g}, {unit.pos.y:g}), where the "
                    "visibility plane is dark",
                )

    def _is_near(
        self, plane: NDArray[np.bool_], unit: raw_pb2.Unit, cells: float
    ) -> bool:
        """Returns whether a pixel is set around the unit; one pixel further always counts."""
        width, height = self._size
        scale = self._side / max(width, height)
        column, row = int(unit.pos.x * scale), int((height - unit.pos.y) * scale)
        reach = int(np.ceil(cells * scale)) + 1
        window = plane[
            max(0, row - reach) : row + reach + 1,
            max(0, column - reach) : column + reach + 1,
        ]
        return bool(window.any())

    def _check_actions(self, message: sc2api_pb2.ResponseObservation) -> None:
        loop = message.observation.game_loop
        low = self._previous_loop
        for action in message.actions:
            if not action.HasField("game_loop"):
                self._ledger.skip(["actions.window"], "actions carry no game loop")
                continue
            self._ledger.expect(
                "actions.window",
                low <= action.game_loop < loop,
                f"the observation of loop {loop}, after one of loop {low}, reports an "
                f"action of loop {action.game_loop}",
            )
        actions = [action.SerializeToString() for action in message.actions]
        if actions:
            self._ledger.expect(
                "actions.once",
                actions != self._previous_actions,
                f"the observations of loops {low} and {loop} report the same "
                f"{len(actions)} actions",
            )
        self._previous_actions = actions
        self._check_camera_move(message)

    def _check_camera_move(self, message: sc2api_pb2.ResponseObservation) -> None:
        targets = [
            action.action_raw.camera_move.center_world_space
            for action in message.actions
            if action.action_raw.HasField("camera_move")
        ]
        if targets:
            camera = message.observation.raw_data.player.camera
            distance = max(abs(camera.x - targets[-1].x), abs(camera.y - targets[-1].y))
            self._camera.add(distance <= _CAMERA_TOLERANCE_CELLS)


@functools.cache
def _known_ids(table: str) -> frozenset[int]:
    dense = vocab.raw_to_dense(table)
    return frozenset(int(index) for index in np.nonzero(dense != vocab.MISSING)[0])


def _pixels(plane: Any) -> NDArray[np.uint8]:
    data = np.frombuffer(plane.data, np.uint8)
    if plane.bits_per_pixel == 1:
        data = np.unpackbits(data)
    return data.reshape(plane.size.y, plane.size.x)


def reported_share(
    frames: Sequence[int], observations: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """Returns how many action loops led to a reported action, and how many there are.

    observations: (loop, number of reported actions) in order.
    """
    counts = dict(observations)
    # The last frame is that of the player who leaves, which ends the playback.
    following = [
        (frame, after)
        for frame, after in zip(frames, frames[1:], strict=False)
        if after in counts
    ]
    return sum(counts[after] > 0 for _, after in following), len(following)
