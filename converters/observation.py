"""The converter: one player's observation messages to arrays, and actions back to the game.

In: wire bytes (or parsed messages) of one episode, in order. Out: a dict of arrays per step,
as `specs.observation_specs` promises, equal to the reference's. Knows neither replays nor
engines. Memory between steps: the virtual camera, the last unit command, the enemy's race
once seen, and the tags of the latest observation's units.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.converters import actions, camera, geometry, minimap, protos, units
from starmill.converters.columns import Columns, Reader
from starmill.converters.message_fields import (
    GAME_LOOP,
    PLAYER_FIELDS,
    PLAYER_ID,
    TAG,
    UNITS,
)
from starmill.schema import errors, specs
from starmill.schema.settings import ConverterSettings

Arrays = dict[str, NDArray[Any]]
Message = Any
# away_race_observed until an enemy was seen; also the request of players who take any race.
RANDOM_RACE = 4
_OBSERVER = 3
_PLANE_PREFIX = "minimap_"


class Converter:
    """Converts the observations of one player in one game, in order.

    With `settings.supervised`, every step has its action (`action/*`); pass it to `action` before
    the next step to update the memory. Otherwise, pass a live agent's own actions to `action`.

    Ownership: `convert` returns arrays of its own each time. With reuse=True it returns
    read-only views of buffers that the next call overwrites, which saves the allocations.
    """

    def __init__(
        self,
        settings: ConverterSettings,
        game_info: bytes | Message,
        replay_info: bytes | Message | None = None,
        *,
        reuse: bool = False,
    ) -> None:
        settings.check()
        self.settings = settings
        self._raw = specs.raw_settings(settings)
        self._reuse = reuse
        info = _parsed(game_info, protos.sc2api_pb2.ResponseGameInfo)
        self._races = _requested_races(info)
        size = info.start_raw.map_size
        if size.x <= 0 or size.y <= 0:
            raise errors.ConverterError(
                f"game_info: expected a map size above 0, found {size.x} x {size.y}"
            )
        self._grid = geometry.make_grid(self._raw.resolution[0], size.x, size.y)
        self._mmrs: dict[int, int] | None = None
        if replay_info is not None:
            replay = _parsed(replay_info, protos.sc2api_pb2.ResponseReplayInfo)
            # The first entry of a player counts.
            self._mmrs = {
                entry.player_info.player_id: entry.player_mmr
                for entry in reversed(replay.player_info)
            }
        self._limits = actions.Limits(
            settings.num_action_types,
            self._raw.max_unit_count,
            self._raw.max_unit_selection_size,
            self._raw.enable_action_repeat,
        )
        self._layout = units.make_layout(settings)
        self._player = Reader()
        self._opponent = Reader()
        self._seen_types = np.zeros(len(self._layout.types), np.int32)
        self._plan: _Plan | None = None
        self._plane_rows = minimap.rows_of(())
        self._buffers: _Buffers | None = None
        self._step = 0
        self._enemy_race: int | None = None
        self._camera = (np.float32(0), np.float32(0))
        self._reach: camera.Reach | None = None
        self._sight: camera.Sight | None = None
        width = settings.camera_width_world_units
        self._camera_size = camera.size(self._grid, width)
        self._command = actions.NO_COMMAND
        self._tags = np.empty(0, np.int64)

    def convert(
        self,
        player: bytes | Message,
        *,
        opponent: bytes | Message | None = None,
        force_action: bytes | Message | None = None,
        delay: int | None = None,
    ) -> Arrays:
        """Returns the arrays of one step.

        Args:
            player: the ResponseObservation.
            opponent: the opponent's at the same loop, for `opponent_*`; zeros without.
            force_action: the RequestAction that the player answered with, for
                `action/*`; without, or without an acceptable action in it, a no-op.
            delay: game loops until the next step; required where actions are.

        Raises ConverterError, naming the step, where a message cannot be converted.
        """
        try:
            out = self._convert(player, opponent, force_action, delay)
        except (errors.ConverterError, errors.ConfigError) as error:
            raise errors.ConverterError(f"step {self._step}: {error}") from error
        self._step += 1
        return out

    @property
    def memory(self) -> tuple[actions.Command, tuple[np.float32, np.float32]]:
        """The state that `action` changes: the last command and the virtual camera.

        Live play restores it if the game refuses an action, because no replay would contain that
        action.
        """
        return self._command, self._camera

    @memory.setter
    def memory(
        self, value: tuple[actions.Command, tuple[np.float32, np.float32]]
    ) -> None:
        self._command, self._camera = value

    def action(
        self, action: Mapping[str, Any]
    ) -> tuple[protos.sc2api_pb2.RequestAction, int]:
        """Returns the game's request for an action, and its delay; updates the memory.

        Args:
            action: arguments by name, without the prefix `action/`: `function`, `delay`,
                and those that the function takes. Rows are those of the latest step.
        """
        encoded = actions.encode(action, self._tags, self._limits, self._grid)
        delay = actions.argument(action, "delay")
        if encoded.command is not None:
            self._command = encoded.command
        if encoded.camera is not None:
            x, y = encoded.camera
            self._camera = (np.float32(x), np.float32(y))
        return encoded.request, delay

    def _convert(
        self,
        player: bytes | Message,
        opponent: bytes | Message | None,
        force_action: bytes | Message | None,
        delay: int | None,
    ) -> Arrays:
        columns = self._player.read(_bytes_of(player))
        buffers = self._prepared(columns)
        out = buffers.arrays
        self._fill_scalars(out, columns)
        view = self._fill_camera(buffers, columns)
        units.fill_rows(
            out["raw_units"],
            columns,
            self._grid,
            self._layout,
            view,
            self._command.selected,
            self._command.target,
        )
        if len(buffers.planes):
            minimap.fill(self._player.data, columns, self._plane_rows, buffers.planes)
        self._fill_holdings(out, columns, "")
        if self.settings.add_opponent_features:
            self._fill_opponent(out, opponent)
        count = columns.counts[UNITS]
        self._tags = columns.units[:count, TAG].copy()
        if self.settings.supervised:
            self._fill_action(out, force_action, delay)
        return buffers.shown

    def _prepared(self, columns: Columns) -> "_Buffers":
        """Returns arrays to fill. Planes have the size of the message's own."""
        side = minimap.side(columns) if self.settings.minimap_features else 0
        if self._plan is None:
            # Not in __init__: the reference refuses an unknown plane only here.
            self._plan = _plan(self.settings)
            self._plane_rows = minimap.rows_of(self._plan.planes)
        if self._buffers is None or self._buffers.planes.shape[-1] != side:
            self._buffers = _Buffers(self._plan, side, reuse=self._reuse)
        if self._reuse:
            return self._buffers
        fresh, self._buffers = self._buffers, None
        return fresh

    def _fill_scalars(self, out: Arrays, columns: Columns) -> None:
        player_id = int(columns.head[PLAYER_ID])
        if player_id not in (1, 2):
            raise errors.ConverterError(
                f"player_common.player_id: expected 1 or 2, found {player_id}"
            )
        out["game_loop"][0] = _int32(columns.head[GAME_LOOP])
        out["home_race_requested"][0] = self._races[player_id - 1]
        out["away_race_requested"][0] = self._races[2 - player_id]
        if self._enemy_race is None:
            self._enemy_race = units.enemy_race(columns)
        race = RANDOM_RACE if self._enemy_race is None else self._enemy_race
        out["away_race_observed"][0] = race
        if self._mmrs is None:
            out["mmr"][()] = self.settings.mmr
            return
        # Departs: the reference shows uninitialised memory for a player who is not listed.
        out["mmr"][()] = self._mmrs.get(player_id, 0)

    def _fill_camera(self, buffers: "_Buffers", columns: Columns) -> camera.View:
        centre = (columns.camera[0], columns.camera[1])
        if self._raw.use_virtual_camera:
            if self._reach is None:
                self._reach = camera.virtual_reach(self.settings)
                self._camera = centre
            centre = self._camera
        if self._sight is None or self._sight.centre != centre:
            cells = self._camera_size if self._raw.camera else None
            self._sight = camera.look(self._grid, centre, self._reach, cells)
        sight = self._sight
        if self._raw.use_camera_position:
            buffers.arrays["camera_position"][:] = sight.position
            buffers.arrays["camera_size"][:] = self._camera_size
        if self._raw.camera:
            camera.light(buffers.arrays["camera"], buffers.lit, sight.cells)
            buffers.lit = sight.cells
        return sight.view

    def _fill_holdings(self, out: Arrays, columns: Columns, prefix: str) -> None:
        """Fills what a player has: resources, unit counts, upgrades."""
        units.fill_counts(
            out[f"{prefix}unit_counts_bow"], columns, self._layout, self._seen_types
        )
        player = columns.head[1 : len(PLAYER_FIELDS)]
        if prefix:
            out[f"{prefix}player"][:] = player
        else:
            out["player"][0] = 1
            out["player"][1:] = player
        units.fill_upgrades(out[f"{prefix}upgrades_fixed_length"], columns)

    def _fill_opponent(self, out: Arrays, opponent: bytes | Message | None) -> None:
        if opponent is not None:
            columns = self._opponent.read(_bytes_of(opponent))
            self._fill_holdings(out, columns, "opponent_")
            return
        for key in out:
            if key.startswith("opponent_"):
                out[key][:] = 0

    def _fill_action(
        self, out: Arrays, force_action: bytes | Message | None, delay: int | None
    ) -> None:
        if not delay:
            raise errors.ConverterError(
                f"delay: expected the game loops until the next step, found {delay!r}"
            )
        request = protos.sc2api_pb2.RequestAction
        decoded = None
        if force_action is not None:
            message = _parsed(force_action, request)
            decoded = actions.decode(message, self._tags, self._limits, self._grid)
        if decoded is None:
            decoded = actions.NO_OP
        if not -(2**31) <= delay < 2**31:
            raise errors.ConverterError(f"delay: expected an int32, found {delay}")
        out["action/delay"][()] = delay
        out["action/function"][()] = decoded.function
        out["action/queued"][()] = decoded.queued
        out["action/target_unit_tag"][()] = decoded.target_unit_tag
        out["action/world"][()] = decoded.world
        actions.fill_unit_tags(out["action/unit_tags"], decoded, self._limits)
        if self._raw.enable_action_repeat:
            out["action/repeat"][()] = decoded.repeat


