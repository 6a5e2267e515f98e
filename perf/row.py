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


def beside(
    name: str,
    unit: str,
    ours: float,
    peer: float,
    peer_name: str,
    *,
    floor: float | None,
    less_is_better: bool = False,
) -> Row:
    """Returns the row of a measurement beside a peer's, whose ratio must reach the floor."""
    ratio = peer / ours if less_is_better else ours / peer
    return Row(
        name=name,
        unit=unit,
        ours=ours,
        peer=peer,
        peer_name=peer_name,
        ratio=ratio,
        floor=floor,
        ok=floor is None or ratio >= floor,
    )
