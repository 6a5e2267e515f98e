"""Alterations: answers that are wrong in one respect, as another game's answers might be.

In: an answer, parsed, and what this process has answered so far. Out: the answer, changed in place.
Each kind breaks one of the things that clients assume of the game, so that checks of a game can
be tested. Must not know: the game, or when an alteration applies (`faults` decides that).
"""

import dataclasses
import os
import random
from collections.abc import Callable

from starmill.converters.protos import raw_pb2, sc2api_pb2

_UNKNOWN_ID = 30_000
_FAR_CELLS = 10_000.0
_OTHER_BUILD = 1


@dataclasses.dataclass
class History:
    """What this process has answered so far.

    Attributes:
        replays: how many replays or games it has started.
        observations: how many observations it has answered.
        actions: held back from the latest observation, or reported in it.
        camera: where it was first; None before the first observation.
    """

    replays: int = 0
    observations: int = 0
    actions: list[sc2api_pb2.Action] = dataclasses.field(default_factory=list)
    camera: tuple[float, float] | None = None


Alteration = Callable[[sc2api_pb2.Response, History], None]


def _other_version(answer: sc2api_pb2.Response, _: History) -> None:
    if answer.HasField("ping"):
        answer.ping.base_build += _OTHER_BUILD


def _no_kind(answer: sc2api_pb2.Response, _: History) -> None:
    if answer.HasField("game_info"):
        answer.data.SetInParent()  # of the oneof, it replaces the answer's own


def _error(answer: sc2api_pb2.Response, _: History) -> None:
    if answer.HasField("observation"):
        answer.error.append("the request failed")


def _no_status(answer: sc2api_pb2.Response, _: History) -> None:
    answer.ClearField("status")


def _wrong_status(answer: sc2api_pb2.Response, _: History) -> None:
    answer.status = sc2api_pb2.unknown


def _no_end(answer: sc2api_pb2.Response, _: History) -> None:
    if answer.status == sc2api_pb2.ended:
        answer.status = sc2api_pb2.in_replay


def _lenient(answer: sc2api_pb2.Response, _: History) -> None:
    answer.ClearField("error")
    if answer.HasField("replay_info"):
        answer.replay_info.ClearField("error")
    if answer.HasField("start_replay"):
        answer.start_replay.ClearField("error")


def _no_mmr(answer: sc2api_pb2.Response, _: History) -> None:
    for player in answer.replay_info.player_info:
        player.ClearField("player_mmr")


def _wrong_info(answer: sc2api_pb2.Response, _: History) -> None:
    if answer.HasField("replay_info"):
        answer.replay_info.game_duration_loops += 1


def _lost_map(answer: sc2api_pb2.Response, _: History) -> None:
    if answer.HasField("replay_info"):
        answer.replay_info.local_map_path = "Lost/Lost.SC2Map"


def _refuses(answer: sc2api_pb2.Response, _: History) -> None:
    if answer.HasField("start_replay"):
        answer.start_replay.error = sc2api_pb2.ResponseStartReplay.LaunchError


def _no_map_size(answer: sc2api_pb2.Response, _: History) -> None:
    if answer.HasField("game_info"):
        answer.game_info.start_raw.playable_area.p1.x += round(_FAR_CELLS)


def _no_abilities(answer: sc2api_pb2.Response, _: History) -> None:
    if answer.HasField("data"):
        answer.data.ClearField("abilities")


def _reversed_queries(answer: sc2api_pb2.Response, _: History) -> None:
    if answer.HasField("query"):
        entries = list(answer.query.abilities)[::-1]
        answer.query.ClearField("abilities")
        answer.query.abilities.extend(entries)


def _no_maps(answer: sc2api_pb2.Response, _: History) -> None:
    if answer.HasField("available_maps"):
        answer.available_maps.ClearField("local_map_paths")


def _no_results(answer: sc2api_pb2.Response, _: History) -> None:
    if answer.HasField("action"):
        answer.action.ClearField("result")


