"""A few attacks of each kind: refused with the project's errors, or harmless."""

import json
import logging
import random
import signal

import numpy as np
import pytest

import starmill
from starmill.pipelines import verify
from starmill.schema import errors, manifest, table
from starmill.schema.settings import UNPLUGGED
from tests.hostile import captures, datasets, fuzz, mutations


@pytest.fixture(autouse=True)
def deadline():
    """An attack that blocks a reader ends the test, instead of the session."""

    def late(*_):
        raise AssertionError("blocked for five minutes")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(300)  # the first attack may have to wait for compilation
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "kind", ["chunks", "tables", "manifests", "indexes", "captures", "agents"]
)
def test_forged_things_are_refused_or_harmless(tmp_path, kind):
    refused = 0
    for number in range(30):
        try:
            fuzz.KINDS[kind].attack(random.Random(f"test {kind} {number}"), tmp_path)
        except errors.StarmillError:
            refused += 1
    assert refused > 5


@pytest.mark.slow
def test_damaged_checkpoints_are_refused_or_hold_what_was_stored(tmp_path):
    refused = 0
    for number in range(20):
        try:
            fuzz.attack_checkpoints(random.Random(f"test {number}"), tmp_path)
        except errors.StarmillError:
            refused += 1
    assert refused > 3


def test_the_fuzzer_notices_what_is_no_error_of_ours(monkeypatch, tmp_path):
    outcome = fuzz.run("captures", 0, 0, 3, 3600)
    assert (outcome.inputs, outcome.problems) == (3, [])
    pipe = Pipe()
    attack = fuzz.KINDS["chunks"]._replace(attack=lambda rng, folder: 1 / 0)
    monkeypatch.setitem(fuzz.KINDS, "chunks", attack)
    monkeypatch.setattr(fuzz.faulthandler, "enable", lambda: None)
    # Other tests in this process may have used more than an attack may.
    monkeypatch.setattr(fuzz, "_peak", lambda: 0)
    fuzz._attack("chunks", 0, pipe)
    logging.disable(logging.NOTSET)
    assert [word for word, _ in pipe.sent] == ["ready", "begin", "done", "end"]
    assert "ZeroDivisionError" in pipe.sent[2][1][4]


class Pipe:
    """Orders one turn of one input, number 5."""

    def __init__(self):
        self.sent = []
        self.orders = [(5, 1, 3600), None]

    def recv(self):
        return self.orders.pop(0)

    def send(self, message):
        self.sent.append(message)


@pytest.mark.parametrize("kind", datasets.SPECIAL)
@pytest.mark.parametrize("which", ["manifest", "table", "shard", "another file"])
def test_files_that_are_no_files_block_nobody(tmp_path, kind, which):
    folder = datasets.copy(tmp_path)
    content = manifest.read(str(folder))
    name = {
        "manifest": manifest.NAME,
        "table": table.EPISODES,
        "shard": content.shards[0].name,
        "another file": "extra.tfrecord",
    }[which]
    datasets.make_special(folder / name, kind)
    result = verify.verify(str(folder), content).problems
    assert any(problem.where == name for problem in result) or which == "manifest"
    if which != "another file":
        with pytest.raises(errors.FormatError):
            [episode.load() for episode in starmill.open_dataset(str(folder))]


@pytest.mark.parametrize("kind", datasets.BOMBS)
def test_small_tables_of_billions_of_values_are_not_unfolded(tmp_path, kind):
    folder = datasets.copy(tmp_path)
    data = datasets.bomb(kind)
    datasets.replace(folder, table.EPISODES, data)
    with pytest.raises(errors.FormatError, match="rows|values|texts of at most"):
        starmill.open_dataset(str(folder))
    assert verify.verify(str(folder), manifest.read(str(folder))).problems


