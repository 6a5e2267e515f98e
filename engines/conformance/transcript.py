"""What a client and a game say to each other: checked answer by answer, and timed.

In: every request and answer of a `Client`. Out: entries in the ledger for what must be true of any
answer, and sums of times and sizes. Knows the protocol's envelope, not what observations mean.
"""

import contextlib
import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterator

from google.protobuf.message import DecodeError

from starmill.converters.protos import sc2api_pb2
from starmill.engines.conformance.ledger import Ledger

_PREVIEW_BYTES = 24


@dataclasses.dataclass
class Total:
    """Sums over the answers to one kind of request.

    Attributes:
        count: number of answers.
        seconds: from the request to the whole answer.
        size_bytes: of the answers.
        loops: game loops that were asked for, of steps.
    """

    count: int = 0
    seconds: float = 0.0
    size_bytes: int = 0
    loops: int = 0


class Transcript:
    """Watches one client. Attach it to `Client.watcher`.

    Attributes:
        totals: sums by kind of request.
        status: of the latest answer; 0 if it had none.
        answer: the latest answer; an empty message if it did not parse.
        history: statuses of the answers since `start_over`.
        is_blamed: whether the latest answer contradicts an assumption.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.totals: defaultdict[str, Total] = defaultdict(Total)
        self.status = 0
        self.answer = sc2api_pb2.Response()
        self.history: list[int] = []
        self.is_blamed = False
        self._ledger = ledger
        self._kind, self._id, self._began = "", 0, 0.0
        self._may_fail = False

    def start_over(self) -> None:
        """Forgets all statuses and times but those of starting replays."""
        self.history.clear()
        for kind in [kind for kind in self.totals if kind != "start_replay"]:
            del self.totals[kind]

    @contextlib.contextmanager
    def errors_expected(self) -> Iterator[None]:
        """Within the block, answers may carry an error."""
        self._may_fail = True
        try:
            yield
        finally:
            self._may_fail = False

    def sent(self, request: sc2api_pb2.Request) -> None:
        """Takes note of a request."""
        self._kind, self._id = request.WhichOneof("request") or "", request.id
        if self._kind == "step":
            self.totals["step"].loops += request.step.count
        self.is_blamed = False
        self._began = time.perf_counter()

    def received(self, data: bytes) -> None:
        """Checks the answer to the latest request."""
        total = self.totals[self._kind]
        total.seconds += time.perf_counter() - self._began
        total.count += 1
        total.size_bytes += len(data)
        before = self._ledger.contradictions()
        self.answer = sc2api_pb2.Response()
        try:
            self.answer.ParseFromString(data)
        except DecodeError:
            self._ledger.expect(
                "answer.parses",
                False,
                f"{self._kind}: expected a Response, found {len(data)} bytes that do "
                f"not parse: {data[:_PREVIEW_BYTES].hex()}",
            )
        else:
            self._ledger.expect("answer.parses", True, "")
            self._check_envelope()
        self.is_blamed = self._ledger.contradictions() > before

    def _check_envelope(self) -> None:
        answer, kind = self.answer, self._kind
        self._ledger.expect(
            "answer.id",
            answer.id == self._id,
            f"{kind}: expected id {self._id}, found {answer.id}",
        )
        has_status = answer.HasField("status")
        self._ledger.expect(
            "answer.status", has_status, f"{kind}: the answer has no status"
        )
        self.status = int(answer.status) if has_status else 0
        if answer.error and not self._may_fail:
            self._ledger.expect(
                "answer.no_error", False, f"{kind}: {'; '.join(answer.error)[:300]}"
            )
        if not answer.error:
            self._ledger.expect("answer.no_error", True, "")
        if not self._may_fail and not answer.error:
            kind_of_answer = answer.WhichOneof("response")
            self._ledger.expect(
                "answer.kind",
                kind_of_answer == kind,
                f"expected an answer to {kind}, found {kind_of_answer}",
            )
        self.history.append(self.status)
        is_started = kind == "start_replay" and not answer.start_replay.HasField(
            "error"
        )
        if is_started and not self._may_fail:
            self.expect_status("status.in_replay", sc2api_pb2.in_replay)

    def expect_status(self, name: str, *allowed: int) -> None:
        """Checks the latest answer's status for the assumption `name`."""
        names = " or ".join(status_name(value) for value in allowed)
        self._ledger.expect(
            name,
            self.status in allowed,
            f"after {self._kind}: expected status {names}, found {status_name(self.status)}",
        )


def status_name(status: int) -> str:
    """Returns the protocol's name of a status, or its number."""
    known = {int(value): name for name, value in sc2api_pb2.Status.items()}
    return known.get(status, str(status))
