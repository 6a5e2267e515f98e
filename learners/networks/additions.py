"""Parts that a network of any architecture may have besides its streams and heads.

Memory and the inputs and heads that some algorithms need are the paper's additions. `NetworkConfig`
and `PublishedConfig` add what is particular to each architecture.
"""

import dataclasses

from starmill.learners.networks import memory
from starmill.schema import errors

COMPUTE = ("float32", "bfloat16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Additions:
    """Parts that every architecture may have.

    Attributes:
        memory: "none", "lstm" or "transformer" (`networks.memory`).
        memory_length: past steps that the memory attends to; only for "transformer".
        condition_return: whether the outcome is an input (return-conditioned cloning).
        action_values: whether there is a head for Q(s, function), for CRR and R-BVE.
        latent_model: whether there is a latent model L(h, a), for MuZero.
        compute: "float32" or "bfloat16": in what observations are encoded. Parameters are
            float32 in either case.
        remat: whether the backward pass computes the inside of each block again, instead of
            keeping it: less memory for some more time.
    """

    memory: str = "none"
    memory_length: int = 16
    condition_return: bool = False
    action_values: bool = False
    latent_model: bool = False
    compute: str = "float32"
    remat: bool = False

    def __post_init__(self) -> None:
        """Checks what the fields' types cannot."""
        problems = self._problems()
        if problems:
            raise errors.ConfigError("network: " + "; ".join(problems))

    def _problems(self) -> list[str]:
        problems = []
        if self.memory not in memory.KINDS:
            problems.append(f"memory: expected {memory.KINDS}, found {self.memory!r}")
        if self.compute not in COMPUTE:
            problems.append(f"compute: expected {COMPUTE}, found {self.compute!r}")
        return problems
