"""The codec: an episode's arrays to self-contained records, and back.

Enters: arrays by key of `specs.episode_specs`, or the records of an episode. Leaves: the other.
Must not know: files, shards, datasets or the game.
"""

from starmill.schema.codec.encoder import (
    STEPS_PER_CHUNK,
    VERSION,
    ZSTD_VERSION,
    Chunk,
    EpisodeEncoder,
    Header,
    check_sequence,
    decode,
    encode,
    payloads,
)

__all__ = [
    "STEPS_PER_CHUNK",
    "VERSION",
    "ZSTD_VERSION",
    "Chunk",
    "EpisodeEncoder",
    "Header",
    "check_sequence",
    "decode",
    "encode",
    "payloads",
]
