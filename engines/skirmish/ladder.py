"""A ladder: many games between bots of similar ratings, as replay files.

In: a number of games, a seed, a folder. Out: files `SHA256.SC2Replay`, named like those of the
replay packs, and `ladder.csv` with one row per game. Game i depends on (seed, i) alone, so the
number of processes does not change the files. An interrupted run can be continued:
`.ladder-SEED/` notes each finished game, and the next run skips it. Must not know: what becomes
of the replays.
"""

import concurrent.futures
import csv
import dataclasses
import hashlib
import io
import json
import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from starmill.engines import lifeline
from starmill.engines.skirmish import recorded_game, versions, warmup
from starmill.engines.skirmish.simulation import maps
from starmill.schema import errors, storage
from starmill.schema.game_constants import RANDOM

# The default range of ratings.
RATINGS = (2500, 7000)
# Standard deviation of the difference between two players. The better one wins four games of five
# and plays visibly better: agents trained on winners learn from the difference.
_MMR_SPREAD = 350.0
# Share of players who request a random race.
_RANDOM_SHARE = 0.1
TABLE = "ladder.csv"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pairing:
    """One game before it is played.

    Attributes:
        index: its number in the ladder, from 0.
        map_name: the map's name, a key of `maps.MAPS`.
        version: the version of the replay, such as "4.9.2".
        seed: the game's seed.
        races: the requested race ids of players 1 and 2; may be RANDOM.
        mmrs: the ratings of players 1 and 2.
        names: the names of players 1 and 2.
    """

    index: int
    map_name: str
    version: str
    seed: int
    races: tuple[int, int]
    mmrs: tuple[int, int]
    names: tuple[str, str]


def pairing(
    seed: int,
    index: int,
    game_versions: Sequence[versions.Version],
    ratings: tuple[int, int] = RATINGS,
) -> Pairing:
    """Returns game `index` of a ladder. ratings: the lowest and the highest rating of players."""
    low, high = ratings
    if not recorded_game.MIN_MMR <= low <= high <= recorded_game.MAX_MMR:
        raise errors.ConfigError(
            f"ladder: expected ratings from {recorded_game.MIN_MMR} to {recorded_game.MAX_MMR}, the lower one "
            f"first, found {low} to {high}"
        )
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, index])))
    first = float(rng.uniform(low, high))
    second = first + float(rng.normal(0.0, _MMR_SPREAD))
    mmrs = [int(np.clip(round(mmr), low, high)) for mmr in (first, second)]
    races = [
        RANDOM if rng.random() < _RANDOM_SHARE else int(rng.integers(1, 4))
        for _ in range(2)
    ]
    names = [f"player{int(rng.integers(10**6)):06d}" for _ in range(2)]
    all_maps = list(maps.MAPS)
    return Pairing(
        index=index,
        map_name=all_maps[int(rng.integers(len(all_maps)))],
        version=game_versions[int(rng.integers(len(game_versions)))].number,
        seed=int(rng.integers(2**31)),
        races=(races[0], races[1]),
        mmrs=(mmrs[0], mmrs[1]),
        names=(names[0], names[1]),
    )


def play_pairing(match: Pairing, out: Path) -> dict[str, Any]:
    """Plays one game and writes its replay into a folder. Returns its row of the table."""
    sides = [
        recorded_game.Player(
            kind="bot", race=match.races[i], mmr=match.mmrs[i], name=match.names[i]
        )
        for i in (0, 1)
    ]
    outcome = recorded_game.play_game(
        home=sides[0],
        away=sides[1],
        map_name=match.map_name,
        seed=match.seed,
        version=versions.by_number(match.version),
    )
    replay_id = hashlib.sha256(outcome.replay).hexdigest()
    storage.write(str(out / f"{replay_id}.SC2Replay"), outcome.replay)
    row: dict[str, Any] = {
        "game": match.index,
        "replay_id": replay_id,
        "version": match.version,
        "map": match.map_name,
        "loops": outcome.loops,
    }
    for i, player in enumerate(("p1", "p2")):
        row[f"{player}_race"] = outcome.races[i]
        row[f"{player}_mmr"] = match.mmrs[i]
        row[f"{player}_result"] = outcome.results[i]
    return row


def played_already(
    *,
    games: int,
    seed: int,
    out: Path,
    game_versions: Sequence[versions.Version],
    ratings: tuple[int, int] = RATINGS,
) -> int:
    """Returns how many of a ladder's games earlier runs have finished."""
    matches = (pairing(seed, index, game_versions, ratings) for index in range(games))
    return sum(_noted(_notes(out, seed), match, out) is not None for match in matches)


def _notes(out: Path, seed: int) -> Path:
    return out / f".ladder-{seed}"


def _noted(notes: Path, match: Pairing, out: Path) -> dict[str, Any] | None:
    """Returns the row of a game that an earlier run finished, None if none did."""
    note = notes / f"{match.index:06d}.json"
    if not note.is_file():
        return None
    row: dict[str, Any] = json.loads(note.read_text("utf-8"))
    is_same = row.pop("pairing") == _as_json(match)
    has_replay = (out / f"{row['replay_id']}.SC2Replay").is_file()
    return row if is_same and has_replay else None


def _as_json(match: Pairing) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(match)))
    return values


def play_ladder(
    *,
    games: int,
    seed: int,
    out: Path,
    game_versions: Sequence[versions.Version],
    ratings: tuple[int, int] = RATINGS,
    parallel: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> str:
    """Plays a ladder into a folder. Returns a summary in one line.

    progress: called after each game with the number of finished games, those of earlier runs
        included.
    """
    if games < 1 or parallel < 1:
        raise errors.ConfigError(
            f"ladder: expected at least one game and one process, found {games} and {parallel}"
        )
    notes = _notes(out, seed)
    notes.mkdir(parents=True, exist_ok=True)
    matches = [pairing(seed, index, game_versions, ratings) for index in range(games)]
    noted = {match.index: _noted(notes, match, out) for match in matches}
    rows = {index: row for index, row in noted.items() if row is not None}
    todo = [match for match in matches if match.index not in rows]
    warmup.ready()
    for match, row in _played(todo, out, parallel):
        rows[match.index] = row
        note = json.dumps({**row, "pairing": _as_json(match)}).encode()
        storage.write(str(notes / f"{match.index:06d}.json"), note)
        progress(len(rows))
    storage.write(str(out / TABLE), _table([rows[index] for index in range(games)]))
    draws = sum(row["p1_result"] == "tie" for row in rows.values())
    loops = sum(row["loops"] for row in rows.values())
    return f"{games} games in {out}: {loops} game loops, {draws} draws"


def _played(todo: Sequence[Pairing], out: Path, parallel: int) -> Any:
    """Yields (pairing, row) as games finish."""
    if parallel == 1 or len(todo) < 2:
        for match in todo:
            yield match, play_pairing(match, out)
        return
    # Not forked: a fork copies the compiler's locks without the threads that hold them.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        parallel, mp_context=context, initializer=lifeline.end_with_parent
    ) as pool:
        running = {pool.submit(play_pairing, match, out): match for match in todo}
        for future in concurrent.futures.as_completed(running):
            yield running[future], future.result()


def _table(rows: Sequence[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
