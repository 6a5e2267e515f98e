"""The container reader against archives made by hand and against mpyq."""

import csv
import io
import struct
from pathlib import Path

import mpyq
import numpy as np
import pytest

from starmill.engines.replays.archive import Archive, decrypt_table, encrypt_table
from starmill.schema import errors
from tests import replay_factory

DATA = {
    "one": b"abc" * 500,
    "two": bytes(range(256)) * 9,
    "tiny": b"x",
    "random": np.random.default_rng(1).bytes(3000),
}


def _open(data: bytes, entries: int = 64) -> Archive:
    return Archive(data, max_table_entries=entries)


def _reason(data: bytes, name: str = "one", max_bytes: int = 1 << 20) -> str:
    with pytest.raises(errors.ReplayError) as caught:
        _open(data).read(name, max_bytes)
    return str(caught.value.reason)


@pytest.mark.parametrize("method", [0, 2, 16])
@pytest.mark.parametrize("sector_shift", [None, 0, 1, 3])
def test_members_come_back(method: int, sector_shift: int | None) -> None:
    file = replay_factory.archive(
        DATA, b"head", method=method, sector_shift=sector_shift, trailing=b"\0" * 99
    )
    archive = _open(file)
    assert archive.user_data == b"head"
    for name, data in DATA.items():
        assert archive.read(name, 1 << 20) == data
        assert archive.read(name.upper(), 1 << 20) == data
        assert name in archive
    assert archive.read("three", 1 << 20) is None
    assert "three" not in archive


def test_members_equal_mpyqs(shared: Path) -> None:
    names = ["replay.details", "replay.initData.backup", "replay.game.events"]
    names += ["replay.gamemetadata.json", "replay.tracker.events", "replay.load.info"]
    compared = 0
    with (shared / "replays/manifest.csv").open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["decode_mpq"] == "ok"]
    for row in rows:
        data = (shared / "replays" / row["file"]).read_bytes()
        theirs = mpyq.MPQArchive(io.BytesIO(data), listfile=False)
        ours = _open(data)
        for name in names:
            try:
                expected = theirs.read_file(name)
            except OSError:
                with pytest.raises(errors.ReplayError):
                    ours.read(name, 1 << 25)
                continue
            assert ours.read(name, 1 << 25) == expected, (row["file"], name)
            compared += expected is not None
    assert compared > 200


def test_tables_are_encrypted_as_the_factory_does() -> None:
    words = np.arange(40, dtype=np.uint32) * 77777
    for name in ("(hash table)", "(block table)"):
        stored = replay_factory.crypt_table(words.tobytes(), name)
        assert encrypt_table(words, name).tobytes() == stored
        assert (decrypt_table(np.frombuffer(stored, "<u4"), name) == words).all()


def test_not_an_archive() -> None:
    for data in (b"", b"MPQ", b"hello, world", b"\x1aMPQ" * 100):
        assert _reason(data) == "not_a_replay"
    file = bytearray(replay_factory.archive(DATA))
    file[1024] ^= 0xFF
    assert _reason(bytes(file)) == "not_a_replay"


def test_truncated_anywhere_is_an_error_not_a_crash() -> None:
    file = replay_factory.archive(DATA, b"head")
    reasons = {_reason(file[:cut]) for cut in range(0, len(file), 7)}
    assert reasons == {"not_a_replay", "truncated"}


def test_tables_are_bounded_before_they_are_read() -> None:
    file = bytearray(replay_factory.archive(DATA))
    struct.pack_into("<I", file, 1024 + 24, 0x0FFFFFFF)
    assert _reason(bytes(file)) == "too_large"
    with pytest.raises(errors.ReplayError, match="at most 8 entries"):
        _open(replay_factory.archive(DATA), entries=8)


def test_member_sizes_are_bounded_before_they_are_unpacked() -> None:
    file = replay_factory.archive({"one": b"\0" * 5_000_000})
    assert _reason(file, max_bytes=4_999_999) == "too_large"
    archive = _open(file)
    assert archive.read("one", 5_000_000) == b"\0" * 5_000_000


def _with_block(file: bytes, index: int, **changes: int) -> bytes:
    """The archive with fields of one block changed, and its table encrypted again."""
    fields = ("offset", "stored_size", "size", "flags")
    header = struct.unpack_from("<4s2I2H4I", file, 1024)
    start, count = 1024 + header[6], header[8]
    plain = bytearray(
        replay_factory.crypt_table(
            file[start : start + 16 * count], "(block table)", decrypt=True
        )
    )
    for name, value in changes.items():
        struct.pack_into("<I", plain, 16 * index + 4 * fields.index(name), value)
    stored = replay_factory.crypt_table(bytes(plain), "(block table)")
    return file[:start] + stored + file[start + 16 * count :]


def test_lying_blocks() -> None:
    file = replay_factory.archive(DATA)
    assert _reason(_with_block(file, 0, size=1499)) == "corrupt"  # there is more
    assert _reason(_with_block(file, 0, size=1501)) == "corrupt"  # there is less
    assert _reason(_with_block(file, 0, offset=1 << 31)) == "truncated"
    assert _reason(_with_block(file, 0, stored_size=1 << 31)) == "truncated"
    assert _reason(_with_block(file, 0, flags=0x81010200)) == "corrupt"  # encrypted
    assert _reason(_with_block(file, 0, flags=0x81000100)) == "corrupt"  # imploded
    assert _reason(_with_block(file, 0, flags=0x80000200)) == "corrupt"  # not sectors
    assert _open(_with_block(file, 0, flags=0)).read("one", 9999) is None
    assert _open(_with_block(file, 0, stored_size=0)).read("one", 9999) is None


def test_unknown_compression() -> None:
    plain = b"\x08" + b"a" * 100
    file = _with_block(replay_factory.archive({"one": plain}, method=0), 0, size=500)
    assert _reason(file) == "corrupt"


def test_a_name_that_points_at_no_block() -> None:
    file = replay_factory.archive({"one": b"1", "two": b"2"})
    broken = bytearray(file)
    struct.pack_into("<I", broken, 1024 + 28, 1)  # one block instead of two
    archive = _open(bytes(broken))
    assert archive.read("one", 10) == b"1"
    assert "two" in archive
    assert _reason(bytes(broken), "two") == "corrupt"


def test_sectors_that_do_not_fit() -> None:
    file = replay_factory.archive({"one": b"a" * 5000}, sector_shift=0)
    offset = 1024 + 208
    for position in range(0, 44, 4):
        broken = bytearray(file)
        struct.pack_into("<I", broken, offset + position, 0xFFFFFFF0)
        assert _reason(bytes(broken)) == "corrupt"
    broken = bytearray(file)
    struct.pack_into("<H", broken, 1024 + 14, 31)
    assert _reason(bytes(broken)) == "corrupt"
