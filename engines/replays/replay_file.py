"""A replay file: header, metadata, details, initData and events, each read on demand.

In: the bytes of a `.SC2Replay`, from anyone. Out: its parts, and the row that the index
keeps. No game is needed. Every failure is a ReplayError whose reason is a RejectReason;
sizes, counts and time are bounded by `Limits`.
"""

import dataclasses
import functools
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from starmill.converters import timing
from starmill.engines.replays import (
    event_scan,
    facts,
    protocols,
)
from starmill.engines.replays import (
    tagged as values,
)
from starmill.engines.replays.archive import Archive
from starmill.schema import errors
from starmill.schema import selection as selection_lib
from starmill.schema.reasons import RejectReason
from starmill.schema.replay_row import ReplayRow

T = TypeVar("T")

_MIB = 1 << 20
# Tags of the tagged structs; the same in every build that s2protocol describes.
_VERSION, _LOOPS = 1, 3
_MAJOR, _MINOR, _REVISION, _BUILD, _BASE_BUILD = 1, 2, 3, 4, 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What a replay may cost: reading any file takes under two seconds and 512 MB.

    The defaults are several times what the largest real replays need.

    file_bytes: the largest seen is under 4 MiB.
    table_entries: of the archive's two tables; replays have up to 32 and 18.
    metadata_bytes, details_bytes, init_data_bytes, events_bytes: of a member, unpacked.
    events: game or tracker events of one replay.
    values: Python objects made when a member, or one event, is decoded whole.
    seconds: CPU time for that.
    """

    file_bytes: int = 32 * _MIB
    table_entries: int = 4096
    metadata_bytes: int = _MIB
    details_bytes: int = _MIB
    init_data_bytes: int = _MIB
    events_bytes: int = 16 * _MIB
    events: int = 1_000_000
    values: int = 300_000
    seconds: float = 2.0

    def __post_init__(self) -> None:
        """Checks that every limit lets something through."""
        bad = [name for name, value in vars(self).items() if value <= 0]
        if bad:
            raise errors.ConfigError(f"limits: expected positive values for {bad}")


DEFAULT_LIMITS = Limits()


class Header(NamedTuple):
    """What the user-data block says.

    game_version: "4.9.2.74741".  base_build: which protocol the replay is in.
    """

    game_version: str
    base_build: int
    duration_loops: int


class ReplayFile:
    """An opened replay. Properties decode when first asked for and may raise ReplayError."""

    def __init__(self, archive: Archive, limits: Limits) -> None:
        self._archive = archive
        self._limits = limits

    def _meter(self) -> values.Meter:
        deadline = time.thread_time() + self._limits.seconds
        return values.Meter(self._limits.values, deadline)

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
        if not all(isinstance(n, int) and 0 <= n < 1 << 31 for n in [*numbers, loops]):
            raise errors.ReplayError(
                RejectReason.BAD_HEADER,
                f"expected version and length, found {numbers} and {loops!r}",
            )
        *parts, base_build = numbers
        return Header(".".join(str(part) for part in parts), base_build, loops)  # type: ignore[arg-type]  # checked above

    @functools.cached_property
    def metadata(self) -> dict[str, Any]:
        """The JSON of replay.gamemetadata.json."""
        name = "replay.gamemetadata.json"
        data = self._member(
            (name,), self._limits.metadata_bytes, RejectReason.BAD_METADATA
        )
        if data is None:
            raise errors.ReplayError(RejectReason.NO_METADATA, f"{name} is not there")
        try:
            parsed = json.loads(data.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise errors.ReplayError(
                RejectReason.BAD_METADATA, f"{name}: {error}"
            ) from error
        if not isinstance(parsed, dict):
            raise errors.ReplayError(
                RejectReason.BAD_METADATA,
                f"{name}: expected an object, found {type(parsed).__name__}",
            )
        return parsed

    @functools.cached_property
    def protocol(self) -> protocols.Protocol:
        """How this replay's build encodes things; ReplayError if nobody knows."""
        return protocols.protocol(self.header.base_build)

    @functools.cached_property
    def tagged_details(self) -> dict[int, Any]:
        """replay.details with tags in place of names: all that a row needs, faster."""
        reason = RejectReason.BAD_DETAILS
        data = self._member(
            _either("replay.details"), self._limits.details_bytes, reason
        )
        if data is None:
            raise errors.ReplayError(reason, "replay.details is not there")
        return self._tagged(data, reason, "replay.details")

    @functools.cached_property
    def details(self) -> dict[str, Any]:
        """replay.details as s2protocol gives it."""
        named: dict[str, Any] = values.named(
            self.tagged_details, self.protocol.types, self.protocol.details
        )
        return named

    @functools.cached_property
    def _init_data(self) -> bytes:
        reason = RejectReason.BAD_INIT_DATA
        data = self._member(
            _either("replay.initData"), self._limits.init_data_bytes, reason
        )
        if data is None:
            raise errors.ReplayError(reason, "replay.initData is not there")
        return data

    @functools.cached_property
    def lobby(self) -> facts.Lobby:
        """The few fields of initData that a row needs, faster than all of them."""
        data, protocol = self._init_data, self.protocol
        try:
            found = event_scan.captured_fields(
                data, protocol.program, protocol.init_data
            )
        except errors.FormatError as error:
            raise errors.ReplayError(
                RejectReason.BAD_INIT_DATA, f"replay.initData: {error}"
            ) from error

        def flag(number: int) -> bool | None:
            seen = found.get(number)
            return bool(seen[0]) if seen else None

        return facts.Lobby(
            amm=flag(protocols.AMM),
            competitive=flag(protocols.COMPETITIVE),
            cooperative=flag(protocols.COOPERATIVE),
            slot_users=found.get(protocols.USER, []),
            slot_controls=found.get(protocols.CONTROL, []),
            slot_observes=found.get(protocols.OBSERVE, []),
            ratings=found.get(protocols.RATING, []),
        )

    @functools.cached_property
    def init_data(self) -> dict[str, Any]:
        """replay.initData as s2protocol gives it."""
        data, protocol = self._init_data, self.protocol
        reader = values.BitReader(data, protocol.types, self._meter())
        try:
            value: dict[str, Any] = reader.value(protocol.init_data)
        except errors.FormatError as error:
            raise errors.ReplayError(
                RejectReason.BAD_INIT_DATA, f"replay.initData: {error}"
            ) from error
        return value

    @functools.cached_property
    def event_columns(self) -> NDArray[np.int64]:
        """(game loop, user id, event id) of every game event, shape [events, 3]."""
        data, protocol = self._events(), self.protocol
        if protocol.event_id is None or protocol.user is None:
            raise errors.ReplayError(
                RejectReason.BAD_EVENTS,
                f"s2protocol does not describe game events of build {protocol.base_build}",
            )
        try:
            return event_scan.event_columns(
                data,
                protocol.program,
                delta_type=protocol.delta,
                user_type=protocol.user,
                id_type=protocol.event_id,
                event_types=protocol.event_type_numbers,
                max_events=self._limits.events,
            )
        except errors.FormatError as error:
            raise errors.ReplayError(
                RejectReason.BAD_EVENTS, f"replay.game.events: {error}"
            ) from error

    def game_events(self) -> Iterator[timing.GameEvent]:
        """Yields every game event's loop, user and kind: what `timing` needs."""
        kinds = self.protocol.kinds
        for loop, user_id, number in self.event_columns.tolist():
            yield timing.GameEvent(loop, user_id, kinds[number])

    def action_frames(self) -> dict[int, list[int]]:
        """Returns, per player id, the ascending game loops on which the player acted."""
        return timing.action_frames(self.game_events())

    def full_game_events(self) -> Iterator[dict[str, Any]]:
        """Yields every game event whole, as s2protocol does (but for `_bits`)."""
        data, protocol = self._events(), self.protocol
        self.event_columns  # noqa: B018 - checks the whole stream, fast, before the slow walk
        reader = values.BitReader(data, protocol.types, self._meter())
        loop = 0
        while not reader.done:
            reader.meter = self._meter()
            try:
                (delta,) = reader.value(protocol.delta).values()
                user = reader.value(protocol.user or 0)
                number = reader.value(protocol.event_id or 0)
                type_number, name = protocol.event_types[number]
                event = reader.value(type_number)
            except errors.FormatError as error:
                raise errors.ReplayError(
                    RejectReason.BAD_EVENTS, f"replay.game.events: {error}"
                ) from error
            loop += delta
            reader.align()
            yield {
                **event,
                "_event": name,
                "_eventid": number,
                "_gameloop": loop,
                "_userid": user,
            }

    def tracker_events(self) -> Iterator[dict[str, Any]]:
        """Yields every tracker event as s2protocol does; none if the replay has none."""
        protocol, name = self.protocol, "replay.tracker.events"
        data = self._member((name,), self._limits.events_bytes, RejectReason.BAD_EVENTS)
        if data is None or protocol.tracker_id is None:
            return
        reader = values.TaggedReader(data, self._meter())
        loop = events = 0
        while not reader.done:
            reader.meter = self._meter()
            events += 1
            try:
                if events > self._limits.events:
                    raise errors.FormatError(f"more than {events - 1} events")
                delta, number, event = reader.value(), reader.value(), reader.value()
                loop += _tracker_delta(delta)
                if not isinstance(number, int) or number not in protocol.tracker_types:
                    raise errors.FormatError(f"expected an event, found id {number!r}")
                if not isinstance(event, dict):
                    raise errors.FormatError("expected a struct for an event")
            except errors.FormatError as error:
                raise errors.ReplayError(
                    RejectReason.BAD_EVENTS, f"{name}: {error}"
                ) from error
            type_number, full_name = protocol.tracker_types[number]
            yield {
                **values.named(event, protocol.types, type_number),
                "_event": full_name,
                "_eventid": number,
                "_gameloop": loop,
            }

    @property
    def layout(self) -> str:
        """Which members there are: "full", "pack" (only backups), "old" (no metadata)."""
        if "replay.gamemetadata.json" not in self._archive:
            return "old"
        return "full" if "replay.details" in self._archive else "pack"

    def _events(self) -> bytes:
        name, limit = "replay.game.events", self._limits.events_bytes
        try:
            data = self._member((name,), limit, RejectReason.BAD_EVENTS)
        except errors.ReplayError as error:
            if error.reason != RejectReason.TOO_LARGE:
                raise
            raise errors.ReplayError(
                RejectReason.EVENTS_TOO_LARGE, error.detail
            ) from error
        if data is None:
            raise errors.ReplayError(RejectReason.NO_EVENTS, f"{name} is not there")
        return data

    def _member(
        self, names: tuple[str, ...], max_bytes: int, reason: RejectReason
    ) -> bytes | None:
        """Returns the first of these members that is there."""
        for name in names:
            try:
                data = self._archive.read(name, max_bytes)
            except errors.ReplayError as error:
                if error.reason == RejectReason.TOO_LARGE:
                    raise
                # What is wrong with the member matters more than where in it.
                raise errors.ReplayError(reason, error.detail) from error
            if data is not None:
                return data
        return None

    def _tagged(self, data: bytes, reason: RejectReason, where: str) -> dict[int, Any]:
        try:
            fields = values.TaggedReader(data, self._meter()).value()
        except errors.FormatError as error:
            raise errors.ReplayError(reason, f"{where}: {error}") from error
        if not isinstance(fields, dict):
            raise errors.ReplayError(
                reason, f"{where}: expected a struct, found {type(fields).__name__}"
            )
        return fields


