"""Replays that requests carry or name: what is in them, and whether this game can play them.

In: `replay_info` and `start_replay` requests. Out: the answer to the former; for the latter, a
replay that is ready to be played, or the answer with the error. Must not know: the session that
plays it.
"""

import dataclasses
import hashlib
from pathlib import Path

from starmill.converters.protos import sc2api_pb2
from starmill.engines.skirmish import versions
from starmill.engines.skirmish.replays import reader
from starmill.engines.skirmish.server import game_info, lobby, map_files
from starmill.schema import errors


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenedReplay:
    """A replay that this game can play.

    Attributes:
        recording: its content.
        sha256: of its file, in hexadecimal digits.
    """

    recording: reader.Recording
    sha256: str


def _content(
    request: sc2api_pb2.RequestReplayInfo | sc2api_pb2.RequestStartReplay,
) -> bytes | None:
    """Returns the replay that a request carries or names, None if there is no such file."""
    if request.WhichOneof("replay") == "replay_data":
        return request.replay_data
    path = lobby.text(request.replay_path)
    if not path or "\0" in path or not Path(path).is_file():
        return None
    return Path(path).read_bytes()


def replay_info(
    request: sc2api_pb2.RequestReplayInfo,
) -> sc2api_pb2.ResponseReplayInfo:
    """Returns the description of a replay, or why there is none."""
    error = sc2api_pb2.ResponseReplayInfo
    content = _content(request)
    if request.WhichOneof("replay") is None:
        return error(error=error.MissingReplay)
    if content is None:
        return error(error=error.InvalidReplayPath)
    try:
        return game_info.replay_info(reader.summary(content))
    except errors.ReplayError as problem:
        return error(error=error.ParsingError, error_details=str(problem))


def open_replay(
    request: sc2api_pb2.RequestStartReplay, version: versions.Version
) -> OpenedReplay | sc2api_pb2.ResponseStartReplay:
    """Returns the replay of a request, or the answer with why it cannot be played.

    version: the version of this game, which must be the replay's.
    """
    error = sc2api_pb2.ResponseStartReplay
    content = _content(request)
    if request.WhichOneof("replay") is None:
        return error(error=error.MissingReplay)
    if content is None:
        return error(error=error.InvalidReplayPath)
    if not request.HasField("options"):
        return error(error=error.MissingOptions)
    if problem := lobby.render_error(request.options):
        return error(error=error.LaunchError, error_details=problem)
    if request.observed_player_id not in (1, 2):
        return error(error=error.InvalidObservedPlayerId)
    try:
        recording = reader.read(content)
        _check_map(request.map_data, recording)
    except errors.FormatError as problem:
        return error(error=error.InvalidMapData, error_details=str(problem))
    except errors.ReplayError as problem:
        # The real game cannot load a replay that needs files it does not have.
        is_foreign = problem.reason == reader.FOREIGN
        code = error.LaunchError if is_foreign else error.InvalidReplayData
        return error(error=code, error_details=str(problem))
    base_build = str(recording.metadata.get("BaseBuild"))
    if base_build != version.directory:
        details = (
            f"expected a replay of {version.directory}, this game's version, "
            f"found one of {base_build}"
        )
        return error(error=error.LaunchError, error_details=details)
    return OpenedReplay(recording=recording, sha256=hashlib.sha256(content).hexdigest())


def _check_map(map_data: bytes, recording: reader.Recording) -> None:
    if map_data and map_files.map_of_data(map_data) is not recording.game_map:
        raise errors.FormatError(
            f"map_data: expected {recording.game_map.name!r}, the replay's map, "
            "found another"
        )
