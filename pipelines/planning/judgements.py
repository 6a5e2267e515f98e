"""What a selection decides about many replays at once: the rules of `schema.selection`, by column.

In: a batch of an index's rows, and a selection. Out: for each row and side, the first rule that
fails, as numbers. One call judges tens of thousands of rows, without an object for each. The
rules themselves are those of `schema.selection`, which decides on single rows; a test compares both.
"""

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from starmill.schema import selection
from starmill.schema.reasons import MmrSource, RejectReason
from starmill.schema.replay_row import OUTCOMES, PlayerRow
from starmill.schema.selection import Selection

# In the order in which the two sides' reasons are compared: the later one is the replay's.
REASONS: tuple[RejectReason, ...] = selection.REASON_ORDER
KEPT = -1
_CODES = {reason: code for code, reason in enumerate(REASONS)}
# In place of an outcome that is not known.
_NO_OUTCOME = 9
# The columns of an index that a selection looks at.
COLUMNS = (
    "replay_id", "file_stem", "status", "engine", "game_version", "ladder", "map_name",
    "duration_loops", "human_players", "players_listed",
    *(f"p{player}_{name}" for player in (1, 2) for name in ("race", "mmr", "mmr_source", "result")),
)  # fmt: skip


class Judgements(NamedTuple):
    """What a selection decides about the rows of a batch.

    Attributes:
        replays: code of the reason why no side of a row is kept, or KEPT. Shape [N].
        sides: code of the first rule that player 1's and player 2's side fails, or KEPT.
            Shape [2, N].
    """

    replays: NDArray[np.int8]
    sides: NDArray[np.int8]


def judge(batch: pa.RecordBatch, rules: Selection) -> Judgements:
    """Returns the judgements of the rows, which have at least COLUMNS."""
    problems = _by_value(
        batch,
        "status",
        lambda text: KEPT if text == "ok" else _CODES[RejectReason(text or "")],
    )
    is_lobby = np.isin(problems, [_CODES[r] for r in selection.LOBBY_PROBLEMS])
    is_events = np.isin(problems, [_CODES[r] for r in selection.EVENT_PROBLEMS])
    file_rules = _file_rules(batch, rules)
    sides = []
    for player in (1, 2):
        codes = np.where(is_lobby | is_events, KEPT, problems).astype(np.int8)
        for reason, fails in file_rules:
            _apply(codes, reason, fails)
        codes = np.where((codes == KEPT) & is_lobby, problems, codes).astype(np.int8)
        for reason, fails in _game_rules(batch, player, rules):
            _apply(codes, reason, fails)
        sides.append(np.where((codes == KEPT) & is_events, problems, codes))
    both = np.array(sides, np.int8)
    replays = np.where((both == KEPT).any(axis=0), KEPT, both.max(axis=0))
    return Judgements(replays.astype(np.int8), both)


def splits(batch: pa.RecordBatch, rules: Selection) -> list[str]:
    """Returns the split of each row."""
    ids = batch.column("replay_id").to_pylist()
    if not rules.splits:
        return [selection.split_of(replay_id) for replay_id in ids]
    stems = batch.column("file_stem").to_pylist()
    return [
        selection.listed_split(rules, replay_id, stem) or selection.split_of(replay_id)
        for replay_id, stem in zip(ids, stems, strict=True)
    ]


def _apply(
    codes: NDArray[np.int8], reason: RejectReason, fails: NDArray[np.bool_]
) -> None:
    codes[(codes == KEPT) & fails] = _CODES[reason]


_Rules = Iterable[tuple[RejectReason, NDArray[np.bool_]]]


def _file_rules(
    batch: pa.RecordBatch, rules: Selection
) -> list[tuple[RejectReason, NDArray[np.bool_]]]:
    out = []
    if rules.exclude:
        out.append((RejectReason.EXCLUDED, _is_listed(batch, rules.exclude)))
    if rules.include:
        out.append((RejectReason.NOT_LISTED, ~_is_listed(batch, rules.include)))
    if rules.splits:
        listed = frozenset().union(*rules.splits.values())
        out.append((RejectReason.NOT_LISTED, ~_is_listed(batch, listed)))
    if rules.engine is not None:
        engine = _by_value(batch, "engine", lambda name: name == rules.engine)
        out.append((RejectReason.ENGINE, ~engine.astype(bool)))
    fits = _by_value(
        batch, "game_version", lambda text: selection.version_fits(text, rules)
    )
    out.append((RejectReason.VERSION, ~fits.astype(bool)))
    return out


