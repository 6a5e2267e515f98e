"""Agents in one file: what is kept, reproducible bytes, damage, and the command."""

import hashlib
import random
import zipfile

import jax
import numpy as np
import pytest

from starmill import cli
from starmill.benchmark.opponents import contestants
from starmill.learners import acting, agent_file
from starmill.learners.networks import parameters
from starmill.schema import errors
from tests.factories import small_agents


@pytest.fixture(scope="module", params=["bc", "oac"])
def run_folder(request, tmp_path_factory):
    """A run's folder as training leaves it, but with fresh parameters."""
    folder = tmp_path_factory.mktemp(request.param)
    small_agents.write_run(folder, request.param)
    return folder


@pytest.fixture(scope="module")
def file(run_folder):
    path = run_folder / "one.agent"
    agent_file.pack(run_folder, path)
    return path


def test_parameters_are_the_run_s_to_half_precision(run_folder, file):
    meta, arrays = agent_file.load(file)
    full_meta, full = agent_file.load(run_folder)
    assert meta == full_meta
    kept = {name for name in full if name.startswith(("0/", "2/behaviour/"))}
    assert set(arrays) == kept
    assert len(full) > len(kept)  # the optimiser's are left out
    for name in kept:
        assert arrays[name].dtype == full[name].dtype
        np.testing.assert_allclose(arrays[name], full[name], rtol=1e-3, atol=1e-6)


def test_equal_arrays_are_stored_once(run_folder, file):
    """An actor-critic's encoder is that of its behaviour policy."""
    _, arrays = agent_file.load(file)
    distinct = {
        (array.shape, array.astype(np.float16).tobytes()) for array in arrays.values()
    }
    with zipfile.ZipFile(file) as members:
        assert len(members.namelist()) == len(distinct) + 1
    assert len(distinct) < len(arrays)


def test_it_acts_as_its_parameters_say(file):
    """A packed agent acts like an actor that the test builds from the file's arrays."""
    meta, arrays = agent_file.load(file)
    name = meta.run["agent"]
    run = small_agents.run(name)
    like = parameters.shapes(run.algorithm.network, small_agents.SETTINGS)

    def tree(prefix):
        leaves, structure = jax.tree_util.tree_flatten_with_path(like)
        keys = [
            "/".join(str(getattr(k, "key", getattr(k, "name", None))) for k in path)
            for path, _ in leaves
        ]
        return jax.tree.unflatten(structure, [arrays[f"{prefix}/{k}"] for k in keys])

    behaviour = tree("2/behaviour") if name == "oac" else None
    actor = acting.Actor(run, tree("0"), behaviour, acting.Options(mmr=meta.max_mmr))
    by_hand, player = acting.Agent(actor), acting.load(file)
    for one in (by_hand, player):
        one.reset(4, "zerg")
    for step in range(3):
        expected = by_hand.act(small_agents.observation(0, step))
        result = player.act(small_agents.observation(0, step))
        for key, value in expected.items():
            np.testing.assert_array_equal(result[key], value)


def test_the_same_bytes_each_time(run_folder, file, tmp_path):
    agent_file.pack(run_folder, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == file.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


def test_damage_is_found_or_harmless(file, tmp_path):
    """Cut or changed bytes give a FormatError, or arrays of the same names."""
    data = file.read_bytes()
    rng = random.Random(1)
    names = set(agent_file.load(file)[1])
    path = tmp_path / "damaged"
    result = 0
    for trial in range(120):
        if trial < 20:
            changed = data[: rng.randrange(len(data))]
        else:
            changed = bytearray(data)
            changed[rng.randrange(len(data))] ^= 1 + rng.randrange(255)
        path.write_bytes(changed)
        try:
            assert set(agent_file.load(path)[1]) == names
        except errors.FormatError as error:
            assert str(path) in str(error)
            result += 1
    assert result >= 80


def test_the_command(run_folder, file, tmp_path, capsys):
    out = tmp_path / "mine.agent"
    assert cli.main(["pack", str(run_folder), "--out", str(out)]) == 0
    # The hash is the file's own, as evaluations record it.
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert capsys.readouterr().out.endswith(f"sha256:{digest}\n")
    assert contestants.contestant(f"me={out}").digest == f"sha256:{digest}"
    assert out.read_bytes() == file.read_bytes()
    assert cli.main(["pack", str(tmp_path), "--out", str(out)]) == 2
    assert "starmill train" in capsys.readouterr().err
