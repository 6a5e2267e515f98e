"""What a run is given, and what it reports.

In and out: plain records. Knows nothing of how a run works, or how a report looks.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from starmill.engines.client import Deadlines
from starmill.engines.conformance.ledger import Entry
from starmill.schema.settings import UNPLUGGED, ConverterSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What is tested, and with what.

    Attributes:
        root: folder of the installation, or `installation.SKIRMISH`.
        files: replays; at most `most_replays` that can be played are used.
        most_replays: how many replays are played.
        deadlines: how long the game may take.
        max_growth_bytes: how much a process may grow over the run, as in `PoolConfig`.
        reference_python: a Python 3.10 with the pysc2 4.0.0 wheel; None for no comparison.
        settings: of the converter.
    """

    root: str
    files: Sequence[Path]
    most_replays: int = 3
    deadlines: Deadlines = Deadlines()
    max_growth_bytes: int = 1 << 30
    reference_python: str | None = None
    settings: ConverterSettings = UNPLUGGED


@dataclasses.dataclass(frozen=True, kw_only=True)
class Playback:
    """A replay of the run.

    Attributes:
        name: the first digits of its sha256.
        game_version: like "4.9.2.74741"; "" if unknown.
        map_name: the map's English title; "" if unknown.
        loops: duration by the header.
        steps: kept steps of both players.
        note: why it was not played; "" if it was.
    """

    name: str
    game_version: str
    map_name: str
    loops: int
    steps: int
    note: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What a run found out.

    Attributes:
        engine: like "skirmish 4.9.2.74741".
        versions: the versions that are installed, as a text.
        entries: one for each assumption.
        measured: by the ids of `assumptions.measurements`.
        playbacks: one for each replay that was looked at.
        secrets: words that reports must not contain, such as names of players and folders.
    """

    engine: str
    versions: str
    entries: tuple[Entry, ...]
    measured: dict[str, float]
    playbacks: tuple[Playback, ...]
    secrets: tuple[str, ...]
