"""Sizes of the compact network, and which of the paper's further inputs it takes."""

import dataclasses

from starmill.learners.networks import memory
from starmill.learners.networks.additions import COMPUTE
from starmill.schema import errors


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompactConfig:
    """Sizes of the compact network.

    Attributes:
        vector: width of the vector stream, and of the latent.
        vector_blocks: residual MLPs in the vector stream.
        unit: width of a unit's embedding.
        unit_hidden: hidden width of the units' MLPs.
        rows: how many units are looked at: the player's own first, then enemies, then what is
            nearest to the player's own. The others cannot be commanded or aimed at.
        queries: learned queries through which the vector attends to the units.
        anchors: of each target point, how many near units are considered as its anchor when it
            is scored.
        reach: the furthest offset from an anchor, in cells of the grid of target points.
        patch: width of the embedding of an anchor's surroundings.
        offset: hidden width of the offsets' head.
        areas: the map's side in areas, for points that are near no unit.
        tag_weight: of unit_tags in the cloning loss. The paper's 320 is for the mean over 64
            steps, most of which choose nothing; here two steps choose everything.
        previous_action: whether the previous action is an input. It says so much of the next
            that a clone learns to repeat itself.
        minimap: whether the minimap's planes are an input of the vector stream. An anchor's
            surroundings are seen in any case.
        legal_actions: whether what was never done in the training games is masked
            (`legal`). Without it, the policy is the paper's.
        memory: "none", "lstm" or "transformer" (`networks.memory`).
        memory_length: past steps that the memory attends to; only for "transformer".
        compute: "float32" or "bfloat16": in what observations are encoded, as in the other
            network.
        remat: not offered here: the network's blocks are too small to be worth computing again.
        condition_return: whether the outcome is an input (return-conditioned cloning).
        action_values: whether there is a head for Q(s, function), for CRR and R-BVE.
        latent_model: whether there is a latent model L(h, a), for MuZero.
    """

    vector: int = 256
    vector_blocks: int = 2
    unit: int = 32
    unit_hidden: int = 64
    rows: int = 160
    queries: int = 8
    anchors: int = 3
    reach: int = 16
    patch: int = 64
    offset: int = 128
    areas: int = 32
    tag_weight: float = 20.0
    previous_action: bool = False
    minimap: bool = False
    legal_actions: bool = False
    memory: str = "none"
    memory_length: int = 16
    compute: str = "float32"
    remat: bool = False
    condition_return: bool = False
    action_values: bool = False
    latent_model: bool = False

    def __post_init__(self) -> None:
        """Checks that every size is one."""
        problems = [
            f"{field.name}: expected at least 1, found {value}"
            for field in dataclasses.fields(self)
            if field.type is int and (value := getattr(self, field.name)) < 1
        ]
        if self.memory not in memory.KINDS:
            problems.append(f"memory: expected {memory.KINDS}, found {self.memory!r}")
        if self.compute not in COMPUTE:
            problems.append(f"compute: expected {COMPUTE}, found {self.compute!r}")
        if self.remat:
            problems.append(
                "remat: expected False, found True: it would save no memory"
            )
        if problems:
            raise errors.ConfigError("compact network: " + "; ".join(problems))
