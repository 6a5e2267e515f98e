"""Sizes of the published architectures `lite` and `full`.

Paper: the appendix points to this code for "the exact hyperparameters and details".
"""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """Widths and depths; every number is of the published configuration.

    Attributes:
        vector: width of the vector stream and of the latent.
        unit: width of the unit stream.
        planes: channels of the visual stream with 64, 32 and 16 cells a side.
        vector_blocks: residual blocks of the vector stream before and after the merge.
        unit_blocks: residual blocks of the unit stream before, and as many after, attention.
        unit_hidden: hidden width of these blocks.
        attention_layers: layers of attention among units.
        attention_heads: heads of each.
        attention_key: key size of a head.
        attention_value: value size of a head.
        scatter: channels in which units enter the planes.
        kernel: side of the kernels that halve or double the planes, 2 or 4.
        plane_blocks: residual blocks of planes with 16 cells a side, in torso and world head.
        planes_to_vector: channels of each halving convolution on the way to the vector.
        units_to_vector: hidden width on the way from units to the vector.
        head_blocks: residual blocks of the function, delay, queued and repeat heads.
        pointwise_gates: whether these heads gate each number of a merge, or the whole vector.
        tag_blocks: residual blocks before the query of unit_tags.
        tag_keys: widths of the layers that make a unit's key.
        tag_small: widths of the layers that make its embedding in the query.
        tag_large: widths of the layers that make its embedding in the vector stream.
        target_blocks: residual blocks before the query of target_unit_tag.
        target_layers: layers that make a unit's key there.
        target_key: size of that key.
        world_start: channels of the world head with 4 and 8 cells a side.
        world_last: channels of the world head with 128 cells a side.
        world_depth_to_space: whether its last layer is a 1x1 convolution to four channels that
            become 2x2 cells; otherwise it is a transposed convolution.
    """

    vector: int
    unit: int
    planes: tuple[int, int, int]
    vector_blocks: tuple[int, int]
    unit_blocks: int
    unit_hidden: int
    attention_layers: int
    attention_heads: int
    attention_key: int
    attention_value: int
    scatter: int
    kernel: int
    plane_blocks: int
    planes_to_vector: tuple[int, ...]
    units_to_vector: int
    head_blocks: tuple[int, int, int, int]
    pointwise_gates: bool
    tag_blocks: int
    tag_keys: tuple[int, int]
    tag_small: tuple[int, int]
    tag_large: tuple[int, int]
    target_blocks: int
    target_layers: int
    target_key: int
    world_start: tuple[int, int]
    world_last: int
    world_depth_to_space: bool


LITE = Sizes(
    vector=128,
    unit=32,
    planes=(4, 8, 16),
    vector_blocks=(2, 2),
    unit_blocks=1,
    unit_hidden=32,
    attention_layers=1,
    attention_heads=2,
    attention_key=32,
    attention_value=16,
    scatter=16,
    kernel=2,
    plane_blocks=2,
    planes_to_vector=(32, 64),
    units_to_vector=64,
    head_blocks=(4, 2, 0, 0),
    pointwise_gates=False,
    tag_blocks=1,
    tag_keys=(64, 16),
    tag_small=(32, 8),
    tag_large=(64, 64),
    target_blocks=1,
    target_layers=1,
    target_key=16,
    world_start=(32, 32),
    world_last=2,
    world_depth_to_space=False,
)

FULL = Sizes(
    vector=1024,
    unit=256,
    planes=(64, 128, 128),
    vector_blocks=(4, 8),
    unit_blocks=2,
    unit_hidden=128,
    attention_layers=3,
    attention_heads=2,
    attention_key=128,
    attention_value=128,
    scatter=64,
    kernel=4,
    plane_blocks=4,
    planes_to_vector=(128,),
    units_to_vector=512,
    head_blocks=(16, 8, 4, 4),
    pointwise_gates=True,
    tag_blocks=8,
    tag_keys=(256, 64),
    tag_small=(128, 32),
    tag_large=(256, 256),
    target_blocks=8,
    target_layers=3,
    target_key=64,
    world_start=(128, 128),
    world_last=8,
    world_depth_to_space=True,
)

# What the published network assumes of the converter's arrays.
FUNCTIONS, DELAYS, QUEUED, REPEATS = 556, 128, 2, 3
UNITS, SLOTS, WORLD = 512, 64, 256
UNIT_TYPES, UPGRADES, PLAYER_NUMBERS = 243, 92, 11
END = UNITS  # the class of unit_tags that ends a selection
