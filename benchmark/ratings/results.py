"""Games on disk: one CSV row per game, appended durably and read strictly.

In and out: rows. Any CSV with the columns home, away, home_race, away_race and outcome can be
rated. Files that `starmill evaluate` writes have all columns of `Result`. A row is written at
once and synced to disk before the next game starts; opening the file again drops a row that a
crash cut short.
"""

import csv
import dataclasses
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from starmill.benchmark.ratings import winrates
from starmill.schema import errors, storage

FILE = "results.csv"  # in the folder of an evaluation
REQUIRED = ("home", "away", "home_race", "away_race", "outcome")
_OUTCOMES = {"1": 1, "+1": 1, "1.0": 1, "0": 0, "0.0": 0, "-0": 0, "-1": -1, "-1.0": -1}
# A part of a path, on any system.
_NAME = re.compile(r"[^/\\:\x00-\x1f]{1,240}")
_SHOWN = 10  # problems listed before "and N more"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """One game as it was played.

    Attributes:
        game: its id in the schedule; resuming skips ids that are present.
        home: name of the first contestant.
        away: name of the second.
        home_race: as played.
        away_race: as played.
        outcome: 1 home won, 0 draw, -1 home lost.
        home_digest: identifies the player behind the name (`contestants`).
        away_digest: likewise.
        map_name: file name of the map, without folder and ending.
        seed: of the game.
        game_loops: the game's length.
        ending: "won" or "draw" by the engine; "limit" if it reached its last allowed loop;
            "adjudicated" if it did and `adjudication` decided it, which is never so in
            strict results.
        attempts: 1, plus one for each crash before.
        engine: name and version.
        replay: path relative to the results' folder; empty if none was kept.
    """

    game: str
    home: str
    away: str
    home_race: str
    away_race: str
    outcome: int
    home_digest: str
    away_digest: str
    map_name: str
    seed: int
    game_loops: int
    ending: str
    attempts: int
    engine: str
    replay: str

    def as_game(self) -> winrates.Game:
        """Returns the part that ratings need."""
        return winrates.Game(
            home=self.home,
            away=self.away,
            home_race=self.home_race,
            away_race=self.away_race,
            outcome=self.outcome,
        )


COLUMNS = tuple(field.name for field in dataclasses.fields(Result))
_INTEGERS = ("outcome", "seed", "game_loops", "attempts")


def read_games(path: Path) -> list[winrates.Game]:
    """Returns the games of a CSV, in its order; FormatError lists the rows that are wrong.

    Races may be in any case. Of the optional columns only `game` matters: an id that appears
    twice is an error, because a game must not count twice.
    """
    games: list[winrates.Game] = []
    problems: list[str] = []
    numbers: dict[str, int] = {}
    for line, row in _rows(path):
        if isinstance(row, str):
            problems.append(f"line {line}: {row}")
            continue
        number = row.get("game", "")
        if number and number in numbers:
            problems.append(
                f"line {line}: game {number!r} is on line {numbers[number]} already"
            )
            continue
        numbers[number] = line
        try:
            games.append(_game(row))
        except errors.FormatError as error:
            problems.append(f"line {line}: {error}")
    if problems:
        shown = "\n  ".join(problems[:_SHOWN])
        more = len(problems) - _SHOWN
        raise errors.FormatError(
            f"{path}: {len(problems)} of its rows cannot be read\n  {shown}"
            + (f"\n  and {more} more" if more > 0 else "")
        )
    if not games:
        raise errors.FormatError(f"{path}: expected at least one game, found none")
    return games


def read_results(path: Path) -> list[Result]:
    """Returns the rows that `Store` wrote; FormatError if a column is missing or wrong."""
    read_games(path)
    out = []
    for line, row in _rows(path):
        missing = [name for name in COLUMNS if name not in row]
        if missing or isinstance(row, str):
            raise errors.FormatError(
                f"{path}: not written by `starmill evaluate`: columns {', '.join(missing)} "
                "are missing"
            )
        try:
            numbers = {name: int(row[name]) for name in _INTEGERS}
        except ValueError as error:
            raise errors.FormatError(f"{path}: line {line}: {error}") from error
        text = {name: row[name] for name in COLUMNS if name not in _INTEGERS}
        if problem := _path_problem(text["game"], text["replay"]):
            raise errors.FormatError(f"{path}: line {line}: {problem}")
        out.append(Result(**{**text, **numbers}))  # type: ignore[arg-type]  # split by kind above
    return out


def _path_problem(game: str, replay: str) -> str | None:
    """Says what is wrong with a game's id or replay, which become names of files.

    Whoever wrote the results must not choose files outside their folder.
    """
    if not _NAME.fullmatch(game) or game in (".", ".."):
        return f"game: expected an id without slashes, found {_short(game)}"
    parts = replay.split("/") if replay else []
    if any(not _NAME.fullmatch(part) or part in (".", "..") for part in parts):
        return f"replay: expected a path inside the folder, found {_short(replay)}"
    return None


def write_results(path: Path, rows: Iterable[Result]) -> None:
    """Writes rows as a whole file, replacing the file if it exists."""
    lines = [_line(dataclasses.asdict(row)) for row in rows]
    storage.write(str(path), b"".join([_header(), *lines]))


def has_columns(path: Path) -> bool:
    """Returns whether the file has every column of a `Result`."""
    for _, row in _rows(path):
        return not isinstance(row, str) and all(name in row for name in COLUMNS)
    return False


class Store:
    """The file of results, to which rows are appended. It survives a kill at any moment.

    Attributes:
        done: rows by the game's id, those of earlier runs included.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._drop_torn_row()
        self.done: dict[str, Result] = {}
        if path.exists() and path.stat().st_size > len(_header()):
            self.done = {row.game: row for row in read_results(path)}
        self._file = path.open("ab", buffering=0)
        if not path.stat().st_size:
            self._write(_header())
            _sync_folder(path.parent)

    def append(self, result: Result) -> None:
        """Writes the row; when this returns, the row survives a power cut."""
        if result.game in self.done:
            raise errors.ConfigError(
                f"{self._path}: game {result.game} is already in the file"
            )
        self._write(_line(dataclasses.asdict(result)))
        self.done[result.game] = result

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        os.fsync(self._file.fileno())

    def _drop_torn_row(self) -> None:
        if not self._path.exists():
            return
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with self._path.open("r+b") as file:
                file.truncate(len(whole))
                os.fsync(file.fileno())


