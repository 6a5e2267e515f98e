"""The codec: an episode's arrays to self-contained records, and back.

Enters: arrays by key of `specs.episode_specs`, or the records of an episode. Leaves: the other.
Must not know: files, shards, datasets or the game.

    encoder   decoder      arrays <-> records
      │  records  │        the frame of a record: prefix and compression
      │  layout   │        which section of a payload holds which array
    packing   unpacking    tables and lists <-> sections
    packing   unit_rows    unit rows <-> a section
         planes            planes and the camera <-> sections
         streams           the numbers that sections are made of
"""

from starmill.schema.codec.decoder import Chunk, Header, check_sequence, decode
from starmill.schema.codec.encoder import EpisodeEncoder, encode
from starmill.schema.codec.records import STEPS_PER_CHUNK, VERSION, ZSTD_VERSION

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
]