def _cut_replay(answer: sc2api_pb2.Response, _: History) -> None:
    if answer.HasField("save_replay"):
        data = answer.save_replay.data
        answer.save_replay.data = data[: len(data) // 2]


def _drift(answer: sc2api_pb2.Response, _: History) -> None:
    answer.observation.observation.game_loop += 1


def _other_player(answer: sc2api_pb2.Response, _: History) -> None:
    common = answer.observation.observation.player_common
    common.player_id = 3 - common.player_id


def _no_fog(answer: sc2api_pb2.Response, _: History) -> None:
    raw = answer.observation.observation.raw_data
    enemy = raw.units.add()
    enemy.CopyFrom(raw.units[0])
    enemy.tag += 1 << 40
    enemy.alliance = raw_pb2.Enemy
    enemy.display_type = raw_pb2.Visible
    enemy.pos.x = enemy.pos.y = enemy.radius = 0.0


def _restless(answer: sc2api_pb2.Response, history: History) -> None:
    answer.observation.observation.player_common.minerals += history.observations


def _late_actions(answer: sc2api_pb2.Response, history: History) -> None:
    actions = [*answer.observation.actions]
    answer.observation.ClearField("actions")
    answer.observation.actions.extend(history.actions)
    history.actions = actions


def _repeated_actions(answer: sc2api_pb2.Response, history: History) -> None:
    actions = [*answer.observation.actions]
    if not actions:
        answer.observation.actions.extend(history.actions)
    history.actions = actions


def _lost_actions(answer: sc2api_pb2.Response, _: History) -> None:
    answer.observation.ClearField("actions")


def _shifted_actions(answer: sc2api_pb2.Response, _: History) -> None:
    for action in answer.observation.actions:
        action.game_loop += 1


def _no_result(answer: sc2api_pb2.Response, _: History) -> None:
    answer.observation.ClearField("player_result")


def _shuffled(answer: sc2api_pb2.Response, _: History) -> None:
    raw = answer.observation.observation.raw_data
    units = list(raw.units)
    random.Random(os.getpid()).shuffle(units)
    raw.ClearField("units")
    raw.units.extend(units)


def _differing(answer: sc2api_pb2.Response, _: History) -> None:
    # Another number in each process.
    units = answer.observation.observation.raw_data.units
    units[0].shield_max = units[0].shield = float(os.getpid())


def _stale(answer: sc2api_pb2.Response, history: History) -> None:
    if history.replays > 1:
        answer.observation.observation.raw_data.units[0].energy += 1.0


def _half_planes(answer: sc2api_pb2.Response, _: History) -> None:
    renders = answer.observation.observation.feature_layer_data.minimap_renders
    renders.creep.size.x //= 2


def _mirrored(answer: sc2api_pb2.Response, _: History) -> None:
    plane = answer.observation.observation.feature_layer_data.minimap_renders
    side = plane.player_relative.size.x
    data = plane.player_relative.data
    rows = [data[start : start + side] for start in range(0, len(data), side)]
    plane.player_relative.data = b"".join(rows[::-1])


def _lost_camera(answer: sc2api_pb2.Response, _: History) -> None:
    answer.observation.observation.raw_data.player.camera.x += _FAR_CELLS


def _stuck_camera(answer: sc2api_pb2.Response, history: History) -> None:
    camera = answer.observation.observation.raw_data.player.camera
    history.camera = history.camera or (camera.x, camera.y)
    camera.x, camera.y = history.camera


def _unknown_unit(answer: sc2api_pb2.Response, _: History) -> None:
    answer.observation.observation.raw_data.units[0].unit_type = _UNKNOWN_ID


# Each kind, with what the process answers, and how.
_ANSWERS: dict[str, tuple[str, Alteration]] = {
    "no_status": ("answers without a status", _no_status),
    "wrong_status": ("answers with the status `unknown`", _wrong_status),
    "no_end": ("answers with the status `in_replay` after the end", _no_end),
    "lenient": ("leaves errors out of its answers", _lenient),
    "other_version": ("names another build in answers to ping", _other_version),
    "wrong_kind": ("answers game_info with another message", _no_kind),
    "error": ("adds an error to observations", _error),
    "refuses": ("refuses to start replays", _refuses),
    "no_mmr": ("describes replays without MMRs", _no_mmr),
    "wrong_info": ("describes replays with another duration", _wrong_info),
    "lost_map": ("names a map that does not exist", _lost_map),
    "no_map_size": ("reports a playable area beyond the map", _no_map_size),
    "no_abilities": ("lists no abilities", _no_abilities),
    "reversed_queries": ("answers queries in reverse order", _reversed_queries),
    "no_maps": ("lists no maps", _no_maps),
    "no_results": ("answers actions without results", _no_results),
    "cut_replay": ("saves half of a replay", _cut_replay),
}
_OBSERVATIONS: dict[str, tuple[str, Alteration]] = {
    "drift": ("observes one loop too late", _drift),
    "other_player": ("observes with the other player's id", _other_player),
    "no_fog": ("shows an enemy in the dark", _no_fog),
    "restless": ("changes minerals with each observation", _restless),
    "late_actions": ("reports actions one observation late", _late_actions),
    "repeated_actions": ("reports actions twice", _repeated_actions),
    "lost_actions": ("reports no actions", _lost_actions),
    "shifted_actions": ("reports actions with the next loop", _shifted_actions),
    "no_result": ("ends replays without a result", _no_result),
    "shuffled": ("lists units in another order in each process", _shuffled),
    "differing": ("gives a unit other shields in each process", _differing),
    "stale": ("changes a unit from the second replay of a process on", _stale),
    "half_planes": ("halves the width of a minimap plane", _half_planes),
    "mirrored": ("turns a minimap plane upside down", _mirrored),
    "lost_camera": ("puts the camera far from the map", _lost_camera),
    "stuck_camera": ("never moves the camera", _stuck_camera),
    "unknown_unit": ("gives a unit an unknown type", _unknown_unit),
}
KINDS = {name: text for name, (text, _) in {**_ANSWERS, **_OBSERVATIONS}.items()}


def alter(kind: str, payload: bytes, history: History) -> bytes:
    """Returns an answer as this kind of alteration changes it.

    payload: the serialized Response, with id and status.
    """
    answer = sc2api_pb2.Response.FromString(payload)
    is_observation = answer.HasField("observation")
    if kind in _ANSWERS:
        _ANSWERS[kind][1](answer, history)
    elif is_observation and answer.observation.observation.raw_data.units:
        _OBSERVATIONS[kind][1](answer, history)
        history.observations += 1
    return answer.SerializeToString()
