"""Decides which replays, and which sides of them, belong in a dataset.

In: a `ReplayRow`, and a `Selection` from JSON or a preset. Out: None if the replay is kept, or
the first rule that it fails, as a `RejectReason`. Rules apply in the order of RejectReason. The
split follows from the replay's id (or from lists), so both sides of a game are in the same
split. Must not know how replays are read or played.
"""

import csv
import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import fsspec

from starmill.schema import errors, game_constants
from starmill.schema.archives import json_text
from starmill.schema.reasons import MmrSource, RejectReason
from starmill.schema.replay_row import ReplayRow

SPLITS = ("train", "valid", "test")
# Of a thousand replays, how many are in valid and in test; the rest are in train.
VALID_PERMILLE, TEST_PERMILLE = 20, 20

# A problem with the file comes before all rules, with two exceptions. A row with a
# problem in the lobby still has the values for the rules up to VERSION, and a row with
# a problem in the events has the values for all rules.
LOBBY_PROBLEMS = frozenset(
    {RejectReason.NO_PROTOCOL, RejectReason.BAD_DETAILS, RejectReason.BAD_INIT_DATA}
)
EVENT_PROBLEMS = (
    RejectReason.NO_EVENTS,
    RejectReason.BAD_EVENTS,
    RejectReason.EVENTS_TOO_LARGE,
)
# If the two sides of a replay fail different rules, the later one of this list is the replay's. Bad
# events count as the last rules, although RejectReason lists them among the first.
REASON_ORDER = (
    *(reason for reason in RejectReason if reason not in EVENT_PROBLEMS),
    *EVENT_PROBLEMS,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """Rules for replays and their sides. None or empty means that there is no such rule.

    Attributes:
        name: what counters and manifests call the selection.
        engine: the game that made the replay, "sc2" or "skirmish".
        min_version: the oldest game version to keep, like "4.8.2"; only as many parts are
            compared as are given.
        max_version: the newest game version to keep, likewise.
        ladder: whether to keep only ranked ladder games (matched by the ladder, competitive).
        two_humans: whether to keep only games of exactly two players, both human.
        min_mmr: ratings must be *above* this.
        mmr_scope: whose rating: "own" for the episode's player, "both" for both players.
        mmr_source: "any", or "metadata" to reject ratings that only initData has.
        maps: English names, with or without the " LE" of ladder editions.
        races: races that the episode's player may have: "terran", "zerg", "protoss".
        outcomes: results that the episode's player may have: "Win", "Loss", "Tie". The
            opponent's result must be the opposite, so undecided games are rejected.
        min_loops: the shortest game to keep, in game loops.
        include: replay ids or file stems to keep; empty for all.
        exclude: replay ids or file stems to reject.
        splits: replay ids or file stems by split. If there are any, all other replays are
            rejected, and these are in the given splits.
    """

    name: str = "custom"
    engine: str | None = None
    min_version: str | None = None
    max_version: str | None = None
    ladder: bool = False
    two_humans: bool = False
    min_mmr: int | None = None
    mmr_scope: str = "own"
    mmr_source: str = "any"
    maps: tuple[str, ...] = ()
    races: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    min_loops: int = 0
    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()
    splits: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Returns the rules as JSON, with lists of replays as their length and digest.

        A list can have a million names; its digest is enough to compare it with another.
        """
        out = dataclasses.asdict(self)
        for field in ("maps", "races", "outcomes"):
            out[field] = list(out[field])
        for field in ("include", "exclude"):
            out[field] = _summary(out[field])
        out["splits"] = {
            name: _summary(self.splits[name]) for name in SPLITS if name in self.splits
        }
        return out

    def __post_init__(self) -> None:
        """Raises ConfigError, naming every field that makes no sense."""
        problems = [
            *_one_of(
                "engine", [self.engine] if self.engine else [], ("sc2", "skirmish")
            ),
            *_one_of("mmr_scope", [self.mmr_scope], ("own", "both")),
            *_one_of("mmr_source", [self.mmr_source], ("any", "metadata")),
            *_one_of("races", self.races, tuple(game_constants.RACE_IDS)),
            *_one_of("outcomes", self.outcomes, ("Win", "Loss", "Tie")),
            *_one_of("splits", self.splits, SPLITS),
        ]
        for field in ("min_version", "max_version"):
            text = getattr(self, field)
            if text is not None and not all(part.isdigit() for part in text.split(".")):
                problems.append(f"{field}: expected numbers and dots, found {text!r}")
        if self.min_loops < 0:
            problems.append(f"min_loops: expected 0 or more, found {self.min_loops}")
        listed: set[str] = set()
        for name in SPLITS:
            members = self.splits.get(name, frozenset())
            if listed & members:
                twice = sorted(listed & members)[0]
                problems.append(f"splits: {twice!r} is in more than one split")
            listed |= members
        if problems:
            raise errors.ConfigError(f"selection {self.name!r}: " + "; ".join(problems))


def _summary(names: frozenset[str]) -> dict[str, Any]:
    digest = hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()
    return {"count": len(names), "sha256": digest}


def _one_of(field: str, values: Any, allowed: Sequence[str]) -> list[str]:
    unknown = sorted(set(values) - set(allowed))
    if not unknown:
        return []
    return [f"{field}: expected some of {list(allowed)}, found {unknown}"]


def reject_reason(row: ReplayRow, selection: Selection) -> RejectReason | None:
    """Returns None if any side of the replay is kept, otherwise the first rule that it fails.

    If the two sides fail different rules, this is the later one of the two.
    """
    return _later_reason(
        [episode_reject_reason(row, player, selection) for player in (1, 2)]
    )


def _later_reason(
    side_reasons: Iterable[RejectReason | None],
) -> RejectReason | None:
    reasons = list(side_reasons)
    if None in reasons:
        return None
    return max((reason for reason in reasons if reason), key=REASON_ORDER.index)


class Judgement(NamedTuple):
    """What a selection decides about one replay.

    Attributes:
        reason: None if at least one side is kept, otherwise what `reject_reason` returns.
        sides: the players whose sides are kept: 1, 2 or both.
        unselected: the first rule that each other side fails, by player.
        split: "train", "valid" or "test"; meaningless if no side is kept.
    """

    reason: RejectReason | None
    sides: tuple[int, ...]
    unselected: Mapping[int, RejectReason]
    split: str


def judge(row: ReplayRow, selection: Selection) -> Judgement:
    """Returns which sides of a replay the selection keeps, and why it rejects the others."""
    reasons = {side: episode_reject_reason(row, side, selection) for side in (1, 2)}
    return Judgement(
        reason=_later_reason(reasons.values()),
        sides=tuple(side for side, reason in reasons.items() if reason is None),
        unselected={side: reason for side, reason in reasons.items() if reason},
        split=split_in(row, selection),
    )


def episode_reject_reason(
    row: ReplayRow, player: int, selection: Selection
) -> RejectReason | None:
    """Returns None if this side of the replay is kept, otherwise the first rule that it fails.

    Args:
        row: the replay.
        player: 1 or 2, the position among the row's players.
        selection: the rules.
    """
    problem = None if row.status == "ok" else RejectReason(row.status)
    if problem is not None and problem not in {*LOBBY_PROBLEMS, *EVENT_PROBLEMS}:
        return problem
    reason = _file_rules(row, selection)
    if reason is None and problem in LOBBY_PROBLEMS:
        reason = problem
    return reason or _game_rules(row, player, selection) or problem


def _file_rules(row: ReplayRow, selection: Selection) -> RejectReason | None:
    names = {row.replay_id, row.file_stem}
    if names & selection.exclude:
        return RejectReason.EXCLUDED
    if selection.include and not names & selection.include:
        return RejectReason.NOT_LISTED
    if selection.splits and not any(names & m for m in selection.splits.values()):
        return RejectReason.NOT_LISTED
    if selection.engine is not None and row.engine != selection.engine:
        return RejectReason.ENGINE
    if not version_fits(row.game_version, selection):
        return RejectReason.VERSION
    return None


def version_fits(version: str | None, selection: Selection) -> bool:
    """Returns whether a game version is between the selection's oldest and newest."""
    low, high = selection.min_version, selection.max_version
    if low is None and high is None:
        return True
    if version is None:
        return False
    parts = _parts(version)
    if low is not None and parts[: len(_parts(low))] < _parts(low):
        return False
    return high is None or parts[: len(_parts(high))] <= _parts(high)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _game_rules(
    row: ReplayRow, player: int, selection: Selection
) -> RejectReason | None:
    own = row.players[player - 1]
    if selection.ladder and not row.ladder:
        return RejectReason.LADDER
    if selection.two_humans and not row.human_players == row.players_listed == 2:
        return RejectReason.PLAYERS
    reason = _mmr_rule(row, player, selection)
    if reason is not None:
        return reason
    if selection.maps and not map_fits(row.map_name, selection.maps):
        return RejectReason.MAP
    if selection.races and own.race_name not in selection.races:
        return RejectReason.RACE
    if selection.outcomes and not _outcome_fits(row, player, selection.outcomes):
        return RejectReason.OUTCOME
    if (row.duration_loops or 0) < selection.min_loops:
        return RejectReason.LENGTH
    return None


def _mmr_rule(row: ReplayRow, player: int, selection: Selection) -> RejectReason | None:
    if selection.min_mmr is None:
        return None
    sides = row.players if selection.mmr_scope == "both" else (row.players[player - 1],)
    usable = {MmrSource.METADATA}
    if selection.mmr_source == "any":
        usable.add(MmrSource.INIT_DATA)
    if any(side.mmr is None or side.mmr_source not in usable for side in sides):
        return RejectReason.MMR_UNKNOWN
    if any((side.mmr or 0) <= selection.min_mmr for side in sides):
        return RejectReason.MMR
    return None


def map_fits(name: str | None, maps: Sequence[str]) -> bool:
    """Returns whether a map is one of these, with or without " LE"."""
    short = (name or "").removesuffix(" LE")
    return short in {item.removesuffix(" LE") for item in maps}


def _outcome_fits(row: ReplayRow, player: int, outcomes: Sequence[str]) -> bool:
    """Returns whether a side's result may be kept and the other side's is the opposite."""
    own, other = row.players[player - 1], row.players[2 - player]
    if own.result not in outcomes or own.outcome is None or other.outcome is None:
        return False
    return own.outcome == -other.outcome


def split_of(replay_id: str) -> str:
    """Returns "train", "valid" or "test" by a hash of the replay's id."""
    digest = hashlib.sha256(f"starmill split 1:{replay_id}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") % 1000
    if place < TEST_PERMILLE:
        return "test"
    return "valid" if place < TEST_PERMILLE + VALID_PERMILLE else "train"


def split_in(row: ReplayRow, selection: Selection) -> str:
    """Returns the split that lists a replay, or `split_of` its id if none does."""
    listed = listed_split(selection, row.replay_id, row.file_stem)
    return listed or split_of(row.replay_id)


def listed_split(selection: Selection, *names: str) -> str | None:
    """Returns the split whose list has one of these names; None if none has."""
    for split in SPLITS:
        if not selection.splits.get(split, frozenset()).isdisjoint(names):
            return split
    return None


# Paper: versions 4.8.2 to 4.9.2, ranked 1v1, the episode's own player above 3500 MMR.
# Its ten maps are those of the ladder in these versions, so it needs no rule for maps.
_PAPER = Selection(
    name="unplugged",
    engine="sc2",
    min_version="4.8.2",
    max_version="4.9.2",
    ladder=True,
    two_humans=True,
    min_mmr=3500,
    outcomes=("Win", "Loss", "Tie"),
)
PRESETS: dict[str, Selection] = {
    "unplugged": _PAPER,
    # Paper: fine-tuning on games that players above 6200 MMR won.
    "unplugged-finetune": dataclasses.replace(
        _PAPER, name="unplugged-finetune", min_mmr=6200, outcomes=("Win",)
    ),
    # The embedded game's ladder: the same rules, without limits on version and MMR.
    "skirmish": Selection(
        name="skirmish",
        engine="skirmish",
        ladder=True,
        two_humans=True,
        outcomes=("Win", "Loss", "Tie"),
    ),
}


def load(reference: str) -> Selection:
    """Returns the selection of a preset's name, or of the path of a JSON file.

    The JSON has the fields of `Selection`; `"preset": NAME` starts from that preset.
    A list of replays (`include`, `exclude`, a value of `splits`) is a JSON list or the
    path of a text or CSV file, relative to the JSON file.
    """
    if reference in PRESETS:
        return PRESETS[reference]
    try:
        data = json_text.parse(_read_text(reference))
    except (OSError, ValueError) as error:
        raise errors.ConfigError(
            f"selection {reference!r}: expected one of {sorted(PRESETS)} or a JSON file: "
            f"{error}"
        ) from error
    if not isinstance(data, dict):
        raise errors.ConfigError(f"selection {reference!r}: expected a JSON object")
    folder = reference.rpartition("/")[0]
    return from_json(data, folder)


def from_json(data: Mapping[str, Any], folder: str = "") -> Selection:
    """Returns a selection from its JSON form; ConfigError if a key is unknown."""
    values = dict(data)
    preset = values.pop("preset", None)
    if preset is not None and preset not in PRESETS:
        raise errors.ConfigError(
            f"selection: expected a preset of {sorted(PRESETS)}, found {preset!r}"
        )
    known = {field.name for field in dataclasses.fields(Selection)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise errors.ConfigError(
            f"selection: unknown keys {unknown}; expected some of {sorted(known)}"
        )
    problems = [
        f"{key}: expected {kind.__name__}, found {values[key]!r}"
        for key, kind in _JSON_TYPES.items()
        if key in values and not _is_kind(values[key], kind, key in _MAY_BE_NULL)
    ]
    if problems:
        raise errors.ConfigError("selection: " + "; ".join(problems))
    for key in ("maps", "races", "outcomes"):
        if key in values:
            values[key] = tuple(values[key])
    for key in ("include", "exclude"):
        if key in values:
            values[key] = _names(values[key], folder, key)
    if "splits" in values:
        values["splits"] = {
            name: _names(members, folder, f"splits.{name}")
            for name, members in values["splits"].items()
        }
    return dataclasses.replace(PRESETS.get(preset or "", Selection()), **values)


_JSON_TYPES: dict[str, type] = {
    "name": str,
    "engine": str,
    "min_version": str,
    "max_version": str,
    "ladder": bool,
    "two_humans": bool,
    "min_mmr": int,
    "mmr_scope": str,
    "mmr_source": str,
    "maps": list,
    "races": list,
    "outcomes": list,
    "min_loops": int,
    "splits": dict,
}


_MAY_BE_NULL = ("engine", "min_version", "max_version", "min_mmr")


def _is_kind(value: Any, kind: type, may_be_null: bool) -> bool:
    if value is None:
        return may_be_null
    if isinstance(value, list):
        return kind is list and all(isinstance(item, str) for item in value)
    return type(value) is kind  # not isinstance, for which True is an int


def _names(value: Any, folder: str, where: str) -> frozenset[str]:
    if isinstance(value, str):
        path = f"{folder}/{value}" if folder and not _is_absolute(value) else value
        try:
            return listed_names(_read_text(path))
        except (OSError, ValueError) as error:
            raise errors.ConfigError(f"selection: {where}: {error}") from error
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise errors.ConfigError(
            f"selection: {where}: expected a list of replays or the path of one, "
            f"found {type(value).__name__}"
        )
    return frozenset(name.removesuffix(_SUFFIX) for name in value)


def listed_names(text: str) -> frozenset[str]:
    """Returns the replays on a list: one a line, as `name` or as `version,name`.

    That is how the lists of the paper's train and test replays are written. Names are
    those of the files in the packs, with or without suffix; a heading is left out.
    """
    names = set()
    for row in csv.reader(text.splitlines()):
        cells = [cell.strip() for cell in row if cell.strip()]
        if cells and cells[-1].lower() not in _HEADINGS:
            names.add(cells[-1].removesuffix(_SUFFIX))
    return frozenset(names)


_SUFFIX = ".SC2Replay"
_HEADINGS = frozenset(
    {"file", "file_stem", "hash", "name", "replay", "replay_id", "replay_hash"}
)


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or "://" in path


def _read_text(path: str) -> str:
    with fsspec.open(path, "r", encoding="utf-8") as file:
        text: str = file.read()
    return text
