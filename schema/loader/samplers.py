"""Decides which steps are in which batch, from lengths, a plan and the batch's number.

In: the lengths of the episodes, and the number of a batch. Out: the pieces of episodes that fill
each of its lanes. Samplers only remember what they can compute again from the number, so the
number is the whole state of an iteration. Must not know what an episode contains.

Random numbers are raw Philox output, which numpy promises to keep, and integer arithmetic of our
own: numpy's distributions may change between releases.
"""

import dataclasses
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

NAMES = ("episode", "step", "consecutive", "sequential")
# Those that read an episode in order, so that a rollout can continue the one before it.
ORDERED = ("consecutive", "sequential")
# Independent streams of random numbers.
_WINDOWS, _LANES, _EPOCHS, _SHUFFLE = 0, 1, 2, 3


class Piece(NamedTuple):
    """Consecutive steps of an episode.

    Attributes:
        episode: the episode's row in the table.
        start: its first step in the piece.
        length: the number of steps.
    """

    episode: int
    start: int
    length: int


Lane = list[Piece]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplingPlan:
    """How the rollouts of a batch are chosen; `BatchOptions` has checked the values.

    Attributes:
        sampler: "episode": a uniformly random episode, then a uniformly random start in it
            (paper, algorithm 1). "step": uniform over all possible starts. "consecutive": each
            lane reads whole episodes, and each rollout starts where the lane's last one ended.
            "sequential": every window once, in order.
        lanes: the number of rollouts in a draw, over all hosts and parts.
        rollout: K, the number of steps in a rollout.
        stride: steps from one rollout of an episode to the next; K unless the sampler is
            "consecutive" or "sequential".
        cross_episodes: whether a rollout that reaches the end of its episode continues with the
            next one, instead of being padded; False unless the sampler is one of these two.
        seed: decides the random choices; unused by "sequential".
        ahead: steps from a rollout's start to the start of a second stretch of K steps of the
            same episode; 0 for none. Only for "episode" and "step".
    """

    sampler: str
    lanes: int
    rollout: int
    stride: int
    cross_episodes: bool
    seed: int
    ahead: int = 0

    @property
    def steps(self) -> int:
        """Returns how many steps a lane has, the second stretch included."""
        return self.rollout * (2 if self.ahead else 1)


class Sampler(Protocol):
    """Decides what is in the batches of a plan.

    Attributes:
        batches: how many batches there are; None if there is no end.
    """

    batches: int | None

    def lanes(self, batch: int, begin: int, end: int) -> list[Lane]:
        """Returns the pieces in lanes begin:end of a batch; an empty lane is all padding."""


def make(plan: SamplingPlan, lengths: NDArray[np.int64]) -> Sampler:
    """Returns the sampler of a plan over episodes of these lengths."""
    if plan.sampler == "sequential":
        return _Sequential(plan, lengths)
    if plan.sampler == "consecutive":
        return _Consecutive(plan, lengths)
    return _Random(plan, lengths)


def permutation(count: int, seed: int, stream: int) -> NDArray[np.int64]:
    """Returns 0 .. count - 1 in a random order, which seed and stream decide."""
    return np.argsort(_raw(seed, stream, count), kind="stable")


def shuffle_keys(seed: int, batch: int, lane: int, count: int) -> NDArray[np.uint64]:
    """Returns random keys to sort by, for shuffling within one lane of a batch."""
    return _raw(seed, _SHUFFLE << 60 | (batch & 0xFFFFFFFFFF) << 20 | lane, count)


def _raw(seed: int, stream: int, count: int) -> NDArray[np.uint64]:
    key = np.array([seed, stream], np.uint64)
    return np.asarray(np.random.Philox(key=key).random_raw(count), np.uint64)


class _Random:
    """The samplers "episode" and "step": every rollout is drawn independently."""

    batches: int | None = None

    def __init__(self, plan: SamplingPlan, lengths: NDArray[np.int64]) -> None:
        self._plan = plan
        self._lengths = lengths
        # Steps at which a whole rollout can start; an episode shorter than that has one.
        self._starts = np.maximum(lengths - plan.rollout + 1, 1)
        self._ends = np.cumsum(self._starts)

    def lanes(self, batch: int, begin: int, end: int) -> list[Lane]:
        """Returns one piece per lane; two with `ahead`, if the episode reaches that far."""
        drawn = _raw(self._plan.seed, _WINDOWS << 60 | batch, 2 * self._plan.lanes)
        out = []
        for lane in range(begin, end):
            first, second = int(drawn[2 * lane]), int(drawn[2 * lane + 1])
            if self._plan.sampler == "episode":
                episode = first * len(self._lengths) >> 64
                start = second * int(self._starts[episode]) >> 64
            else:
                place = first * int(self._ends[-1]) >> 64
                episode = int(np.searchsorted(self._ends, place, side="right"))
                start = place - int(self._ends[episode] - self._starts[episode])
            out.append(self._pieces(episode, start))
        return out

    def _pieces(self, episode: int, start: int) -> Lane:
        starts = [start]
        if self._plan.ahead:
            starts.append(start + self._plan.ahead)
        length = int(self._lengths[episode])
        return [
            Piece(episode, begin, min(self._plan.rollout, length - begin))
            for begin in starts
            if begin < length
        ]


