"""Archives that the writer makes, opened with mpyq."""

import io

import mpyq
import pytest

from starmill.engines.replays import archive_writer


def test_an_archive_gives_its_members_back():
    members = {"small": b"abc", "empty-ish": b"\0", "large": b"replay" * 5000}
    archive = mpyq.MPQArchive(io.BytesIO(archive_writer.write(members, b"front")))
    assert archive.header["user_data_header"]["content"] == b"front"
    assert [name.decode() for name in archive.files] == list(members)
    for name, content in members.items():
        assert archive.read_file(name) == content


def test_an_archive_of_many_members_has_room_for_all_names():
    members = {f"member-{i}": bytes([i]) * 10 for i in range(40)}
    archive = mpyq.MPQArchive(io.BytesIO(archive_writer.write(members)))
    assert all(archive.read_file(name) == data for name, data in members.items())


def test_an_archive_is_the_same_every_time():
    members = {"replay.details": b"x" * 1000, "replay.game.events": bytes(range(256))}
    assert archive_writer.write(members, b"u") == archive_writer.write(members, b"u")


def test_too_much_user_data_is_refused():
    with pytest.raises(ValueError, match="at most 496 bytes"):
        archive_writer.write({}, bytes(497))
