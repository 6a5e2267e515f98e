"""What agents chose between in a game: per step, the action, its alternatives and the value.

In: an agent's observations, actions and what it says of them. Out: a `DecisionLog` per player, and
one JSON file per game, `decisions/GAME.json`, beside the results. `starmill watch` shows it beside
the replay. Games of earlier versions have no such file.

    {"format": 1, "players": {"home": LOG or null, "away": LOG or null}}

A LOG has one entry per step in each of its lists: `loops` (of the observation), `functions` (chosen),
`delays`, `values` (null where the agent has none) and `likely` (lists of [function, probability]).
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starmill.schema import errors, storage
from starmill.schema.agent import Likely
from starmill.schema.archives import json_text
from starmill.schema.episode import Arrays

FOLDER = "decisions"
_FORMAT = 1


@dataclasses.dataclass(kw_only=True)
class DecisionLog:
    """What one agent chose between in one game; all lists have an entry for each step.

    Attributes:
        loops: game loop of the observation.
        functions: number of the function that the agent chose.
        delays: game loops after which it wanted to act again.
        values: the outcome that it expected, from -1 to 1; None if it does not say.
        likely: the likeliest functions, likeliest first; empty if it does not say.
    """

    loops: list[int] = dataclasses.field(default_factory=list)
    functions: list[int] = dataclasses.field(default_factory=list)
    delays: list[int] = dataclasses.field(default_factory=list)
    values: list[float | None] = dataclasses.field(default_factory=list)
    likely: list[tuple[Likely, ...]] = dataclasses.field(default_factory=list)

    def note(
        self,
        observation: Arrays,
        action: Arrays,
        value: float | None,
        likely: Sequence[Likely],
    ) -> None:
        """Adds a step."""
        self.loops.append(int(observation["game_loop"]))
        self.functions.append(int(action["function"]))
        self.delays.append(int(action["delay"]))
        # As the file has them, so that a log is equal to itself read back.
        self.values.append(None if value is None else round(value, 3))
        self.likely.append(
            tuple(Likely(one.function, round(one.probability, 4)) for one in likely)
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the lists by name."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "DecisionLog":
        """Returns the log of its JSON; FormatError if it is not one."""
        try:
            log = cls(
                loops=[int(loop) for loop in data["loops"]],
                functions=[int(function) for function in data["functions"]],
                delays=[int(delay) for delay in data["delays"]],
                values=[None if v is None else float(v) for v in data["values"]],
                likely=[
                    tuple(Likely(int(function), float(p)) for function, p in step)
                    for step in data["likely"]
                ],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise errors.FormatError(f"not a log of decisions: {error!r}") from error
        lengths = {name: len(values) for name, values in vars(log).items()}
        if len(set(lengths.values())) > 1:
            raise errors.FormatError(f"expected lists of one length, found {lengths}")
        return log


@dataclasses.dataclass(frozen=True, kw_only=True)
class GameDecisions:
    """The decisions of both players of a game.

    Attributes:
        home: home's log; None if no agent of ours played.
        away: likewise.
    """

    home: DecisionLog | None = None
    away: DecisionLog | None = None

    def swapped(self) -> "GameDecisions":
        """Returns the same game with home and away exchanged."""
        return GameDecisions(home=self.away, away=self.home)


def write(folder: Path, game: str, decisions: GameDecisions) -> None:
    """Writes a game's file in the folder of an evaluation."""
    players = {"home": decisions.home, "away": decisions.away}
    content = {
        "format": _FORMAT,
        "players": {
            side: None if log is None else log.to_json()
            for side, log in players.items()
        },
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":")) + "\n"
    storage.write(str(_path(folder, game)), text.encode())


def read(folder: Path, game: str) -> GameDecisions:
    """Returns a game's decisions, without logs if there is no file; FormatError if it is damaged."""
    path = _path(folder, game)
    if not path.is_file():
        return GameDecisions()
    try:
        content = json_text.parse(path.read_text("utf-8"))
        if content["format"] != _FORMAT:
            raise errors.FormatError(
                f"format {content['format']!r}, expected {_FORMAT}"
            )
        logs = {
            side: None if data is None else DecisionLog.from_json(data)
            for side, data in content["players"].items()
        }
        return GameDecisions(home=logs["home"], away=logs["away"])
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        errors.FormatError,
    ) as error:
        raise errors.FormatError(
            f"{path}: expected a game's decisions as `starmill evaluate` writes them, found "
            f"{error!r}; delete the file to watch the game without them"
        ) from error


def _path(folder: Path, game: str) -> Path:
    return folder / FOLDER / f"{game}.json"