def _tracker_delta(delta: Any) -> int:
    """Returns the loops between two tracker events: a choice of widths of number."""
    if not isinstance(delta, tuple) or not isinstance(delta[1], int):
        raise errors.FormatError(f"expected a number of loops, found {delta!r:.50}")
    return delta[1]


def _either(name: str) -> tuple[str, str]:
    # Official packs have only the backup; where both are there, it is the one not edited.
    return f"{name}.backup", name


def open_replay(data: bytes, limits: Limits = DEFAULT_LIMITS) -> ReplayFile:
    """Returns the replay in these bytes; ReplayError if they hold none."""
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
    selection: selection_lib.Selection | None = None,
    events: bool = True,
) -> ReplayRow:
    """Returns the row of a replay file; a damaged file gives a row with its reason.

    Args:
        data: the whole file.
        source: where it is from; its last part names the row's file_stem.
        limits: what the replay may cost.
        selection: where given, game events (most of the work) are decoded only if the
            selection would keep the replay; the row then has complete=False.
        events: whether to decode game events at all.
    """
    known: dict[str, Any] = {
        "replay_id": hashlib.sha256(data).hexdigest(),
        "file_stem": file_stem(source),
        "source": source,
        "size_bytes": len(data),
    }
    try:
        replay = open_replay(data, limits)
        header = replay.header
    except errors.ReplayError as error:
        return ReplayRow(**known, status=error.reason, detail=error.detail)
    known |= header._asdict()
    problems: list[errors.ReplayError] = []
    metadata = _tried(problems, lambda: replay.metadata)
    details = _tried(problems, lambda: replay.tagged_details)
    lobby = _tried(problems, lambda: replay.lobby)
    known["layout"] = replay.layout
    known |= facts.row_facts(metadata, details, lobby)
    if problems:
        known |= {"status": problems[0].reason, "detail": problems[0].detail}
    row = ReplayRow(**known)
    wanted = selection is None or selection_lib.reject_reason(row, selection) is None
    if problems or not events or not wanted:
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
    """Returns what `read` gives; None, and the problem on the list, if it cannot."""
    try:
        return read()
    except errors.ReplayError as error:
        problems.append(error)
        return None
