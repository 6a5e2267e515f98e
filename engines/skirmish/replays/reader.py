"""A Skirmish replay file back into what is needed to play it again.

In: bytes. Out: a `Recording` with the setup and the inputs by loop, read from the file's game
events. A broken file, and a file that Skirmish did not write, are `ReplayError`s with
different reasons. Nothing is simulated here.
"""

import dataclasses
import io
import json
import struct
import zlib
from typing import Any

import mpyq
from s2protocol.decoders import CorruptedError, TruncatedError

from starmill.engines.replays import bit_packed
from starmill.engines.skirmish.replays import input_events, members, recorder
from starmill.engines.skirmish.simulation import game, maps
from starmill.schema import errors

BROKEN = "broken"
FOREIGN = "foreign"
# What readers of damaged archives are seen to raise.
DAMAGE = (
    *(AttributeError, EOFError, IndexError, KeyError, OSError, RuntimeError),
    *(TypeError, UnicodeDecodeError, ValueError, NotImplementedError),
    *(struct.error, zlib.error, CorruptedError, TruncatedError),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recording:
    """A replay, ready to be played.

    inputs: loop -> what the players did on it. loops: where the file ends.
    result: "win", "loss" or "tie" of players 1 and 2; None if it was saved before the end.
    end_digest: of the state at the end, as recorded.
    """

    game_map: maps.GameMap
    players: tuple[game.PlayerSetup, game.PlayerSetup]
    participants: tuple[members.Participant, members.Participant]
    seed: int
    inputs: dict[int, list[game.Input]]
    loops: int
    result: tuple[str, str] | None
    end_digest: str
    metadata: dict[str, Any]

    def new_game(self) -> game.Game:
        """Returns the game as it began."""
        return game.Game(self.game_map, self.players, self.seed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """What `replay_info` tells; any replay has it, Skirmish's or not.

    ours: whether Skirmish wrote the file, and can play it.
    """

    metadata: dict[str, Any]
    loops: int
    ours: bool


def _archive(data: bytes) -> mpyq.MPQArchive:
    try:
        archive = mpyq.MPQArchive(io.BytesIO(data), listfile=False)
        archive.header["user_data_header"]["content"]  # noqa: B018  # KeyError if absent
    except DAMAGE as error:
        raise errors.ReplayError(BROKEN, f"no replay archive: {error!r}") from error
    return archive


def _member(archive: mpyq.MPQArchive, name: str) -> bytes:
    try:
        content = archive.read_file(name)
    except DAMAGE as error:
        raise errors.ReplayError(BROKEN, f"{name}: {error!r}") from error
    if content is None:
        raise errors.ReplayError(BROKEN, f"{name}: not in the archive")
    return bytes(content)


def _json_member(archive: mpyq.MPQArchive, name: str) -> dict[str, Any]:
    try:
        content = json.loads(_member(archive, name))
    except ValueError as error:
        raise errors.ReplayError(BROKEN, f"{name}: {error}") from error
    if not isinstance(content, dict):
        raise errors.ReplayError(BROKEN, f"{name}: expected a JSON object")
    return content


def summary(data: bytes) -> Summary:
    """Returns what the metadata and the header say; ReplayError if they cannot be read."""
    archive = _archive(data)
    metadata = _json_member(archive, "replay.gamemetadata.json")
    content = archive.header["user_data_header"]["content"]
    try:
        header = bit_packed.protocol.decode_replay_header(content)
        loops = int(header["m_elapsedGameLoops"])
    except DAMAGE as error:
        raise errors.ReplayError(BROKEN, f"header: {error!r}") from error
    ours = metadata.get("Engine") == recorder.ENGINE
    return Summary(metadata=metadata, loops=loops, ours=ours)


def read(data: bytes) -> Recording:
    """Returns the recording; ReplayError with reason FOREIGN or BROKEN if it cannot be."""
    found = summary(data)
    if not found.ours:
        title = found.metadata.get("Title")
        raise errors.ReplayError(
            FOREIGN, f"a replay of the real game ({title!r}), which Skirmish is not"
        )
    archive = _archive(data)
    setup = _json_member(archive, recorder.SETUP_MEMBER)
    if setup.get("format") != recorder.SETUP_FORMAT:
        raise errors.ReplayError(BROKEN, f"setup format {setup.get('format')!r}")
    inputs: dict[int, list[game.Input]] = {}
    reader = input_events.EventReader()
    try:
        events = _member(archive, "replay.game.events")
        for event in bit_packed.protocol.decode_replay_game_events(events):
            item = reader.read(event)
            if item is not None:
                inputs.setdefault(event["_gameloop"], []).append(item)
        return _recording(setup, inputs, found.metadata)
    except DAMAGE as error:
        raise errors.ReplayError(BROKEN, f"{type(error).__name__}: {error}") from error


def _recording(
    setup: dict[str, Any],
    inputs: dict[int, list[game.Input]],
    metadata: dict[str, Any],
) -> Recording:
    first, second = setup["players"]
    names = {field.name for field in dataclasses.fields(game.PlayerSetup)}
    players, participants = [], []
    for entry in (first, second):
        players.append(
            game.PlayerSetup(**{k: v for k, v in entry.items() if k in names})
        )
        participants.append(
            members.Participant(**{k: v for k, v in entry.items() if k not in names})
        )
    result = setup["result"]
    return Recording(
        game_map=maps.MAPS[setup["map"]],
        players=(players[0], players[1]),
        participants=(participants[0], participants[1]),
        seed=int(setup["seed"]),
        inputs=inputs,
        loops=int(setup["loops"]),
        result=None if result is None else (result[0], result[1]),
        end_digest=setup["end_digest"],
        metadata=metadata,
    )
