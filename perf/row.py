"""One measured line: ours beside a peer's, in the same run on the same machine."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A measurement.

    ours, peer: in `unit`; peer is None where there is nothing to compare with.
    ratio: how many times better ours is than the peer's (above 1 is better), or None.
    floor: what the ratio (or ours, without a peer) must reach, or None if only reported.
    ok: whether the floor holds; True where there is none.
    """

    name: str
    unit: str
    ours: float
    peer: float | None = None
    peer_name: str | None = None
    ratio: float | None = None
    floor: float | None = None
    ok: bool = True
