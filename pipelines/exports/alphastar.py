"""The predecessor's records, and the file that tells its learner where they are.

In: an opened dataset. Out: one TFRecord file for each episode, and `paths.py`. The learner finds
files by the game versions, the split and the least rating that its configuration names. Ratings
and versions are therefore part of a file's path.
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from starmill.pipelines.exports.windows import windows
from starmill.schema import episode, protobuf, shards
from starmill.schema.loader import dataset

# The game versions of the predecessor's default configuration, which asks for all at once.
DEFAULT_VERSIONS = ("4.8.2", "4.8.3", "4.8.4", "4.8.6", "4.9.0", "4.9.1", "4.9.2")
# The largest protobuf message.
MOST_RECORD_BYTES = (1 << 31) - 1
# Ratings in a folder, from its name on. The predecessor's default, 3500, must be a multiple.
_RATING_STEP = 500
# A pattern can ask for a range of letters, but not for a range of numbers.
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Place(NamedTuple):
    """What the predecessor's learner looks an episode up by.

    Attributes:
        split: of the dataset.
        version: of the game, three numbers, like "4.9.2".
        rating: the letter of its folder of ratings.
    """

    split: str
    version: str
    rating: str


def place(meta: episode.EpisodeMeta, split: str) -> Place:
    """Returns where an episode belongs."""
    version = ".".join(meta.game_version.split(".")[:3])
    return Place(split, version, _LETTERS[_rating_number(meta.mmr)])


def _rating_number(mmr: int | None) -> int:
    if mmr is None or mmr < 0:
        return 0
    return min(1 + mmr // _RATING_STEP, len(_LETTERS) - 1)


def name(meta: episode.EpisodeMeta, split: str) -> str:
    """Returns the path of an episode's file, relative to the export.

    For example "train/unplugged/4.9.2/i-3500/{replay_id}_{player_id}.tfrecord" for a rating
    from 3500 to 3999.
    """
    location = place(meta, split)
    group = "unplugged" if location.version in DEFAULT_VERSIONS else "others"
    number = _rating_number(meta.mmr)
    least = str((number - 1) * _RATING_STEP) if number else "unrated"
    return (
        f"{split}/{group}/{location.version}/{location.rating}-{least}/"
        f"{meta.replay_id}_{meta.player_id}.tfrecord"
    )


def paths_module(places: Iterable[Place], base: str) -> str:
    """Returns the text of `paths.py`, which maps what a learner asks for to file patterns.

    There are keys for each game version, for the versions of the predecessor's default
    configuration together, and for all versions of the export together. Least ratings are
    multiples of 500. A key exists only if an episode has such a rating. The least rating 0
    also holds the episodes of players without a rating.

    Args:
        places: of all episodes.
        base: address of the export; "" if `paths.py` stays beside the files.
    """
    letters: dict[tuple[tuple[str, ...], str, str], str] = {}
    unique = sorted(set(places))
    versions = tuple(sorted({item.version for item in unique}, key=_version_key))
    for split, version, rating in unique:
        is_default = version in DEFAULT_VERSIONS
        group = "unplugged" if is_default else "others"
        choices: list[tuple[tuple[str, ...], str]] = [
            ((version,), f"{split}/{group}/{version}")
        ]
        if is_default:
            choices.append((DEFAULT_VERSIONS, f"{split}/unplugged/*"))
        if versions != DEFAULT_VERSIONS and len(versions) > 1:
            choices.append((versions, f"{split}/*/*"))
        for asked, folder in choices:
            key = (asked, split, folder)
            letters[key] = max(letters.get(key, "a"), rating)
    lines = []
    for (asked, split, folder), highest in sorted(letters.items()):
        lines.append(f"    ({asked!r}, {split!r}, 0): '{folder}/*/*.tfrecord',")
        for number in range(2, _LETTERS.index(highest) + 1):
            least = (number - 1) * _RATING_STEP
            pattern = f"{folder}/[{_LETTERS[number]}-z]-*/*.tfrecord"
            lines.append(f"    ({asked!r}, {split!r}, {least}): '{pattern}',")
    own = "os.path.dirname(os.path.abspath(__file__))"
    return "\n".join(
        [
            '"""Where the predecessor\'s learner finds these episodes."""',
            "",
            *([] if base else ["import os", ""]),
            f"BASE_PATH = {base!r}" if base else f"BASE_PATH = {own}",
            "RELATIVE_PATHS = {",
            *lines,
            "}",
            "",
        ]
    )


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def file_bytes(opened: dataset.Dataset, number: int) -> bytes | str:
    """Returns the content of an episode's file, or why it cannot be written."""
    content = record(opened, number)
    if len(content) > MOST_RECORD_BYTES:
        return (
            f"episode {opened[number].meta.episode_id}: left out, because its record of "
            f"{len(content)} bytes exceeds protobuf's limit"
        )
    return shards.frame_record(content)


def record(opened: dataset.Dataset, number: int) -> bytes:
    """Returns an episode as the predecessor's `TFExampleCoder(compress=True)` encodes it.

    Features are `observation/<key>` and `step_type`, each the zlib'd little-endian bytes of
    the array over time.
    """
    keys = [*opened.specs, "step_type"]
    packers = {key: zlib.compressobj() for key in keys}
    pieces: dict[str, list[bytes]] = {key: [] for key in keys}
    for window in windows(opened, number, keys):
        for key, array in window.items():
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            pieces[key].append(packers[key].compress(little.tobytes()))
    features = {
        key if key == "step_type" else f"observation/{key}": b"".join(
            [*pieces[key], packers[key].flush()]
        )
        for key in keys
    }
    return _example(features)


def _example(features: Mapping[str, bytes]) -> bytes:
    """Returns a serialized tf.train.Example with one bytes value per feature.

    Example{1: Features{1: repeated entry{1: key, 2: Feature{1: BytesList{1: value}}}}}: so
    little that TensorFlow is not needed for it. Sorted, so the same bytes each time.
    """
    entries = b"".join(
        protobuf.bytes_field(
            1,
            protobuf.bytes_field(1, key.encode())
            + protobuf.bytes_field(
                2, protobuf.bytes_field(1, protobuf.bytes_field(1, value))
            ),
        )
        for key, value in sorted(features.items())
    )
    return protobuf.bytes_field(1, entries)
