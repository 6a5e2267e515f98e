"""Fault injection: faults that the real game has now and then, at a chosen point.

In: the file `faults.json` in the installation, or the same JSON in the environment variable
STARMILL_SKIRMISH_FAULTS. Out: a `FaultInjector`, which the server and the game ask at each point
where a fault can happen. Must not know: the game or the protocol.

    {"seed": 1, "rules": [{"kind": "crash", "loop": 500, "replay": "3f9a", "player": 1,
                           "attempts": [1], "probability": 0.2}]}

The first rule that applies to a replay is used for it; `Rule` lists its fields. Rules without a
replay apply to live games too, as player 0 on attempt 1. Attempts are counted in the folder
`faults.state` of the installation; delete it to start counting again.
"""

import dataclasses
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from starmill.engines.skirmish.server import alterations
from starmill.schema import errors
from starmill.schema.archives import json_text

VARIABLE = "STARMILL_SKIRMISH_FAULTS"
FILE_NAME = "faults.json"
STATE_DIR = "faults.state"
# Each kind of fault, with what the process does.
KINDS = {
    "no_start": "exits before it listens",
    "crash": "exits without a message",
    "hang": "stops answering",
    "close": "sends half an answer and closes the connection",
    "garbage": "sends bytes that do not parse",
    "wrong_id": "answers with another request's id",
    "leak": "allocates memory with each answer and keeps it",
    "slow": "waits before each answer",
    "stub": "sends a last observation with loop 2**32 - 1, a result and nothing else",
    "short": "ends the replay early, with a result",
}
# Faults of the whole process: they apply to every process, whatever else the rule says.
PROCESS_KINDS = {
    "orphan": "starts a process outside of its process group",
    "no_quit": "does not end when its client quits",
}
CRASH_EXIT_CODE = 139  # what a shell reports for a segmentation fault
_GARBAGE = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00garbage"
_ID_TAG = b"\x88\x06"  # of Response.id, a varint
_MEGABYTE = 1 << 20
_HANG_SECONDS = 3600.0
_ORPHAN_SECONDS = 60


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """One fault, and when it happens.

    Attributes:
        kind: a key of KINDS, PROCESS_KINDS or `alterations.KINDS`.
        loop: the game loop from which on it happens; 0 for the first step.
        replay: a prefix of the replay's sha256, or its number, from 0, in the order in which this
            installation first saw replays; None for all replays.
        player: the observed player; None for both.
        attempts: on which starts of the same replay and player it happens, counted from 1 in this
            installation; None for all. For `no_start`, starts of a process.
        probability: how often it happens, 0 to 1. The draw depends only on the seed, the rule's
            index, the replay, the player and the attempt, so a rule decides the same way on any
            machine and in any order.
        seconds: for `slow`, how long each answer is delayed.
        megabytes: for `leak`, how much each answer allocates.
        from_start: whether it applies before the first replay or game too, from the start of the
            process on, whatever `replay`, `player` and `attempts` say.
    """

    kind: str
    loop: int = 0
    replay: str | int | None = None
    player: int | None = None
    attempts: tuple[int, ...] | None = None
    probability: float = 1.0
    seconds: float = 1.0
    megabytes: int = 16
    from_start: bool = False

    def __post_init__(self) -> None:
        kinds = {**KINDS, **PROCESS_KINDS, **alterations.KINDS}
        if self.kind not in kinds:
            raise errors.ConfigError(
                f"faults: expected a kind of {sorted(kinds)}, found {self.kind!r}"
            )
        if not 0.0 <= self.probability <= 1.0:
            raise errors.ConfigError(
                f"faults: expected a probability in [0, 1], found {self.probability!r}"
            )


class Sender(Protocol):
    """A connection, as far as faults need one."""

    def send(self, payload: bytes) -> None:
        """Sends one message."""

    def send_half(self, payload: bytes) -> None:
        """Sends half of one message and closes the connection."""


def draw(seed: int, rule: int, replay: str, player: int, attempt: int) -> float:
    """Returns the number in [0, 1) that is compared with a rule's probability."""
    text = f"{seed}:{rule}:{replay}:{player}:{attempt}"
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