def _header() -> bytes:
    return (",".join(COLUMNS) + "\n").encode()


def _line(row: Mapping[str, object]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([row[name] for name in COLUMNS])
    return text.getvalue().encode()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _game(row: Mapping[str, str]) -> winrates.Game:
    outcome = _OUTCOMES.get(row["outcome"])
    if outcome is None:
        raise errors.FormatError(
            f"outcome: expected 1, 0 or -1, found {_short(row['outcome'])}"
        )
    return winrates.Game(
        home=row["home"],
        away=row["away"],
        home_race=row["home_race"].lower(),
        away_race=row["away_race"].lower(),
        outcome=outcome,
    )


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str] | str]]:
    """Yields line numbers with rows by column name, or with the problem of the row."""
    try:
        # utf-8-sig: spreadsheets put a byte order mark in front of the first column's name.
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise errors.ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise errors.FormatError(
            f"{path}: expected CSV in UTF-8, found byte {error.object[error.start]:#04x} "
            f"at {error.start}"
        ) from error
    # Strict: otherwise an unclosed quote swallows the rest of the file.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(path, header)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                yield (
                    reader.line_num,
                    f"expected {len(header)} values, found {len(cells)}",
                )
            else:
                values = [cell.strip() for cell in cells]
                yield reader.line_num, dict(zip(header, values, strict=True))
    except csv.Error as error:
        raise errors.FormatError(f"{path}: line {reader.line_num}: {error}") from error


def _check_header(path: Path, header: list[str]) -> None:
    missing = [name for name in REQUIRED if name not in header]
    twice = sorted({name for name in header if header.count(name) > 1})
    if missing:
        raise errors.FormatError(
            f"{path}: expected columns {', '.join(REQUIRED)}; missing {', '.join(missing)}; "
            f"the first line has {_short(','.join(header))}"
        )
    if twice:
        raise errors.FormatError(f"{path}: columns named twice: {', '.join(twice)}")


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
