"""A replay file of Skirmish as what is needed to play it again.

In: the file's bytes. Out: a `Recording`: the setup and the inputs by loop, from the file's game
events. A damaged file and a file of the real game raise `ReplayError` with different reasons.
Must not know: how a game is played.
"""

import dataclasses
import struct
import zlib
from typing import Any

from s2protocol.decoders import CorruptedError, TruncatedError

from starmill.engines.replays.archive import Archive
from starmill.engines.replays.limits import DEFAULT_LIMITS
from starmill.engines.skirmish.replays import (
    input_events,
    members,
    recorder,
    streams,
)
from starmill.engines.skirmish.simulation import game, maps
from starmill.schema import errors
from starmill.schema.archives import json_text

BROKEN = "broken"
FOREIGN = "foreign"
# What s2protocol and Python raise for damaged members.
DAMAGE = (
    *(AttributeError, EOFError, IndexError, KeyError, OSError, RuntimeError),
    *(TypeError, UnicodeDecodeError, ValueError, NotImplementedError),
    *(struct.error, zlib.error, CorruptedError, TruncatedError),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recording:
    """A replay that is ready to be played.

    Attributes:
        game_map: the map.
        players: the setups of players 1 and 2.
        participants: players 1 and 2, as the file names them.
        seed: the game's seed.
        inputs: the players' inputs by loop.
        loops: the loop on which the file ends.
        result: "win", "loss" or "tie" of players 1 and 2; None if it was saved before the end.
        end_digest: `Game.state_digest()` at the end of the file.
        metadata: the content of `replay.gamemetadata.json`.
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
        """Returns the game at its start."""
        return game.Game(self.game_map, self.players, self.seed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """What any replay tells without being read whole, Skirmish's or the real game's.

    Attributes:
        metadata: the content of `replay.gamemetadata.json`.
        loops: the loop on which the file ends.
        ours: whether Skirmish wrote the file and can play it.
    """

    metadata: dict[str, Any]
    loops: int
    ours: bool


def _archive(data: bytes) -> Archive:
    try:
        archive = Archive(data, max_table_entries=DEFAULT_LIMITS.table_entries)
    except errors.ReplayError as error:
        raise errors.ReplayError(
            BROKEN, f"expected a replay archive: {error.detail}"
        ) from error
    if not archive.user_data:
        raise errors.ReplayError(BROKEN, "expected a replay's header, found none")
    return archive


def _member(archive: Archive, name: str, most_bytes: int) -> bytes:
    """Returns a member's content; it is never unpacked beyond the limit."""
    try:
        content = archive.read(name, most_bytes)
    except errors.ReplayError as error:
        raise errors.ReplayError(BROKEN, error.detail) from error
    if content is None:
        raise errors.ReplayError(BROKEN, f"expected a member {name}, found none")
    return content


def _json_member(archive: Archive, name: str) -> dict[str, Any]:
    try:
        content = json_text.parse(_member(archive, name, DEFAULT_LIMITS.metadata_bytes))
    except ValueError as error:
        raise errors.ReplayError(BROKEN, f"{name}: {error}") from error
    if not isinstance(content, dict):
        raise errors.ReplayError(BROKEN, f"{name}: expected a JSON object")
    return content


def summary(data: bytes) -> Summary:
    """Returns what metadata and header say; ReplayError if they cannot be read."""
    archive = _archive(data)
    metadata = _json_member(archive, "replay.gamemetadata.json")
    try:
        header = streams.PROTOCOL.decode_replay_header(archive.user_data)
        loops = int(header["m_elapsedGameLoops"])
    except DAMAGE as error:
        raise errors.ReplayError(BROKEN, f"header: {error!r}") from error
    ours = metadata.get("Engine") == recorder.ENGINE
    return Summary(metadata=metadata, loops=loops, ours=ours)


def read(data: bytes) -> Recording:
    """Returns the recording; ReplayError with reason FOREIGN or BROKEN if there is none."""
    facts = summary(data)
    if not facts.ours:
        title = facts.metadata.get("Title")
        raise errors.ReplayError(
            FOREIGN, f"expected a replay of Skirmish, found the real game's ({title!r})"
        )
    archive = _archive(data)
    setup = _json_member(archive, recorder.SETUP_MEMBER)
    if setup.get("format") != recorder.SETUP_FORMAT:
        raise errors.ReplayError(BROKEN, f"setup format {setup.get('format')!r}")
    inputs: dict[int, list[game.Input]] = {}
    reader = input_events.EventReader()
    try:
        events = _member(archive, "replay.game.events", DEFAULT_LIMITS.events_bytes)
        for event in streams.PROTOCOL.decode_replay_game_events(events):
            item = reader.read(event)
            if item is not None:
                inputs.setdefault(event["_gameloop"], []).append(item)
        return _recording(setup, inputs, facts.metadata)
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
        game_map=maps.map_named(setup["map"]),
        players=(players[0], players[1]),
        participants=(participants[0], participants[1]),
        seed=int(setup["seed"]),
        inputs=inputs,
        loops=int(setup["loops"]),
        result=None if result is None else (result[0], result[1]),
        end_digest=setup["end_digest"],
        metadata=metadata,
    )
