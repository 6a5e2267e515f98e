import dataclasses
import json

import pytest

from starmill.schema import errors, manifest, registry
from tests.factories import records


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("manifest")
    return folder, records.dataset(str(folder))


def test_it_comes_back_and_has_a_digest(built):
    folder, content = built
    assert manifest.read(str(folder)) == content
    name, digest = content.reference().split("#")
    assert name == "factory@1.0.0"
    assert len(digest) == len("sha256:") + 64


def test_two_builds_have_the_same_bytes_everywhere(built, tmp_path):
    folder, content = built
    assert records.dataset(str(tmp_path)) == content
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in tmp_path.iterdir())
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / name).read_bytes(), name


def rewrite(content, change):
    """The manifest's bytes after a change that keeps its own checksum right."""
    loaded = json.loads(content.to_bytes())
    del loaded["checksum"]
    change(loaded)
    loaded["checksum"] = manifest._checksum(loaded)
    return manifest._canonical(loaded)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: m.update(extra=1), "unknown keys"),
        (lambda m: m.pop("engine"), "missing"),
        (lambda m: m.update(format=3), "manifest format 3"),
        (lambda m: m.update(format=2), "increments: expected some"),
        (lambda m: m.update(increments=[]), "increments: expected none"),
        (lambda m: m.update(steps=1), "steps: expected .* found 1"),
        (lambda m: m.update(schema="0"), "not the fingerprint"),
        (lambda m: m.update(name="Upper"), "lower case"),
        (lambda m: m.update(version="1"), "like 1.0.0"),
        (lambda m: m["shards"][0].update(note=1), "expected entries with"),
    ],
)
def test_what_does_not_fit_is_refused(built, change, match):
    with pytest.raises(errors.FormatError, match=match):
        manifest.parse(rewrite(built[1], change))


def test_edits_are_noticed(built):
    data = built[1].to_bytes()
    with pytest.raises(errors.FormatError, match="checksum"):
        manifest.parse(data.replace(b"factory", b"faktory"))
    with pytest.raises(errors.FormatError, match="canonical"):
        manifest.parse(data + b" ")
    with pytest.raises(errors.FormatError, match="not JSON"):
        manifest.parse(b"{")
    with pytest.raises(errors.FormatError, match="expected an object"):
        manifest.parse(b"[]")


def test_a_folder_without_one_is_no_dataset(tmp_path):
    with pytest.raises(errors.FormatError, match="no dataset here"):
        manifest.read(str(tmp_path))


def test_the_replay_set_is_a_set():
    assert manifest.replay_set_digest({"b", "a"}) == manifest.replay_set_digest(
        {"a", "b"}
    )
    assert manifest.replay_set_digest({"a"}) != manifest.replay_set_digest({"b"})


def test_card_and_croissant_describe_the_dataset(built):
    folder, content = built
    text = (folder / "README.md").read_text()
    assert "12 episodes" in text
    assert "`action/unit_tags`" in text
    document = json.loads((folder / "croissant.json").read_text())
    listed = {entry["@id"]: entry["sha256"] for entry in document["distribution"]}
    for entry in content.shards:
        assert listed[entry.name] == entry.sha256
    columns = [field["name"] for field in document["recordSet"][0]["field"]]
    assert "episode_id" in columns
    assert all(field["dataType"] for field in document["recordSet"][0]["field"])


def test_a_registry_finds_names_and_keeps_them(built, tmp_path):
    folder, content = built
    path = tmp_path / "registry.json"
    registry.add(path, "factory@1.0.0", str(folder), content.digest())
    registry.add(path, "factory@1.0.0", str(folder), content.digest())
    place = registry.resolve("factory@1.0.0", str(path))
    assert place.url == str(folder)
    assert place.digest == content.digest()
    other = "sha256:" + "0" * 64
    with pytest.raises(errors.ManifestMismatch, match="already registered"):
        registry.add(path, "factory@1.0.0", str(folder), other)
    with pytest.raises(errors.ManifestMismatch, match="the registry has"):
        registry.resolve(f"factory@1.0.0#{other}", str(path))
    with pytest.raises(errors.ConfigError, match="not in the registry"):
        registry.resolve("factory@2.0.0", str(path))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "not JSON"),
        ("[]", "expected"),
        ('{"datasets": {"a@1.0.0": {}}}', "expected url and digest"),
    ],
)
def test_broken_registries_are_refused(tmp_path, text, match):
    path = tmp_path / "registry.json"
    path.write_text(text)
    with pytest.raises(errors.FormatError, match=match):
        registry.resolve("a@1.0.0", str(path))


def test_a_registry_that_is_named_must_be_there(tmp_path):
    with pytest.raises(errors.ConfigError, match="no such file"):
        registry.resolve("a@1.0.0", str(tmp_path / "none.json"))


def test_references_that_make_no_sense_are_refused():
    with pytest.raises(errors.ConfigError, match="expected a path or URL"):
        registry.resolve("data#sha256:123")


def test_a_manifest_cannot_be_built_of_counts_that_disagree(built):
    with pytest.raises(errors.FormatError, match="episodes: expected .* found 3"):
        dataclasses.replace(built[1], episodes=3)
