"""Copies of datasets and agents: equal, verified, continued, and never over something else."""

import shutil
from pathlib import Path

import fsspec
import pytest

from starmill.pipelines import claims, transfer, verify
from starmill.schema import errors, manifest, storage
from tests import s3_server
from tests.factories import range_reads, records


@pytest.fixture
def source(tmp_path):
    """A dataset's folder and manifest."""
    folder = str(tmp_path / "source")
    return folder, records.dataset(folder)


@pytest.fixture(params=["folder", "memory"])
def target(request, tmp_path):
    if request.param == "folder":
        yield str(tmp_path / "target")
        return
    yield "memory://transfer/target"
    with pytest.MonkeyPatch.context():
        filesystem = fsspec.filesystem("memory")
        if filesystem.exists("/transfer"):
            filesystem.rm("/transfer", recursive=True)


def contents(folder):
    return {
        name: storage.read(storage.join(folder, name)) for name in storage.names(folder)
    }


def test_a_copy_has_the_same_files(source, target):
    folder, content = source
    counts = []
    copied = transfer.copy_dataset(folder, content, target, on_bytes=counts.append)
    assert contents(target) == contents(folder)
    files = transfer.dataset_files(content)
    assert copied == (len(files) + 1, 0, sum(file.size_bytes for file in files))
    assert sum(counts) == copied.size_bytes
    assert verify.verify(target, manifest.read(target)).problems == []


def test_a_second_copy_reuses_every_file(source, target):
    folder, content = source
    first = transfer.copy_dataset(folder, content, target)
    again = transfer.copy_dataset(folder, content, target)
    assert again.reused == first.files - 1


def test_an_interrupted_copy_continues_and_is_no_dataset_before(
    source, target, monkeypatch
):
    folder, content = source
    last = transfer.dataset_files(content)[-1].name
    read = storage.RangeReader.read
    digest = storage.digest

    def interrupted(method):
        def act(self, name, *arguments):
            if name == last:
                raise KeyboardInterrupt
            return method(self, name, *arguments)

        return act

    with monkeypatch.context() as patch:
        patch.setattr(storage.RangeReader, "read", interrupted(read))
        patch.setattr(storage, "digest", interrupted(digest))
        with pytest.raises(KeyboardInterrupt):
            transfer.copy_dataset(folder, content, target)
    with pytest.raises(errors.FormatError, match="no dataset here"):
        manifest.read(target)
    copied = transfer.copy_dataset(folder, content, target)
    assert copied.reused == copied.files - 2  # all but one, and the manifest
    assert contents(target) == contents(folder)


def test_a_file_continues_at_its_last_byte(source, tmp_path, monkeypatch):
    folder, content = source
    target = tmp_path / "target"
    file = transfer.dataset_files(content)[-1]
    data = storage.read(storage.join(folder, file.name))
    target.mkdir()
    (target / f"{file.name}.part").write_bytes(data[:100])
    with monkeypatch.context() as patch:
        ranges = range_reads.record(patch)
        transfer.copy_dataset(folder, content, str(target))
    assert (file.name, 100, len(data)) in ranges
    assert contents(str(target)) == contents(folder)


@pytest.mark.parametrize("part", [b"of another file", b"x" * 10**6])
def test_a_part_of_another_file_is_replaced(source, tmp_path, part):
    folder, content = source
    target = tmp_path / "target"
    target.mkdir()
    name = transfer.dataset_files(content)[-1].name
    (target / f"{name}.part").write_bytes(part)
    transfer.copy_dataset(folder, content, str(target))
    assert contents(str(target)) == contents(folder)


def test_a_damaged_source_is_noticed(source, target):
    folder, content = source
    name = content.shards[0].name
    path = Path(folder, name)
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.write_bytes(data)
    with pytest.raises(errors.ShardCorrupt, match=f"{name}: expected .* damaged"):
        transfer.copy_dataset(folder, content, target)
    assert name not in storage.names(target)
    assert manifest.NAME not in storage.names(target)


def test_a_file_damaged_on_its_way_is_removed(source, monkeypatch):
    folder, content = source
    target = "memory://damaged/target"
    filesystem, _ = storage.filesystem_of(target)
    put = filesystem.put_file

    def damaging(path, remote):
        put(path, remote)
        filesystem.pipe_file(remote, filesystem.cat_file(remote)[:-1] + b"?")

    with monkeypatch.context() as patch:
        patch.setattr(filesystem, "put_file", damaging)
        with pytest.raises(errors.ShardCorrupt, match="damaged"):
            transfer.copy_dataset(folder, content, target)
    assert storage.names(target) == []


def test_nothing_else_is_touched(source, target, tmp_path):
    folder, content = source
    storage.write(storage.join(target, "notes.txt"), b"mine")
    with pytest.raises(errors.ConfigError, match=r"empty folder, found notes\.txt"):
        transfer.copy_dataset(folder, content, target)
    assert contents(target) == {"notes.txt": b"mine"}


