"""A replay file: its header, metadata, details, lobby and events, each decoded on demand.

In: the bytes of a `.SC2Replay` from anyone. Out: a `ReplayFile` with its parts, or the row
that the index keeps of it. Needs no game. Every failure is a ReplayError whose reason is a
RejectReason; `Limits` bounds sizes, counts and time.

    bytes -> Archive -> members -> tagged, bit_packed or event_scan -> ReplayFile -> facts -> row
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from starmill.converters import timing
from starmill.engines.replays import event_scan, facts, protocols, tagged
from starmill.engines.replays.archive import Archive
from starmill.engines.replays.bit_packed import BitPackedReader
from starmill.engines.replays.limits import DEFAULT_LIMITS, Limits
from starmill.engines.replays.tagged import TaggedReader
from starmill.schema import errors
from starmill.schema.reasons import RejectReason
from starmill.schema.replay_row import ReplayRow
from starmill.schema.selection import Selection, reject_reason

__all__ = [
    "DEFAULT_LIMITS",
    "Header",
    "Limits",
    "ReplayFile",
    "file_stem",
    "open_replay",
    "replay_row",
]

T = TypeVar("T")

# Tags in the header, and of the version in it; the same in every build that s2protocol
# describes.
_VERSION, _LOOPS = 1, 3
_MAJOR, _MINOR, _REVISION, _BUILD, _BASE_BUILD = 1, 2, 3, 4, 5
_INT32_VALUES = 1 << 31


class _Member(NamedTuple):
    """A member of the archive.

    Attributes:
        name: without ".backup".
        backup: whether there may be a backup, which is then read instead. Official packs
            have only the backup; where both exist, it is the one nobody edited.
        limit: the field of `Limits` that bounds its unpacked size.
        damaged: reason to reject a replay whose member does not decode.
        missing: reason to reject a replay without the member.
        too_large: reason to reject a replay whose member exceeds the limit.
    """

    name: str
    backup: bool
    limit: str
    damaged: RejectReason
    missing: RejectReason
    too_large: RejectReason = RejectReason.TOO_LARGE


_METADATA = _Member(
    "replay.gamemetadata.json",
    False,
    "metadata_bytes",
    RejectReason.BAD_METADATA,
    RejectReason.NO_METADATA,
)
_DETAILS = _Member(
    "replay.details",
    True,
    "details_bytes",
    RejectReason.BAD_DETAILS,
    RejectReason.BAD_DETAILS,
)
_INIT_DATA = _Member(
    "replay.initData",
    True,
    "init_data_bytes",
    RejectReason.BAD_INIT_DATA,
    RejectReason.BAD_INIT_DATA,
)
_GAME_EVENTS = _Member(
    "replay.game.events",
    False,
    "events_bytes",
    RejectReason.BAD_EVENTS,
    RejectReason.NO_EVENTS,
    RejectReason.EVENTS_TOO_LARGE,
)
_TRACKER_EVENTS = _Member(
    "replay.tracker.events",
    False,
    "events_bytes",
    RejectReason.BAD_EVENTS,
    RejectReason.NO_EVENTS,
)
_MEMBERS = {
    member.name: member
    for member in (_METADATA, _DETAILS, _INIT_DATA, _GAME_EVENTS, _TRACKER_EVENTS)
}


class Header(NamedTuple):
    """What the block of user data in front of the archive says.

    Attributes:
        game_version: with the build, like "4.9.2.74741".
        base_build: selects the protocol that the replay is encoded in.
        duration_loops: length of the game.
    """

    game_version: str
    base_build: int
    duration_loops: int


class ReplayFile:
    """An opened replay. Its properties decode when first asked for; each may raise ReplayError."""

    def __init__(self, archive: Archive, limits: Limits) -> None:
        self._archive = archive
        self._limits = limits

    @functools.cached_property
    def header(self) -> Header:
        """The replay's header."""
        fields = self._tagged(
            self._archive.user_data, RejectReason.BAD_HEADER, "header"
        )
        version = fields.get(_VERSION)
        version = version if isinstance(version, dict) else {}
        numbers = [
            version.get(tag) for tag in (_MAJOR, _MINOR, _REVISION, _BUILD, _BASE_BUILD)
        ]
        loops = fields.get(_LOOPS)
        if not all(
            isinstance(number, int) and 0 <= number < _INT32_VALUES
            for number in [*numbers, loops]
        ):
            raise errors.ReplayError(
                RejectReason.BAD_HEADER,
                f"expected version and length, found {numbers} and {loops!r}",
            )
        *parts, base_build = numbers
        return Header(".".join(str(part) for part in parts), base_build, loops)  # type: ignore[arg-type]  # checked above

    @functools.cached_property
    def protocol(self) -> protocols.Protocol:
        """How this replay's build encodes members; ReplayError for an unknown build."""
        return protocols.protocol(self.header.base_build)

    @property
    def layout(self) -> str:
        """Which members exist: "full", "pack" (backups only) or "old" (no metadata)."""
        if _METADATA.name not in self._archive:
            return "old"
        return "full" if _DETAILS.name in self._archive else "pack"

    @functools.cached_property
    def metadata(self) -> dict[str, Any]:
        """The JSON object of replay.gamemetadata.json."""
        data = self._required(_METADATA)
        try:
            content = json.loads(data.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise errors.ReplayError(
                _METADATA.damaged, f"{_METADATA.name}: {error}"
            ) from error
        if not isinstance(content, dict):
            raise errors.ReplayError(
                _METADATA.damaged,
                f"{_METADATA.name}: expected an object, found {type(content).__name__}",
            )
        return content

    @functools.cached_property
    def tagged_details(self) -> dict[int, Any]:
        """replay.details by tags: all that a row needs, and faster than by names."""
        data = self._required(_DETAILS)
        return self._tagged(data, _DETAILS.damaged, _DETAILS.name)

    @functools.cached_property
    def details(self) -> dict[str, Any]:
        """replay.details as s2protocol decodes it."""
        details: dict[str, Any] = tagged.named(
            self.tagged_details, self.protocol.types, self.protocol.details
        )
        return details

    @functools.cached_property
    def lobby(self) -> facts.Lobby:
        """The few fields of initData that a row needs, faster than all of them."""
        data, protocol = self._required(_INIT_DATA), self.protocol
        with _damage(_INIT_DATA):
            fields = event_scan.captured_fields(
                data, protocol.program, protocol.init_data
            )

        def flag(number: int) -> bool | None:
            values = fields.get(number)
            return bool(values[0]) if values else None

        return facts.Lobby(
            amm=flag(protocols.AMM),
            competitive=flag(protocols.COMPETITIVE),
            cooperative=flag(protocols.COOPERATIVE),
            slot_users=fields.get(protocols.USER, []),
            slot_controls=fields.get(protocols.CONTROL, []),
            slot_observes=fields.get(protocols.OBSERVE, []),
            ratings=fields.get(protocols.RATING, []),
        )

    @functools.cached_property
    def init_data(self) -> dict[str, Any]:
        """replay.initData as s2protocol decodes it."""
        data, protocol = self._required(_INIT_DATA), self.protocol
        reader = BitPackedReader(data, protocol.types, self._limits.meter())
        with _damage(_INIT_DATA):
            value: dict[str, Any] = reader.value(protocol.init_data)
        return value

    @functools.cached_property
    def event_columns(self) -> NDArray[np.int64]:
        """(game loop, user id, event id) of every game event, shape [events, 3]."""
        data, protocol = self._required(_GAME_EVENTS), self.protocol
        if protocol.event_id is None or protocol.user is None:
            raise errors.ReplayError(
                _GAME_EVENTS.damaged,
                f"s2protocol does not describe game events of build {protocol.base_build}",
            )
        with _damage(_GAME_EVENTS):
            return event_scan.event_columns(
                data,
                protocol.program,
                event_scan.EventTypes(
                    delta=protocol.delta,
                    user=protocol.user,
                    event_id=protocol.event_id,
                    by_id=protocol.event_type_numbers,
                ),
                max_events=self._limits.events,
            )

    def game_events(self) -> Iterator[timing.GameEvent]:
        """Yields loop, user and kind of every game event: what `timing` needs."""
        kinds = self.protocol.kinds
        for loop, user_id, event_id in self.event_columns.tolist():
            yield timing.GameEvent(loop, user_id, kinds[event_id])

    def action_frames(self) -> dict[int, list[int]]:
        """Returns, per player id, the ascending game loops on which the player acted."""
        return timing.action_frames(self.game_events())

    def full_game_events(self) -> Iterator[dict[str, Any]]:
        """Yields every game event as s2protocol decodes it, without `_bits`."""
        data, protocol = self._required(_GAME_EVENTS), self.protocol
        self.event_columns  # noqa: B018 - checks the whole stream fast, before the slow walk
        reader = BitPackedReader(data, protocol.types, self._limits.meter())
        loop = 0
        while not reader.done:
            reader.meter = self._limits.meter()
            with _damage(_GAME_EVENTS):
                (delta,) = reader.value(protocol.delta).values()
                user = reader.value(protocol.user or 0)
                event_id = reader.value(protocol.event_id or 0)
                number, name = protocol.event_types[event_id]
                event = reader.value(number)
            loop += delta
            reader.align()
            yield {
                **event,
                "_event": name,
                "_eventid": event_id,
                "_gameloop": loop,
                "_userid": user,
            }

    def tracker_events(self) -> Iterator[dict[str, Any]]:
        """Yields every tracker event as s2protocol decodes it; none if there is no stream."""
        protocol = self.protocol
        data = self._optional(_TRACKER_EVENTS)
        if data is None or protocol.tracker_id is None:
            return
        reader = TaggedReader(data, self._limits.meter())
        loop = count = 0
        while not reader.done:
            reader.meter = self._limits.meter()
            count += 1
            with _damage(_TRACKER_EVENTS):
                if count > self._limits.events:
                    raise errors.FormatError(f"more than {count - 1} events")
                delta, event_id, event = reader.value(), reader.value(), reader.value()
                loop += _tracker_delta(delta)
                if (
                    not isinstance(event_id, int)
                    or event_id not in protocol.tracker_types
                ):
                    raise errors.FormatError(
                        f"expected an event, found id {event_id!r}"
                    )
                if not isinstance(event, dict):
                    raise errors.FormatError("expected a struct for an event")
            number, name = protocol.tracker_types[event_id]
            yield {
                **tagged.named(event, protocol.types, number),
                "_event": name,
                "_eventid": event_id,
                "_gameloop": loop,
            }

    def member(self, name: str) -> bytes | None:
        """Returns the unpacked bytes of a member like "replay.details", None if absent.

        KeyError for a member that this module does not read.
        """
        return self._optional(_MEMBERS[name])

    def _required(self, member: _Member) -> bytes:
        data = self._optional(member)
        if data is None:
            raise errors.ReplayError(member.missing, f"{member.name} is not there")
        return data

    def _optional(self, member: _Member) -> bytes | None:
        names = [f"{member.name}.backup"] if member.backup else []
        for name in [*names, member.name]:
            try:
                data = self._archive.read(name, getattr(self._limits, member.limit))
            except errors.ReplayError as error:
                # What is wrong with the member matters more than where in it.
                large = error.reason == RejectReason.TOO_LARGE
                reason = member.too_large if large else member.damaged
                raise errors.ReplayError(reason, error.detail) from error
            if data is not None:
                return data
        return None

    def _tagged(self, data: bytes, reason: RejectReason, where: str) -> dict[int, Any]:
        try:
            fields = TaggedReader(data, self._limits.meter()).value()
        except errors.FormatError as error:
            raise errors.ReplayError(reason, f"{where}: {error}") from error
        if not isinstance(fields, dict):
            raise errors.ReplayError(
                reason, f"{where}: expected a struct, found {type(fields).__name__}"
            )
        return fields


@contextlib.contextmanager
def _damage(member: _Member) -> Iterator[None]:
    """Turns a FormatError into a ReplayError that names the member."""
    try:
        yield
    except errors.FormatError as error:
        raise errors.ReplayError(member.damaged, f"{member.name}: {error}") from error


def _tracker_delta(delta: Any) -> int:
    """Returns the loops between two tracker events: a choice between widths of number."""
    if not isinstance(delta, tuple) or not isinstance(delta[1], int):
        raise errors.FormatError(f"expected a number of loops, found {delta!r:.50}")
    return delta[1]


def open_replay(data: bytes, limits: Limits = DEFAULT_LIMITS) -> ReplayFile:
    """Returns the replay in these bytes; ReplayError if they are not one."""
    if len(data) > limits.file_bytes:
        raise errors.ReplayError(
            RejectReason.TOO_LARGE,
            f"expected a file of at most {limits.file_bytes} bytes, found {len(data)}",
        )
    return ReplayFile(Archive(data, max_table_entries=limits.table_entries), limits)


def replay_row(
    data: bytes,
    source: str = "",
    *,
    limits: Limits = DEFAULT_LIMITS,
    selection: Selection | None = None,
    events: bool = True,
) -> ReplayRow:
    """Returns the index row of a replay file; a damaged file gives a row with its reason.

    Args:
        data: the whole file.
        source: path or address of the file; its last part becomes the row's file_stem.
        limits: how much the replay may cost.
        selection: if given, game events (most of the work) are decoded only if the
            selection would keep the replay; the row then has complete=False.
        events: whether to decode game events at all.
    """
    fields: dict[str, Any] = {
        "replay_id": hashlib.sha256(data).hexdigest(),
        "file_stem": file_stem(source),
        "source": source,
        "size_bytes": len(data),
    }
    try:
        replay = open_replay(data, limits)
        header = replay.header
    except errors.ReplayError as error:
        return ReplayRow(**fields, status=error.reason, detail=error.detail)
    fields |= header._asdict()
    problems: list[errors.ReplayError] = []
    metadata = _tried(problems, lambda: replay.metadata)
    details = _tried(problems, lambda: replay.tagged_details)
    lobby = _tried(problems, lambda: replay.lobby)
    fields["layout"] = replay.layout
    fields |= facts.row_facts(metadata, details, lobby)
    if problems:
        fields |= {"status": problems[0].reason, "detail": problems[0].detail}
    row = ReplayRow(**fields)
    selected = selection is None or reject_reason(row, selection) is None
    if problems or not events or not selected:
        return dataclasses.replace(row, complete=bool(problems))
    count = _tried(problems, lambda: len(replay.event_columns))
    if problems:
        return dataclasses.replace(
            row, status=problems[0].reason, detail=problems[0].detail
        )
    return dataclasses.replace(row, game_events=count)


def file_stem(source: str) -> str:
    """Returns a file's name without folders, zip pack and suffix."""
    name = re.split(r"[/\\!]", source)[-1]
    return name.removesuffix(".SC2Replay")


def _tried(problems: list[errors.ReplayError], read: Callable[[], T]) -> T | None:
    """Returns what `read` returns; if it raises, adds the error to the list."""
    try:
        return read()
    except errors.ReplayError as error:
        problems.append(error)
        return None