def forged_manifest(tmp_path, change) -> str:
    folder = datasets.copy(tmp_path)
    path = folder / manifest.NAME
    content = json.loads(path.read_bytes())
    change(content)
    path.write_bytes(datasets.stored(content))
    return str(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.update(name=None), "name: expected a text"),
        (lambda c: c.update(steps=-1), "steps: expected a number from 0"),
        (lambda c: c.update(steps=True), "steps: expected a number from 0"),
        (lambda c: c.update(steps=1e400), "steps: expected a number from 0"),
        (lambda c: c.update(shards=None), "shards: expected"),
        (lambda c: c.update(files={}), "files: expected"),
        (lambda c: c.update(settings=[]), "settings: expected"),
        (lambda c: c.update(selection=mutations.deep(300)), "selection: expected"),
        (lambda c: c["shards"][0].update(name="../../outside/secret.bin"), "not a shard's name"),
        (lambda c: c["shards"][0].update(name="train-00007-of-00002.tfrecord"), "not a shard's name"),
        (lambda c: c["shards"].append(c["shards"][0]), "a name is there twice"),
        (lambda c: c["shards"][0].update(steps=2**50), "cannot be in"),
        (lambda c: c["shards"][0].update(episodes=0), "cannot be in"),
        (lambda c: c["files"][0].update(name="../x"), "not a file's name"),
        (lambda c: c["files"][0].update(name="manifest.json"), "not a file's name"),
        (lambda c: c["libraries"].update(zstd=1), "expected a release"),
        (lambda c: c["settings"]["minimap"].update(x=10**6, y=10**6), "steps of at most"),
        (lambda c: c["settings"].update(num_unit_types=2**40), "expected a number"),
        (lambda c: c["settings"].update(minimap_features="abc"), "list of names"),
        (lambda c: c["settings"]["raw_settings"].update(max_unit_count="5"), "a number"),
        (lambda c: c["settings"].update(mmr=float("nan")), "expected a number"),
        (lambda c: c.update(engine="\ud800"), "surrogates not allowed"),
        (lambda c: c["statistics"].update(by_map=True), "by_map: expected counts"),
        (lambda c: c["statistics"]["by_race"].update(zerg=None), "by_race: expected counts"),
        (lambda c: c["statistics"].pop("steps"), "statistics: unexpected or missing keys"),
        (lambda c: c["statistics"]["mmr"].update(known=None), "mmr: expected numbers"),
        (lambda c: c["statistics"].update(steps={}), "steps: expected .'max', 'min'."),
        (lambda c: c["statistics"].update(game_loops="x"), "game_loops: expected a number"),
    ],
)  # fmt: skip
def test_manifests_with_digests_that_fit_but_values_that_do_not(tmp_path, change, said):
    with pytest.raises(errors.FormatError, match=said):
        manifest.read(forged_manifest(tmp_path, change))


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b"\xff\xfe{}", b'{"format": 1}', b"null", b"", b"\0" * 99]
)
def test_manifests_that_are_no_json(tmp_path, data):
    (tmp_path / manifest.NAME).write_bytes(data)
    with pytest.raises(errors.FormatError):
        manifest.read(str(tmp_path))


def test_a_manifest_without_end_is_not_read(tmp_path):
    with (tmp_path / manifest.NAME).open("wb") as file:
        file.truncate(1 << 40)  # takes no space on the disk
    with pytest.raises(errors.FormatError, match="expected at most"):
        manifest.read(str(tmp_path))


def test_the_papers_settings_are_far_from_the_limit():
    assert UNPLUGGED.step_bytes() < 600_000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"repeat": 10**7}, "'repeat': expected at most"),
        ({"repeat": 2**70}, "int32"),
        ({"unit_tags": [[1], [2, 3]]}, "unit_tags"),
        ({"unit_tags": [None]}, "int32"),
        ({"delay": float("inf")}, "int32"),
        ({"delay": "x"}, "int32"),
        ({"function": {}}, "int32"),
    ],
)
def test_an_agents_action_out_of_bounds_is_refused(tmp_path, change, said):
    """As a capture's actions, which anyone can write."""
    action = {
        "function": 2, "delay": 1, "queued": 0, "repeat": 0, "unit_tags": [0],
        "target_unit_tag": 0, "world": 0,
    }  # fmt: skip
    arrays = dict(captures.originals()[0])
    functions = range(1, 40)
    for function in functions if "function" not in change else [0]:
        arrays["agent_actions_json"] = np.frombuffer(
            json.dumps([{**action, "function": function, **change}] * 3).encode(),
            np.uint8,
        )
        path = tmp_path / "x.npz"
        path.write_bytes(captures._file(arrays, random.Random(0)))
        try:
            captures.consume(path)
        except errors.StarmillError as error:
            assert said in str(error)  # noqa: PT017
            return
    raise AssertionError("no function refused it")
