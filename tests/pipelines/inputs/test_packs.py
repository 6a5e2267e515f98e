"""Zip packs: plain and encrypted ones, damaged members, and where replays are found."""

import dataclasses
import io
import os
import pickle
import struct
import zipfile
import zlib
from pathlib import Path

import fsspec
import numpy as np
import pytest

from starmill.engines import pool
from starmill.pipelines import index, stages, work_folder
from starmill.pipelines.episode_maker import MakerConfig
from starmill.pipelines.inputs import packs, sources
from starmill.schema import errors
from tests.factories import range_reads

PASSWORD = "iagree"  # noqa: S105 - of this test


class _Cipher:
    """PKZIP's stream cipher, as its description has it: the slow way."""

    def __init__(self, password: bytes) -> None:
        self.keys = [0x12345678, 0x23456789, 0x34567890]
        for byte in password:
            self._update(byte)

    def _update(self, byte: int) -> None:
        keys = self.keys
        keys[0] = zlib.crc32(bytes([byte]), keys[0] ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
        keys[1] = ((keys[1] + (keys[0] & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
        top = bytes([keys[1] >> 24])
        keys[2] = zlib.crc32(top, keys[2] ^ 0xFFFFFFFF) ^ 0xFFFFFFFF

    def encrypt(self, data: bytes) -> bytes:
        out = bytearray()
        for byte in data:
            mixed = (self.keys[2] | 2) & 0xFFFF
            out.append(byte ^ (mixed * (mixed ^ 1) >> 8 & 0xFF))
            self._update(byte)
        return bytes(out)


def encrypted_pack(members: dict[str, bytes], password: str = PASSWORD) -> bytes:
    """A zip file with deflated, encrypted members, as Blizzard's packs are."""
    body, directory = bytearray(), bytearray()
    for name, data in members.items():
        crc = zlib.crc32(data)
        deflater = zlib.compressobj(wbits=-15)
        packed = deflater.compress(data) + deflater.flush()
        head = b"random12345" + bytes([crc >> 24])
        stored = _Cipher(password.encode()).encrypt(head + packed)
        fields = (20, 1, 8, 0, 0x21, crc, len(stored), len(data), len(name), 0)
        offset = len(body)
        body += (
            struct.pack("<4s5H3I2H", b"PK\x03\x04", *fields) + name.encode() + stored
        )
        directory += struct.pack(
            "<4s6H3I5H2I", b"PK\x01\x02", 20, *fields, 0, 0, 0, 0, offset
        )
        directory += name.encode()
    counts = (0, 0, len(members), len(members), len(directory), len(body), 0)
    return bytes(body + directory) + struct.pack("<4s4H2IH", b"PK\x05\x06", *counts)


def plain_pack(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as pack:
        for name, data in members.items():
            pack.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


MEMBERS = {
    "b.SC2Replay": b"second" * 100,
    "a.SC2Replay": np.random.default_rng(5).bytes(3000),
    "readme.txt": b"not a replay",
    "folder/c.sc2replay": b"",
}


def _read(path: Path, **changes: object) -> list[tuple[str, object]]:
    options = {"password": PASSWORD, "max_bytes": 1 << 20, **changes}
    return [(m.name, m.data) for m in packs.members(str(path), 0, 99, **options)]


@pytest.mark.parametrize("make", [plain_pack, encrypted_pack])
def test_members_come_back_in_order(tmp_path: Path, make: object) -> None:
    path = tmp_path / "p.zip"
    path.write_bytes(make(MEMBERS))
    held = packs.contents(str(path))
    assert held == (3, make is encrypted_pack)
    names = ["a.SC2Replay", "b.SC2Replay", "folder/c.sc2replay"]
    assert _read(path) == [(name, MEMBERS[name]) for name in names]
    some = list(packs.members(str(path), 1, 2, password=PASSWORD, max_bytes=1 << 20))
    assert [(m.name, m.data) for m in some] == [("b.SC2Replay", MEMBERS["b.SC2Replay"])]


@pytest.mark.parametrize("make", [plain_pack, encrypted_pack])
def test_a_member_is_one_request_of_its_own_bytes(tmp_path, monkeypatch, make) -> None:
    path = tmp_path / "p.zip"
    path.write_bytes(make(MEMBERS))
    reads = range_reads.record(monkeypatch)
    for member in packs.members(str(path), 0, 9, password=PASSWORD, max_bytes=9999):
        place = (member.offset, member.size)
        result = packs.member_at(str(path), *place, password=PASSWORD, max_bytes=9999)
        assert result == member.data == MEMBERS[member.name]
        assert reads.pop() == ("p.zip", member.offset, member.offset + member.size)
        assert not reads
    monkeypatch.chdir(tmp_path)
    result = packs.member_at("p.zip", *place, password=PASSWORD, max_bytes=9999)
    assert result == member.data


def test_a_pack_that_changed_is_read_by_its_directory(tmp_path) -> None:
    path = tmp_path / "p.zip"
    path.write_bytes(plain_pack(MEMBERS))
    settings = index.IndexSettings()
    unit = sources.find([str(path)]).units[0]
    rows = {row.file_stem: row for row in index.rows_of(unit, settings)}
    assert stages.read_replay(rows["b"]) == MEMBERS["b.SC2Replay"]
    path.write_bytes(plain_pack(dict(sorted(MEMBERS.items()))))
    assert stages.read_replay(rows["b"]) == MEMBERS["b.SC2Replay"]
    old = dataclasses.replace(rows["b"], member_offset=None, member_bytes=None)
    assert stages.read_replay(old) == MEMBERS["b.SC2Replay"]


def test_the_factory_makes_what_zipfile_decrypts(tmp_path: Path) -> None:
    path = tmp_path / "p.zip"
    path.write_bytes(encrypted_pack(MEMBERS))
    with zipfile.ZipFile(path) as pack:
        for name, data in MEMBERS.items():
            assert pack.read(name, PASSWORD.encode()) == data


@pytest.mark.parametrize("password", [None, "", "wrong", "iagreE"])
def test_a_wrong_password_is_a_reason(tmp_path: Path, password: str | None) -> None:
    path = tmp_path / "p.zip"
    path.write_bytes(encrypted_pack(MEMBERS))
    for _, result in _read(path, password=password):
        assert isinstance(result, errors.ReplayError)
        assert result.reason == "unreadable"


def test_one_damaged_member_does_not_hide_the_others(tmp_path: Path) -> None:
    data = bytearray(plain_pack({"a.SC2Replay": b"x" * 999, "b.SC2Replay": b"y"}))
    data[45] ^= 0xFF
    path = tmp_path / "p.zip"
    path.write_bytes(data)
    result = dict(_read(path))
    assert result["a.SC2Replay"].reason == "unreadable"
    assert result["b.SC2Replay"] == b"y"


def test_wrong_bytes_of_the_right_length_are_seen(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as pack:
        pack.writestr(zipfile.ZipInfo("a.SC2Replay"), b"plain stored bytes")
    path = tmp_path / "p.zip"
    path.write_bytes(out.getvalue().replace(b"stored", b"stolen"))
    ((_, result),) = _read(path)
    assert result.reason == "unreadable"
    assert "checksum" in result.detail


def test_sizes_are_bounded_before_unpacking(tmp_path: Path) -> None:
    path = tmp_path / "p.zip"
    path.write_bytes(plain_pack({"a.SC2Replay": b"\0" * 100_000}))
    ((_, result),) = _read(path, max_bytes=99_999)
    assert result.reason == "too_large"


def test_every_damage_is_an_error_of_ours(tmp_path: Path) -> None:
    good = encrypted_pack({"a.SC2Replay": b"data" * 50, "b.SC2Replay": b"more" * 50})
    rng = np.random.default_rng(0)
    path = tmp_path / "p.zip"
    for _ in range(400):
        data = bytearray(good)
        for at in rng.integers(0, len(data), 3):
            data[at] = rng.integers(256)
        path.write_bytes(
            data[: rng.integers(1, len(data) + 1)] if rng.random() < 0.3 else data
        )
        try:
            for _, result in _read(path):
                assert isinstance(result, bytes | errors.ReplayError)
        except errors.ReplayError as error:
            assert error.reason == "unreadable"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b.SC2Replay", "a.SC2Replay", "deep/c.SC2Replay", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "p.zip").write_bytes(plain_pack(MEMBERS))
    (tmp_path / "q.zip").write_bytes(encrypted_pack(MEMBERS))
    (tmp_path / "broken.zip").write_bytes(b"PK nothing")
    return tmp_path


def _listed(inputs: sources.Sources) -> list[str]:
    out = []
    for unit in inputs.units:
        out += unit.files or [f"{unit.pack}[{unit.begin}:{unit.end}]"]
    return out


def test_folders_globs_and_files(tree: Path) -> None:
    inputs = sources.find([str(tree)])
    assert _listed(inputs) == [
        f"{tree}/a.SC2Replay",
        f"{tree}/b.SC2Replay",
        f"{tree}/deep/c.SC2Replay",
        f"{tree}/broken.zip[0:0]",
        f"{tree}/p.zip[0:3]",
        f"{tree}/q.zip[0:3]",
    ]
    assert (inputs.replays, inputs.encrypted) == (3 + 1 + 3 + 3, True)
    assert _listed(sources.find([f"{tree}/*.SC2Replay"])) == [
        f"{tree}/a.SC2Replay",
        f"{tree}/b.SC2Replay",
    ]
    # What is named is taken, whatever it is called; and taken once.
    twice = sources.find([f"{tree}/notes.txt", f"{tree}/notes.txt"])
    assert _listed(twice) == [f"{tree}/notes.txt"]
    both = sources.find([f"{tree}/a.SC2Replay", str(tree / "deep"), f"{tree}/a*"])
    assert len(_listed(both)) == 2


def test_units_have_bounded_sizes(tree: Path) -> None:
    inputs = sources.find([str(tree)], per_unit=2)
    assert [unit.replays for unit in inputs.units] == [2, 1, 1, 2, 1, 2, 1]
    assert inputs.replays == 10
    assert len({unit.digest for unit in inputs.units}) == 7


def test_a_changed_file_changes_its_units_digest(tree: Path) -> None:
    before = sources.find([f"{tree}/a.SC2Replay"]).units[0].digest
    assert sources.find([f"{tree}/a.SC2Replay"]).units[0].digest == before
    (tree / "a.SC2Replay").write_bytes(b"other content")
    after = sources.find([f"{tree}/a.SC2Replay"]).units[0].digest
    assert after != before
    os.utime(tree / "a.SC2Replay", (1, 1))
    assert sources.find([f"{tree}/a.SC2Replay"]).units[0].digest != after


def test_urls() -> None:
    filesystem = fsspec.filesystem("memory")
    filesystem.pipe_file("/where/x/a.SC2Replay", b"1")
    filesystem.pipe_file("/where/x/p.zip", plain_pack(MEMBERS))
    try:
        inputs = sources.find(["memory://where/x"])
        assert _listed(inputs) == [
            "memory:///where/x/a.SC2Replay",
            "memory:///where/x/p.zip[0:3]",
        ]
        one = sources.find(["memory://where/x/a.SC2Replay"])
        assert _listed(one) == ["memory://where/x/a.SC2Replay"]
    finally:
        filesystem.rm("/where", recursive=True)


@pytest.mark.parametrize("name", ["gone.SC2Replay", "gone/*.SC2Replay", "empty"])
def test_what_names_nothing_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(errors.ConfigError, match="found none"):
        sources.find([str(tmp_path / name)])


@pytest.mark.parametrize("kind", ["env", "file", "plain"])
def test_a_job_does_not_hold_the_password(tmp_path, monkeypatch, kind):
    """Stages are pickled, and job descriptions are stored by runners and their logs."""
    monkeypatch.setenv("PACK_WORD", PASSWORD)
    monkeypatch.setenv(packs._VARIABLE, "")
    (tmp_path / "word").write_text(PASSWORD + "\n")
    given = {
        "env": "env:PACK_WORD",
        "file": f"file:{tmp_path / 'word'}",
        "plain": PASSWORD,
    }
    source = packs.password_source(given[kind], is_local=True)
    stage = stages.PlayPacket(
        work_folder.Target("work", "data", "0" * 16, ""),
        pool.PoolConfig(root="x"),
        MakerConfig(),
        source,
    )
    assert PASSWORD.encode() not in pickle.dumps(stage)
    settings = index.IndexSettings(password=source)
    assert PASSWORD.encode() not in pickle.dumps(
        index.IndexUnit("folder", "units", settings)
    )
    assert packs._read_password(pickle.loads(pickle.dumps(source))) == PASSWORD


def test_passwords_that_workers_cannot_find_are_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("NO_SUCH", raising=False)
    with pytest.raises(errors.ConfigError, match="no variable NO_SUCH"):
        packs.password_source("env:NO_SUCH", is_local=True)
    with pytest.raises(errors.ConfigError, match="nowhere"):
        packs.password_source(f"file:{tmp_path}/nowhere", is_local=True)
    with pytest.raises(errors.ConfigError, match="on a cluster, expected env:NAME"):
        packs.password_source(PASSWORD, is_local=False)
    assert packs.password_source(None, is_local=False) is None