class _Plan(NamedTuple):
    """What to allocate for a step.

    Attributes:
        arrays: key, shape, dtype and what makes the array.
        planes: names of the minimap planes, in order.
    """

    arrays: tuple[tuple[str, tuple[int, ...], Any, Callable[..., Any]], ...]
    planes: tuple[str, ...]


def _plan(settings: ConverterSettings) -> _Plan:
    described = specs.observation_specs(settings)
    return _Plan(
        tuple(
            # Only the camera's plane must begin as zeros; all other arrays are written whole.
            (key, spec.shape, spec.dtype, np.zeros if key == "camera" else np.empty)
            for key, spec in described.items()
            if not key.startswith(_PLANE_PREFIX)
        ),
        tuple(dict.fromkeys(settings.minimap_features)),
    )


class _Buffers:
    """The arrays of a step, and what the caller sees of them.

    arrays: by key, to be filled.  shown: the same, read-only where they are reused.
    planes: uint8 [P, side, side], of which the minimap arrays are views.
    lit: what is 1 in the camera plane.
    """

    def __init__(self, plan: _Plan, side: int, *, reuse: bool) -> None:
        self.planes = np.empty((len(plan.planes), side, side), np.uint8)
        self.lit = camera.NOWHERE
        self.arrays: Arrays = {
            key: make(shape, dtype) for key, shape, dtype, make in plan.arrays
        }
        for name, plane in zip(plan.planes, self.planes, strict=True):
            self.arrays[f"{_PLANE_PREFIX}{name}"] = plane
        self.shown = self.arrays
        if reuse:
            self.shown = {key: array.view() for key, array in self.arrays.items()}
            for array in self.shown.values():
                array.setflags(write=False)


def _bytes_of(message: bytes | Message) -> bytes:
    if isinstance(message, protos.sc2api_pb2.ResponseObservation):
        return message.SerializeToString()
    return bytes(message)


def _parsed(message: bytes | Message, kind: type[Message]) -> Message:
    if isinstance(message, kind):
        return message
    try:
        return kind.FromString(bytes(message))
    except protos.DecodeError as error:
        raise errors.ConverterError(
            f"expected the bytes of a {kind.DESCRIPTOR.name}: {error}"
        ) from error


def _int32(value: int) -> int:
    return (int(value) + 2**31) % 2**32 - 2**31


def _requested_races(info: Message) -> list[int]:
    races = [p.race_requested for p in info.player_info if p.type != _OBSERVER]
    if len(races) != 2:
        raise errors.ConverterError(
            f"game_info: expected 2 players who are not observers, found {len(races)}"
        )
    return races