class _Track:
    """Episodes one after the other, cut into rollouts.

    Attributes:
        size: the number of rollouts; the number of steps if rollouts cross episodes.
    """

    def __init__(
        self,
        plan: SamplingPlan,
        episodes: NDArray[np.int64],
        lengths: NDArray[np.int64],
    ) -> None:
        self._plan = plan
        self._episodes = episodes
        self._lengths = lengths[episodes]
        if plan.cross_episodes:
            counts = self._lengths
        else:
            beyond = np.maximum(self._lengths - plan.rollout, 0)
            counts = 1 + -(-beyond // plan.stride)
        self._ends = np.cumsum(counts)
        self.size = int(self._ends[-1])

    def rollout(self, number: int) -> Piece:
        """Returns rollout `number`, which stays within its episode."""
        place = int(np.searchsorted(self._ends, number, side="right"))
        earlier = int(self._ends[place - 1]) if place else 0
        start = (number - earlier) * self._plan.stride
        count = min(self._plan.rollout, int(self._lengths[place]) - start)
        return Piece(int(self._episodes[place]), start, count)

    def steps(self, begin: int, count: int) -> Lane:
        """Returns the pieces that are steps begin : begin + count; fewer at the track's end."""
        pieces: Lane = []
        place = int(np.searchsorted(self._ends, begin, side="right"))
        while count and place < len(self._ends):
            start = begin - int(self._ends[place] - self._lengths[place])
            length = min(count, int(self._lengths[place]) - start)
            pieces.append(Piece(int(self._episodes[place]), start, length))
            begin += length
            count -= length
            place += 1
        return pieces


class _Sequential:
    """The sampler "sequential": every window once, in the order of the table.

    The last batch may have empty lanes.
    """

    def __init__(self, plan: SamplingPlan, lengths: NDArray[np.int64]) -> None:
        self._plan = plan
        self._track = _Track(plan, np.arange(len(lengths)), lengths)
        size = self._track.size
        self._rollouts = -(-size // plan.stride) if plan.cross_episodes else size
        self.batches: int | None = -(-self._rollouts // plan.lanes)

    def lanes(self, batch: int, begin: int, end: int) -> list[Lane]:
        """Returns one window per lane; lanes after the last window are empty."""
        out: list[Lane] = []
        for lane in range(begin, end):
            number = batch * self._plan.lanes + lane
            if number >= self._rollouts:
                out.append([])
            elif self._plan.cross_episodes:
                begin_step = number * self._plan.stride
                out.append(self._track.steps(begin_step, self._plan.rollout))
            else:
                out.append([self._track.rollout(number)])
        return out


class _Consecutive:
    """The sampler "consecutive": every lane reads episode after episode, without end.

    Each lane has its own share of the episodes (all of them, if there are fewer episodes than
    lanes), and reads it in a new order in each pass.
    """

    batches: int | None = None

    def __init__(self, plan: SamplingPlan, lengths: NDArray[np.int64]) -> None:
        self._plan = plan
        self._lengths = lengths
        self._order = permutation(len(lengths), plan.seed, _LANES << 60)
        self._tracks: dict[int, tuple[int, _Track]] = {}
        self._sizes: dict[int, int] = {}

    def lanes(self, batch: int, begin: int, end: int) -> list[Lane]:
        """Returns the next rollout of each lane."""
        return [self._lane(batch, lane) for lane in range(begin, end)]

    def _lane(self, batch: int, lane: int) -> Lane:
        if lane not in self._sizes:
            self._sizes[lane] = self._track(lane, 0).size
        size = self._sizes[lane]
        if not self._plan.cross_episodes:
            return [self._track(lane, batch // size).rollout(batch % size)]
        pieces: Lane = []
        begin, count = batch * self._plan.stride, self._plan.rollout
        while count:
            more = self._track(lane, begin // size).steps(begin % size, count)
            length = sum(piece.length for piece in more)
            pieces += more
            begin += length
            count -= length
        return pieces

    def _track(self, lane: int, epoch: int) -> _Track:
        """Returns the episodes of a lane in the order of one pass, from 0."""
        last = self._tracks.get(lane)
        if last is not None and last[0] == epoch:
            return last[1]
        shared = len(self._order) < self._plan.lanes
        episodes = self._order if shared else self._order[lane :: self._plan.lanes]
        stream = _EPOCHS << 60 | (epoch & 0xFFFFFFFFFF) << 20 | lane
        episodes = episodes[permutation(len(episodes), self._plan.seed, stream)]
        track = _Track(self._plan, episodes, self._lengths)
        self._tracks[lane] = (epoch, track)
        return track
