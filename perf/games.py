"""The episodes that measurements use: Skirmish's own where they can be made, else synthetic.

Which of the two is said in every row's name.
"""

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path

from perf import synthetic
from starmill.schema import episode
from starmill.schema import settings as settings_lib

_SYNTHETIC_STEPS = (958, 1393, 1776, 2119)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Games:
    """Episodes, one in memory at a time.

    label: what they are.  lengths: steps of each.  load: number to episode.
    """

    label: str
    settings: settings_lib.ConverterSettings
    lengths: tuple[int, ...]
    load: Callable[[int], episode.Episode]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def steps(self) -> int:
        """Returns the steps of all."""
        return sum(self.lengths)


def episodes(folder: Path) -> Games:
    """Returns the episodes to measure with; files they need go to the folder."""
    del folder
    return imitated()


def imitated(*, restless: bool = False) -> Games:
    """Returns synthetic episodes."""

    def load(number: int) -> episode.Episode:
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
        return episode.Episode(meta=meta, arrays=arrays)

    return Games(
        label="synthetic, restless" if restless else "synthetic",
        settings=synthetic.SETTINGS,
        lengths=_SYNTHETIC_STEPS,
        load=load,
    )
