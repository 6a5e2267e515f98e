"""The ledger of a run: what was found out about each assumption so far.

In: confirmations and contradictions, in any order. Out: for each assumption whether it held, did
not hold, or was not checked, with the first contradiction. Knows nothing of games.
"""

import dataclasses
from collections.abc import Iterable

from starmill.engines.conformance import assumptions

HELD, BROKEN, UNCHECKED = "held", "broken", "not checked"
_AROUND_BYTES = 16
_NOT_REACHED = "the run did not get to it"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evidence:
    """The first bytes in which two messages differ.

    Attributes:
        place: the field, like "observation.raw_data.units[17].health"; "" if unknown.
        offset: of the first different byte.
        expected: bytes around it in hexadecimal digits.
        found: the same of the other message.
    """

    place: str
    offset: int
    expected: str
    found: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """What a run found out about one assumption.

    Attributes:
        id: of the assumption.
        state: HELD, BROKEN or UNCHECKED.
        detail: the first contradiction, or why it was not checked; "" if it held.
        confirmed: how often it was confirmed.
        contradicted: how often it was contradicted.
        evidence: the first different bytes; None where no bytes are compared.
    """

    id: str
    state: str
    detail: str
    confirmed: int
    contradicted: int
    evidence: Evidence | None


@dataclasses.dataclass
class _Account:
    """What was found out about one assumption so far.

    Attributes:
        confirmed: how often it was confirmed.
        contradicted: how often it was contradicted.
        detail: of the first contradiction.
        reason: why it is not checked, if it is not.
        evidence: of the first contradiction.
    """

    confirmed: int = 0
    contradicted: int = 0
    detail: str = ""
    reason: str = _NOT_REACHED
    evidence: Evidence | None = None


class Ledger:
    """Collects what is found out about each assumption."""

    def __init__(self) -> None:
        self._accounts = {name: _Account() for name in assumptions.assumptions()}

    def expect(
        self, name: str, holds: bool, detail: str, evidence: Evidence | None = None
    ) -> bool:
        """Records one observation of an assumption, and returns `holds`.

        detail: what was expected and found, for the case that it does not hold.
        """
        account = self._accounts[name]
        if holds:
            account.confirmed += 1
        else:
            if not account.contradicted:
                account.detail, account.evidence = detail, evidence
            account.contradicted += 1
        return holds

    def skip(self, names: Iterable[str], reason: str) -> None:
        """Records why assumptions were not checked, if nothing else is found out about them."""
        for name in names:
            if self._accounts[name].reason == _NOT_REACHED:
                self._accounts[name].reason = reason

    def contradictions(self) -> int:
        """Returns how many contradictions there were so far."""
        return sum(account.contradicted for account in self._accounts.values())

    def entries(self) -> list[Entry]:
        """Returns one entry for each assumption, in the order of the table."""
        return [_entry(name, account) for name, account in self._accounts.items()]


def _entry(name: str, account: _Account) -> Entry:
    if account.contradicted:
        state, detail = BROKEN, account.detail
    elif account.confirmed:
        state, detail = HELD, ""
    else:
        state, detail = UNCHECKED, account.reason
    return Entry(
        id=name,
        state=state,
        detail=detail,
        confirmed=account.confirmed,
        contradicted=account.contradicted,
        evidence=account.evidence,
    )


def first_difference(expected: bytes, other: bytes, place: str = "") -> Evidence:
    """Returns where two messages begin to differ."""
    size = min(len(expected), len(other))
    offset = next((i for i in range(size) if expected[i] != other[i]), size)
    low, high = max(0, offset - _AROUND_BYTES), offset + _AROUND_BYTES
    return Evidence(
        place=place,
        offset=offset,
        expected=expected[low:high].hex(),
        found=other[low:high].hex(),
    )