class FaultInjector:
    """The rules, and the one that applies to what is being played now."""

    def __init__(
        self,
        rules: tuple[Rule, ...] = (),
        *,
        seed: int = 0,
        state_dir: Path | None = None,
    ) -> None:
        self._rules = rules
        self._seed = seed
        self._state_dir = state_dir
        self._active = next((rule for rule in rules if rule.from_start), None)
        self._loop = 0
        self._leaked: list[bytes] = []
        self._history = alterations.History()

    @classmethod
    def load(
        cls, data_dir: str, environ: Mapping[str, str] | None = None
    ) -> "FaultInjector":
        """Returns the injector of an installation.

        The environment variable takes precedence over the file. Without either, there are no
        faults. Raises ConfigError if the rules are not valid.
        """
        variables = os.environ if environ is None else environ
        file = Path(data_dir or ".") / FILE_NAME
        if variables.get(VARIABLE):
            text, where = variables[VARIABLE], VARIABLE
        elif data_dir and file.is_file():
            text, where = file.read_text("utf-8"), str(file)
        else:
            return cls()
        try:
            content = json_text.parse(text)
            rules = tuple(_rule(entry) for entry in content.get("rules", ()))
        except (ValueError, TypeError, AttributeError) as error:
            raise errors.ConfigError(f"{where}: {error}") from error
        state = Path(data_dir) / STATE_DIR if data_dir else None
        return cls(rules, seed=int(content.get("seed", 0)), state_dir=state)

    def at_start(self) -> None:
        """Exits, or starts another process, if a rule says so."""
        if any(rule.kind == "orphan" for rule in self._rules):
            _start_orphan()
        if not any(rule.kind == "no_start" for rule in self._rules):
            return
        process = self._count("processes")
        for index, rule in enumerate(self._rules):
            if rule.kind == "no_start" and self._applies(index, rule, "", 0, process):
                raise SystemExit(
                    "SC2_x64: fault injection: this process does not start"
                )

    def begin(self, replay: str, player: int) -> None:
        """Selects the rule for a replay that starts now.

        replay: its sha256; "" for a live game. player: the observed one; 0 for a live game.
        """
        self._active = None
        self._loop = 0
        self._history.replays += 1
        self._history.actions, self._history.camera = [], None
        if all(rule.kind == "no_start" for rule in self._rules):
            return
        attempt = self._count(f"{replay}-{player}") if replay else 1
        number = self._number(replay) if replay else -1
        for index, rule in enumerate(self._rules):
            if rule.kind == "no_start" or not _matches(rule, replay, number, player):
                continue
            if self._applies(index, rule, replay, player, attempt):
                self._active = rule
                return

    def at_loop(self, loop: int) -> None:
        """Records how far the game is."""
        self._loop = loop

    def stop_at(self) -> int | None:
        """Returns the loop on which the process crashes, None if it does not."""
        return self._loop_of("crash")

    def crash(self) -> None:
        """Ends the process at once."""
        os._exit(CRASH_EXIT_CODE)

    def short_end(self) -> int | None:
        """Returns the loop on which the replay ends early, None if it does not."""
        return self._loop_of("short")

    def _loop_of(self, kind: str) -> int | None:
        rule = self._active
        return rule.loop if rule is not None and rule.kind == kind else None

    def stub_at_end(self) -> bool:
        """Returns whether the last observation is a stub."""
        return self._active is not None and self._active.kind == "stub"

    def send(self, client: Sender, payload: bytes, request_id: int) -> bool:
        """Sends an answer, or injects the fault instead; False if the client is gone."""
        rule = self._active
        try:
            if rule is None or self._loop < rule.loop:
                client.send(payload)
                return True
            return self._inject(rule, client, payload, request_id)
        except OSError:
            return False

    def _inject(
        self, rule: Rule, client: Sender, payload: bytes, request_id: int
    ) -> bool:
        match rule.kind:
            case "close":
                client.send_half(payload)
                return False
            case "garbage":
                client.send(_GARBAGE)
            case "wrong_id":
                # Parsers keep the last occurrence of a field, so this id replaces the true one.
                client.send(payload + _ID_TAG + bytes([(request_id + 1) % 128]))
            case "hang":
                while True:
                    time.sleep(_HANG_SECONDS)
            case kind if kind in alterations.KINDS:
                client.send(alterations.alter(kind, payload, self._history))
            case _:
                if rule.kind == "slow":
                    time.sleep(rule.seconds)
                if rule.kind == "leak":
                    # Not zeros: the system would not allocate pages for them.
                    self._leaked.append(b"\x01" * (rule.megabytes * _MEGABYTE))
                client.send(payload)
        return True

    def at_quit(self) -> None:
        """Waits if a rule says that this process does not end when its client quits."""
        if any(rule.kind == "no_quit" for rule in self._rules):
            time.sleep(_HANG_SECONDS)

    def _applies(
        self, index: int, rule: Rule, replay: str, player: int, attempt: int
    ) -> bool:
        if rule.attempts is not None and attempt not in rule.attempts:
            return False
        return draw(self._seed, index, replay, player, attempt) < rule.probability

    def _count(self, name: str) -> int:
        """Adds one to the installation's counter `name` and returns its value."""
        if self._state_dir is None:
            return 1
        self._state_dir.mkdir(parents=True, exist_ok=True)
        # Appending one byte is atomic, so two processes never get the same number.
        with (self._state_dir / name).open("ab") as file:
            file.write(b".")
            file.flush()
            return file.tell()

    def _number(self, replay: str) -> int:
        """Returns the number of a replay in the order in which this installation saw them."""
        if self._state_dir is None:
            return 0
        order = self._state_dir / "order"
        order.mkdir(parents=True, exist_ok=True)
        file = order / replay
        try:
            with file.open("x") as number:
                number.write(str(self._count("replays") - 1))
        except FileExistsError:
            while not file.read_text():  # another process is writing it now
                time.sleep(0.01)
        return int(file.read_text())


def _start_orphan() -> None:
    # It names the process's arguments, as a helper of the real game would, and ends by itself.
    code = f"import time; time.sleep({_ORPHAN_SECONDS})"
    subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, *sys.argv[1:]], start_new_session=True
    )


def _rule(entry: dict[str, Any]) -> Rule:
    values = dict(entry)
    if values.get("attempts") is not None:
        values["attempts"] = tuple(values["attempts"])
    return Rule(**values)


def _matches(rule: Rule, replay: str, number: int, player: int) -> bool:
    if isinstance(rule.replay, str) and not (replay and replay.startswith(rule.replay)):
        return False
    if isinstance(rule.replay, int) and rule.replay != number:
        return False
    return rule.player is None or rule.player == player
