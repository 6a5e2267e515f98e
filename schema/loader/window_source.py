"""All rollouts of a dataset as a sequence, for Grain, PyTorch, or a loop.

In: a plan of the "sequential" sampler with one lane. Out: rollout i, for any i. Must not know
which library reads it.
"""

import numpy as np

from starmill.schema.loader.batches import Batch, BatchMaker


class WindowSource:
    """The rollouts of a dataset by number: `len(source)`, `source[i]`.

    Each is a dict of arrays [K, *shape] like one lane of a dense batch, with `valid` and
    padding. A source can be pickled, as Grain and PyTorch require of their data sources.
    """

    def __init__(self, maker: BatchMaker) -> None:
        self._maker = maker

    def __len__(self) -> int:
        return self._maker.batches or 0

    def __getitem__(self, number: int) -> Batch:
        """Returns one rollout."""
        if not 0 <= number < len(self):
            raise IndexError(f"window {number}: there are {len(self)}")
        arrays = {
            field.key: np.empty(field.shape, field.dtype)
            for field in self._maker.layout
        }
        self._maker.make(number, arrays)
        return {key: array[0] for key, array in arrays.items()}
