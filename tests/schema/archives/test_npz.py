"""Zip files of arrays: what numpy writes is read as numpy reads it, all else is refused."""

import io
import zipfile

import numpy as np
import pytest

from starmill.schema import errors
from starmill.schema.archives import npz


def stored(array) -> bytes:
    body = io.BytesIO()
    np.lib.format.write_array(body, np.asarray(array), allow_pickle=False)
    return body.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float16).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.array(3.5),
        np.array([True, False]),
        np.zeros((0, 4), np.uint8),
        np.zeros((1,) * 20, np.int8),
        np.array(["a", "bc"]),
        np.array([b"x"]),
        np.arange(3, dtype=">i4"),
    ],
)
def test_arrays_come_back_as_numpy_reads_them(array):
    data = stored(array)
    expected = np.load(io.BytesIO(data), allow_pickle=False)
    actual = npz.array(data, "x")
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        stored([1, 2])[:-1],
        stored([1, 2]) + b"x",
        stored([1, 2]).replace(b"(2,)", b"(3,)"),
        stored([1, 2]).replace(b"(2,)", b"(-2)"),
        stored([1, 2]).replace(b"'<i8'", b"'|O8'"),
        stored([1, 2]).replace(b"'<i8'", b"'<i7'"),
        stored([1, 2]).replace(b"{", b"["),
        stored([1, 2]).replace(b"(2,)", b"(2,").replace(b"}", b"\0"),
    ],
)
def test_other_bytes_are_refused(data):
    with pytest.raises(errors.FormatError, match="^x: "):
        npz.array(data, "x")


def archive(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "method",
    [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA],
)
def test_members_come_back(tmp_path, method):
    members = {"a.npy": b"1" * 1000, "b": b""}
    assert npz.read_members(archive(tmp_path / "x", members, method)) == members


def test_a_small_file_of_much_content_is_not_unpacked(tmp_path):
    path = archive(tmp_path / "x", {"a": bytes(1 << 26)})
    assert path.stat().st_size < 1 << 17
    with pytest.raises(errors.FormatError, match="expected at most"):
        npz.read_members(path)


def test_damaged_files_are_refused(tmp_path):
    path = archive(tmp_path / "x", {"a": b"1" * 100}, zipfile.ZIP_LZMA)
    data = path.read_bytes()
    refused = 0
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0xFF
        path.write_bytes(changed)
        try:
            members = npz.read_members(path)
        except errors.FormatError:
            refused += 1
        else:
            assert set(members.values()) == {b"1" * 100}
    assert refused > 40
