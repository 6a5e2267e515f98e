"""Plays a replay again and packs both sides for the viewer.

In: a replay's bytes, and the folder of a game. Out: a payload per player. Unlike a dataset, a page
also shows games without a result, and players whose commands the replay does not have, such as
the game's own AI: their side is sampled at regular intervals.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from starmill.converters import episode
from starmill.engines import playback
from starmill.engines.pool import Pool, PoolConfig
from starmill.engines.replays import replay_file
from starmill.pipelines.viewing import packing
from starmill.schema import errors
from starmill.schema.replay_row import ReplayRow
from starmill.schema.settings import UNPLUGGED, ConverterSettings

SIDES = (1, 2)
# One second of game time: a page never skips more than this.
_LONGEST_GAP = 22


class Replayed(NamedTuple):
    """A replay, played again.

    Attributes:
        row: what its file says.
        sides: the payload of each player.
    """

    row: ReplayRow
    sides: tuple[dict[str, Any], dict[str, Any]]


class Player:
    """Plays replays with one game process; a context manager."""

    def __init__(self, root: str, settings: ConverterSettings = UNPLUGGED) -> None:
        self._pool = Pool(PoolConfig(root=root, max_idle=2))
        self._settings = settings

    def __enter__(self) -> "Player":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    @property
    def settings(self) -> ConverterSettings:
        """Returns the settings of the arrays that it packs."""
        return self._settings

    def play(
        self,
        data: bytes,
        source: str = "",
        watched: Mapping[int, Sequence[int]] | None = None,
    ) -> Replayed:
        """Returns both sides of a replay.

        Args:
            data: the file's bytes.
            source: its path or address, for messages.
            watched: by player, game loops that are shown besides those of the player's actions,
                such as the loops at which an agent chose to do nothing.
        """
        row = replay_file.replay_row(data, source, events=False)
        if row.status != "ok" or row.game_version is None or row.base_build is None:
            raise errors.FormatError(
                f"{source}: expected a replay of a game between two players, found "
                f"{row.status}: {row.detail or 'no version'}"
            )
        executable = self._pool.installation.executable(
            row.game_version, row.base_build, row.data_version
        )
        frames = replay_file.open_replay(data).action_frames()
        length = row.duration_loops or max((f[-1] for f in frames.values()), default=1)
        sides = []
        with self._pool.lease(executable) as games:
            for side in SIDES:
                loops = shown_loops(
                    frames.get(side, []), (watched or {}).get(side, ()), length
                )
                player = playback.Player(games[0])
                sides.append(self._side(player, data, row, side, loops))
        return Replayed(row, (sides[0], sides[1]))

    def _side(
        self,
        player: playback.Player,
        data: bytes,
        row: ReplayRow,
        side: int,
        loops: Sequence[int],
    ) -> dict[str, Any]:
        info = player.load(data, side, self._settings)
        packer = packing.EpisodePacker(self._settings)
        for step in episode.convert_replay(
            self._settings,
            info.game_info,
            info.replay_info,
            player.stream(loops),
            loops,
        ):
            packer.add({key: value[np.newaxis] for key, value in step.items()})
        own, other = row.players[side - 1], row.players[2 - side]
        return packer.finish(
            {
                "id": f"{hashlib.sha256(data).hexdigest()}-{side}",
                "side": side,
                "map": row.map_name or "unknown map",
                "race": own.race_name or "unknown race",
                "opponent_race": other.race_name or "unknown race",
                "mmr": own.mmr,
                "outcome": own.outcome or 0,
            }
        )


def shown_loops(
    frames: Sequence[int], watched: Sequence[int], length: int
) -> list[int]:
    """Returns the loops to look at: the given ones, and enough to leave no gap over a second.

    Args:
        frames: at which the player acted; ascending.
        watched: at which an agent acted or waited; ascending.
        length: of the game in loops.
    """
    given = sorted({loop for loop in (*frames, *watched) if 0 < loop <= length})
    if length > 0 and (not given or given[-1] < length):
        given.append(length)
    out: list[int] = []
    before = 0
    for loop in given:
        out += range(before + _LONGEST_GAP, loop, _LONGEST_GAP)
        out.append(loop)
        before = loop
    return out