def test_another_dataset_is_not_overwritten(source, target, tmp_path):
    folder, content = source
    other = str(tmp_path / "other")
    records.dataset(other, [records.episode(9)])
    transfer.copy_dataset(other, manifest.read(other), target)
    with pytest.raises(errors.ManifestMismatch, match="choose another folder"):
        transfer.copy_dataset(folder, content, target)
    assert contents(target) == contents(other)


def test_a_file_of_another_build_is_not_overwritten(source, target):
    folder, content = source
    name = content.shards[0].name
    storage.write(storage.join(target, name), b"of another build")
    with pytest.raises(errors.ConfigError, match=f"{name}: expected no file or sha256"):
        transfer.copy_dataset(folder, content, target)
    assert storage.read(storage.join(target, name)) == b"of another build"


def test_one_copy_at_a_time_writes_to_a_folder(source, target):
    folder, content = source
    with (
        claims.held([target]),
        pytest.raises(errors.ConfigError, match="is writing to it"),
    ):
        transfer.copy_dataset(folder, content, target)


def test_a_place_that_cannot_be_written_is_one_sentence(source, tmp_path):
    folder, content = source
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(errors.ConfigError, match="cannot be written"):
        transfer.copy_dataset(folder, content, str(tmp_path / "file/target"))


@pytest.fixture
def agent(tmp_path):
    path = tmp_path / "bc.agent"
    path.write_bytes(b"an agent")
    return transfer.digest_file(str(path))


def test_an_agent_is_copied_with_its_digest(agent, target):
    address = transfer.copy_agent(agent, target)
    assert address == storage.join(target, "bc.agent")
    assert storage.read(address) == b"an agent"
    line = f"{agent.sha256}  bc.agent\n".encode()
    assert storage.read(f"{address}.sha256") == line
    assert transfer.agent_file(address).sha256 == agent.sha256


def test_an_agent_can_get_another_name(agent, target):
    address = transfer.copy_agent(agent, f"{target}/new.agent")
    assert storage.names(target) == ["new.agent", "new.agent.sha256"]
    assert transfer.agent_file(address) == (address, 8, agent.sha256)


def test_an_agent_is_what_its_reference_says(agent, target, tmp_path):
    address = transfer.copy_agent(agent, target)
    other = transfer.agent_file(f"{address}#sha256:{'0' * 64}")
    with pytest.raises(errors.ShardCorrupt, match="expected .* damaged"):
        transfer.copy_agent(other, str(tmp_path / "new.agent"))
    assert not (tmp_path / "new.agent").exists()


def test_an_agent_without_a_digest_is_refused(tmp_path):
    (tmp_path / "bc.agent").write_bytes(b"an agent")
    with pytest.raises(errors.ConfigError, match="nothing says what the file must be"):
        transfer.agent_file(str(tmp_path / "bc.agent"))
    (tmp_path / "bc.agent.sha256").write_bytes(b"nonsense")
    with pytest.raises(errors.FormatError, match="expected a sha256"):
        transfer.agent_file(str(tmp_path / "bc.agent"))


def test_a_published_agent_never_changes(agent, target, tmp_path):
    transfer.copy_agent(agent, target)
    Path(agent.name).write_bytes(b"another agent")
    with pytest.raises(errors.ConfigError, match="expected no file or sha256"):
        transfer.copy_agent(transfer.digest_file(agent.name), target)


def test_a_reference_is_taken_apart():
    digest = "0" * 64
    assert transfer.split_reference(f"s3://b/x.agent#sha256:{digest}") == (
        "s3://b/x.agent",
        digest,
    )
    assert transfer.split_reference("x.agent") == ("x.agent", None)
    with pytest.raises(errors.ConfigError, match="64 hex digits"):
        transfer.split_reference("x.agent#sha256:0f3c...")


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")  # unclosed sockets of requests that the proxy cut
def test_to_and_from_a_store_that_fails_now_and_then(source, agent, tmp_path):
    folder, content = source
    with s3_server.running() as (url, faults):
        faults.every = 7
        transfer.copy_dataset(folder, content, f"{url}/published")
        back = str(tmp_path / "back")
        transfer.copy_dataset(f"{url}/published", content, back)
        address = transfer.copy_agent(agent, f"{url}/agents")
        transfer.copy_agent(transfer.agent_file(address), str(tmp_path / "new.agent"))
        # From store to store, through this machine.
        transfer.copy_dataset(f"{url}/published", content, f"{url}/again")
        assert contents(f"{url}/again") == contents(folder)
    assert contents(back) == contents(folder)
    assert (tmp_path / "new.agent").read_bytes() == b"an agent"
    shutil.rmtree(back)
