"""A game that is being played, as the bytes of a `.SC2Replay` file.

In: a game, and its inputs loop by loop through a `Recorder`. Out: an MPQ archive with the members
that mpyq, s2protocol, sc2reader and pysc2 read. Files are marked as Skirmish's: `Engine` in the
metadata, a title "Skirmish <map>", a map handle of their own, and the member
`skirmish.setup.json` with what playing the game again needs besides the commands. A file depends
on neither time nor place. Must not know: who plays.
"""

import functools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from starmill.engines.replays import archive_writer
from starmill.engines.skirmish import versions
from starmill.engines.skirmish.replays import (
    input_events,
    members,
    streams,
    tracker_events,
)
from starmill.engines.skirmish.simulation.debug.cheats import Cheat
from starmill.engines.skirmish.simulation.game import (
    CameraMove,
    Game,
    Input,
    Leave,
)
from starmill.schema.game_constants import LOOPS_PER_MINUTE

ENGINE = "skirmish"
SETUP_MEMBER = "skirmish.setup.json"
SETUP_FORMAT = 1


class Recorder:
    """Records a game and can write its replay at any time.

    Pass each loop's inputs through `admit` and give what it returns to the game. Call `watch` often:
    it takes the game's events, whose buffer is limited.

    Attributes:
        left: the player who surrendered last; None if none has.
    """

    def __init__(
        self,
        game: Game,
        participants: tuple[members.Participant, members.Participant],
        version: versions.Version,
    ) -> None:
        self._game = game
        self._participants = participants
        self._version = version
        self._selections = input_events.Selections()
        # Not a method of this object: in a cycle of references, the game's megabytes would
        # stay until the next full garbage collection.
        self._writer = input_events.EventWriter(functools.partial(_unit, game))
        self._events = list(members.opening_events(version))
        self._tracker = tracker_events.Tracker(game)
        self._actions = {1: 0, 2: 0}
        self.left: int | None = None

    def admit(self, inputs: Sequence[Input]) -> list[Input]:
        """Records the inputs of the coming loop. Returns them in the form to be played."""
        if not inputs:
            return []
        admitted = self._selections.admit(inputs)
        for item in admitted:
            self._events += self._writer.write(self._game.loop, item)
            if isinstance(item, Leave):
                self.left = item.player
            elif not isinstance(item, (CameraMove, Cheat)):
                self._actions[item.player] += 1
        return admitted

    def watch(self) -> np.ndarray:
        """Records what happened in the loops just played. Returns it (`records.EVENT` rows)."""
        return self._tracker.watch()

    def replay(self) -> bytes:
        """Returns the replay of the game so far."""
        self._tracker.watch()
        self._game.take_errors()  # the file's digest of the state leaves logs out
        game = self._game
        result = game.result
        minutes = max(game.loop, 1) / LOOPS_PER_MINUTE
        apm = [round(self._actions[player] / minutes) for player in (1, 2)]
        events = list(self._events)
        if result is not None and self.left is None:
            # The rules ended the game: the loser leaves first, as people do.
            first = 1 if result[1] == "loss" else 2
            for player in (first, 3 - first):
                leave = Leave(player)
                events += self._writer.write(game.loop, leave)
        facts = members.Facts(
            game=game,
            participants=self._participants,
            version=self._version,
            apm=(apm[0], apm[1]),
        )
        contents = {
            "replay.attributes.events": members.attributes(facts),
            "replay.details": streams.details(members.details(facts)),
            "replay.game.events": streams.game_events(events),
            "replay.gamemetadata.json": members.metadata(facts),
            "replay.initData": streams.init_data(members.init_data(facts)),
            "replay.message.events": streams.message_events(members.opening_messages()),
            "replay.tracker.events": streams.tracker_events(self._tracker.events()),
            SETUP_MEMBER: self._setup(),
        }
        header = streams.header(members.header(facts))
        return archive_writer.write(contents, header)

    def _setup(self) -> bytes:
        game = self._game
        setup: dict[str, Any] = {
            "format": SETUP_FORMAT,
            "map": game.map.name,
            "seed": game.seed,
            "players": [
                {**player.stored(), **participant.stored()}
                for player, participant in zip(
                    game.players, self._participants, strict=True
                )
            ],
            "loops": game.loop,
            "result": game.result and [game.result[1], game.result[2]],
            "end_digest": game.state_digest(),
        }
        return json.dumps(setup, indent=1, sort_keys=True).encode()


def _unit(game: Game, tag: int) -> tuple[int, int, float, float] | None:
    """Returns a living unit's type, owner, x and y."""
    rows = game.rows_of([tag])
    if not len(rows):
        return None
    unit = game.world.units[rows[0]]
    return (
        int(unit["unit_type"]),
        int(unit["owner"]),
        float(unit["x"]),
        float(unit["y"]),
    )
