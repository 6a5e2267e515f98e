"""`starmill skirmish ladder` and `starmill evaluate`, killed and continued.

The end must equal that of a run that nobody disturbed: the same replays, and the same results.
"""

import hashlib
import random
from pathlib import Path

from tests.endurance import commands

_KILLS = 3
_LADDER_GAMES, _PAIR_GAMES = 6, 3
_RESULTS = "results.csv"


def ladder_command(out: Path) -> list[str]:
    return [
        *("skirmish", "ladder", "--games", str(_LADDER_GAMES), "--seed", "3"),
        *("--out", str(out), "--parallel", "2"),
    ]


def evaluate_command(out: Path) -> list[str]:
    return [
        *("evaluate", "--agent", "dice=random", "--opponents", "very_easy,easy"),
        *("--anchor", "very_easy", "--games", str(_PAIR_GAMES), "--max-minutes", "4"),
        *("--parallel", "2", "--seed", "5", "--out", str(out), "--sc2", "skirmish"),
    ]


def _content(path: Path) -> bytes:
    """Returns a file's bytes; the rows of results sorted, since games end in any order."""
    data = path.read_bytes()
    return b"".join(sorted(data.splitlines(True))) if path.suffix == ".csv" else data


def _digests(folder: Path, *patterns: str) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(_content(path)).hexdigest()
        for pattern in patterns
        for path in sorted(folder.rglob(pattern))
    }


def _killed_and_continued(
    folder: Path, name: str, line_of, has_work, *patterns: str
) -> str:
    temp = folder / "tmp"
    undisturbed, killed = folder / f"{name}-undisturbed", folder / f"{name}-killed"
    ended = commands.run(line_of(undisturbed), temp)
    assert ended.code == 0, ended.text[-3000:]
    rng = random.Random(11)
    kills = 0
    for _ in range(_KILLS):
        done = has_work(killed)
        pause = rng.uniform(0.0, 2.0)

        def is_due(done=done, pause=pause, began=[]) -> bool:  # noqa: B006  # a cell
            # A little after another game has ended, so that each run gets on.
            if has_work(killed) > done and not began:
                began.append(commands.after(pause))
            return bool(began) and began[0]()

        ended = commands.run_and_kill(line_of(killed), temp, is_due)
        kills += ended.code < 0
        assert not (left := commands.left_processes(temp)), f"left behind: {left}"
    assert kills, "every run ended before it could be killed"
    ended = commands.run(line_of(killed), temp)
    assert ended.code == 0, ended.text[-3000:]
    expected, result = _digests(undisturbed, *patterns), _digests(killed, *patterns)
    assert expected, f"no file matches {patterns}"
    changed = sorted(set(expected.items()) ^ set(result.items()))
    assert not changed, f"differ: {[name for name, _ in changed][:5]}"
    return f"{kills} kills; {len(expected)} files equal"


def ladder(folder: Path) -> str:
    """Kills a ladder three times, and continues it."""
    return _killed_and_continued(
        folder,
        "ladder",
        ladder_command,
        lambda out: len(list(out.glob("*.SC2Replay"))),
        "*.SC2Replay",
        "ladder.csv",
    )


def evaluate(folder: Path) -> str:
    """Kills an evaluation three times, and continues it."""
    return _killed_and_continued(
        folder,
        "evaluate",
        evaluate_command,
        lambda out: len(list(out.rglob("*.SC2Replay"))),
        "*.SC2Replay",
        _RESULTS,
    )
