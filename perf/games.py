"""The episodes that measurements use: Skirmish's, made with the project's own commands.

Synthetic ones, calibrated on ladder games, are the second opinion: Skirmish's games are calmer
than people's. Every row's name says which of the two it is of.
"""

import dataclasses
import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from perf import synthetic
from starmill.schema import episode
from starmill.schema.loader import dataset
from starmill.schema.settings import ConverterSettings

_GAMES, _SEED = 3, 5
_SYNTHETIC_STEPS = (958, 1393)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Games:
    """Episodes, one in memory at a time.

    label: what they are.  lengths: steps of each.  load: number to episode.
    """

    label: str
    settings: ConverterSettings
    lengths: tuple[int, ...]
    load: Callable[[int], episode.InMemoryEpisode]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def steps(self) -> int:
        """Returns the steps of all."""
        return sum(self.lengths)


def ladder(folder: Path, *, games: int, seed: int) -> None:
    """Plays a small ladder and writes its replays to the folder."""
    _starmill(
        "skirmish", "ladder", "--games", str(games), "--seed", str(seed),
        "--out", str(folder),
    )  # fmt: skip


def skirmish(folder: Path) -> Games:
    """Plays a small ladder, makes a dataset of it in the folder, and returns its episodes."""
    replays, data = folder / "replays", folder / "data"
    ladder(replays, games=_GAMES, seed=_SEED)
    _starmill(
        "generate", "--replays", str(replays), "--selection", "skirmish",
        "--output", str(data), "--sc2", "skirmish",
    )  # fmt: skip
    return opened(str(data), "Skirmish")


def opened(url: str, label: str) -> Games:
    """Returns the episodes of a dataset."""
    data = dataset.open_dataset(url)
    return Games(
        label=label,
        settings=data.settings,
        lengths=tuple(meta.steps for meta in data.metas),
        load=lambda number: data[number].load(),
    )


def imitated(*, restless: bool = False) -> Games:
    """Returns synthetic episodes."""

    def load(number: int) -> episode.InMemoryEpisode:
        steps = _SYNTHETIC_STEPS[number]
        arrays = synthetic.game(11 + number, steps, restless=restless)
        meta = episode.EpisodeMeta(
            replay_id=hashlib.sha256(f"{number} {restless}".encode()).hexdigest(),
            player_id=1,
            game_version="4.9.2",
            base_build=74741,
            data_version=None,
            map_name="synthetic",
            race="terran",
            opponent_race="protoss",
            mmr=4200,
            opponent_mmr=4200,
            apm=None,
            outcome=1,
            steps=steps,
            game_loops=int(arrays["game_loop"][-1]),
            duration_loops=int(arrays["game_loop"][-1]),
        )
        return episode.InMemoryEpisode(meta=meta, arrays=arrays)

    return Games(
        label="synthetic, restless" if restless else "synthetic",
        settings=synthetic.SETTINGS,
        lengths=_SYNTHETIC_STEPS,
        load=load,
    )


def _starmill(*arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "starmill", *arguments],
        stdout=subprocess.DEVNULL,
        check=True,
    )