def _game_rules(batch: pa.RecordBatch, player: int, rules: Selection) -> _Rules:
    if rules.ladder:
        ladder = batch.column("ladder").fill_null(False)
        yield RejectReason.LADDER, ~np.asarray(ladder, bool)
    if rules.two_humans:
        humans, listed = (
            _numbers(batch, "human_players"),
            _numbers(batch, "players_listed"),
        )
        yield RejectReason.PLAYERS, (humans != 2) | (listed != 2)
    if rules.min_mmr is not None:
        yield from _mmr_rules(batch, player, rules)
    if rules.maps:
        fits = _by_value(
            batch, "map_name", lambda name: selection.map_fits(name, rules.maps)
        )
        yield RejectReason.MAP, ~fits.astype(bool)
    if rules.races:
        fits = _by_value(
            batch,
            f"p{player}_race",
            lambda code: PlayerRow(race=code).race_name in rules.races,
        )
        yield RejectReason.RACE, ~fits.astype(bool)
    if rules.outcomes:
        own, other = f"p{player}_result", f"p{3 - player}_result"
        is_wanted = _by_value(batch, own, lambda text: text in rules.outcomes)
        outcome, opposite = _outcomes(batch, own), _outcomes(batch, other)
        is_known = (outcome != _NO_OUTCOME) & (opposite != _NO_OUTCOME)
        fits = is_wanted.astype(bool) & is_known & (outcome == -opposite)
        yield RejectReason.OUTCOME, ~fits
    if rules.min_loops:
        yield RejectReason.LENGTH, _numbers(batch, "duration_loops") < rules.min_loops


def _mmr_rules(batch: pa.RecordBatch, player: int, rules: Selection) -> _Rules:
    usable = {MmrSource.METADATA.value}
    if rules.mmr_source == "any":
        usable.add(MmrSource.INIT_DATA.value)
    unknown = np.zeros(batch.num_rows, bool)
    low = np.zeros(batch.num_rows, bool)
    for side in (1, 2) if rules.mmr_scope == "both" else (player,):
        known = _by_value(batch, f"p{side}_mmr_source", lambda text: text in usable)
        rating = batch.column(f"p{side}_mmr")
        unknown |= np.asarray(rating.is_null(), bool) | ~known.astype(bool)
        low |= _numbers(batch, f"p{side}_mmr") <= (rules.min_mmr or 0)
    yield RejectReason.MMR_UNKNOWN, unknown
    yield RejectReason.MMR, low


def _outcomes(batch: pa.RecordBatch, name: str) -> NDArray[np.int8]:
    def number(text: str | None) -> int:
        outcome = OUTCOMES.get(text or "")
        return _NO_OUTCOME if outcome is None else outcome

    return _by_value(batch, name, number)


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """Returns a column of integers, with 0 where it has no value."""
    return np.asarray(batch.column(name).fill_null(0), np.int64)


def _by_value(
    batch: pa.RecordBatch, name: str, function: Callable[[str | None], int]
) -> NDArray[np.int8]:
    """Returns a function of each row's text, which is called once for each different text."""
    texts = batch.column(name)
    if not isinstance(texts, pa.DictionaryArray):
        texts = texts.dictionary_encode(null_encoding="encode")
    values = np.array(
        [function(text) for text in texts.dictionary.to_pylist()], np.int8
    )
    if texts.null_count:
        values = np.append(values, np.int8(function(None)))
    places = texts.indices.fill_null(len(values) - 1)
    return values[np.asarray(places, np.int64)] if len(values) else np.zeros(0, np.int8)


def _is_listed(batch: pa.RecordBatch, names: frozenset[str]) -> NDArray[np.bool_]:
    members = _members(names)
    either = pc.or_(
        pc.is_in(batch.column("replay_id"), members),
        pc.is_in(batch.column("file_stem"), members),
    )
    return np.asarray(either, bool)


@functools.lru_cache(maxsize=8)
def _members(names: frozenset[str]) -> pa.Array:
    return pa.array(sorted(names), pa.string())
