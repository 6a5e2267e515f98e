"""A replay under playback: the recorded inputs on their loops, observed by one player.

In: a `Recording` and numbers of loops to play. Out: the game at any later loop, the actions and
deaths since they were last taken, and the result. The playback ends on the file's last loop, on
which recorded surrenders apply. Must not know: the protocol.
"""

from collections.abc import Sequence

from starmill.engines.skirmish.replays import reader
from starmill.engines.skirmish.server import faults, played_inputs
from starmill.engines.skirmish.server.played_inputs import PlayedInput
from starmill.engines.skirmish.simulation import game, records

# The game's events are collected at least this often, before their buffer is full.
_CHUNK_LOOPS = 512
_DIED = records.EVENT_DIED


class ReplayPlayback:
    """One replay under playback.

    Attributes:
        game: the game at the loop that the playback has reached.
        player: the observed player, 1 or 2.
        recording: the replay's content.
    """

    def __init__(
        self,
        recording: reader.Recording,
        player: int,
        injector: faults.FaultInjector | None = None,
    ) -> None:
        self.game = recording.new_game()
        self.player = player
        self.recording = recording
        self._injector = injector or faults.FaultInjector()
        self._end = recording.loops
        early = self._injector.short_end()
        if early is not None:
            self._end = min(self._end, early)
        self._input_loops = sorted(loop for loop in recording.inputs)
        self._next = 0
        self._played: list[PlayedInput] = []
        self._dead: list[int] = []
        self._is_finished = False
        self._finish()

    @property
    def ended(self) -> bool:
        """Whether the replay is over."""
        return self.game.result is not None or self.game.loop >= self._end

    @property
    def results(self) -> dict[int, str] | None:
        """Results by player; None before the end, "undecided" if the game was not over by then."""
        if not self.ended:
            return None
        return self.game.result or {1: "undecided", 2: "undecided"}

    def step(self, loops: int) -> None:
        """Plays this many loops, or fewer if the replay ends."""
        target = min(self.game.loop + loops, self._end)
        crash = self._injector.stop_at()
        while self.game.loop < target and self.game.result is None:
            if crash is not None and self.game.loop >= crash:
                self._injector.crash()
            self._play(target if crash is None else min(target, crash))
        self._injector.at_loop(self.game.loop)
        self._finish()

    def _play(self, target: int) -> None:
        """Plays up to the next input, or up to the target."""
        loop = self.game.loop
        due = self._input_loops[self._next] if self._has_input else target
        if due == loop:
            self._next += 1
            inputs = self.recording.inputs[loop]
            self._played += played_inputs.note(
                self.game, [(item, None, False) for item in inputs]
            )
            self.game.step(inputs)
        else:
            chunk = min(target, due, loop + _CHUNK_LOOPS) - loop
            self.game.advance(chunk)
        events = self.game.take_events()
        self.game.take_errors()
        died = events["kind"] == _DIED
        self._dead += [int(tag) for tag in events["tag"][died]]

    @property
    def _has_input(self) -> bool:
        return self._next < len(self._input_loops)

    def _finish(self) -> None:
        """Applies surrenders on the last loop."""
        is_over = self.game.result is not None
        if self._is_finished or is_over or self.game.loop < self._end:
            return
        self._is_finished = True
        inputs = self.recording.inputs.get(self.game.loop, [])
        surrenders = [item for item in inputs if isinstance(item, game.Leave)]
        if surrenders and self.recording.result is not None:
            self.game.step(surrenders)

    def take_played(self) -> Sequence[PlayedInput]:
        """Returns the inputs of the observed player since the last call."""
        played = [one for one in self._played if one.item.player == self.player]
        self._played = []
        return played

    def take_dead(self) -> list[int]:
        """Returns the tags of units that died since the last call."""
        dead, self._dead = self._dead, []
        return dead
