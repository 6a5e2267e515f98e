"""Several real processes that train one run together: the same batches, and the same result."""

import json
import socket
import subprocess
import sys

import numpy as np
import pytest

from starmill.learners import checkpoint, processes, rollouts, splits, training
from starmill.schema import errors
from tests.conftest import ROOT
from tests.factories import small_agents

# Sums over devices are added in another order. Adam's epsilon is far above the rounding of
# gradients, which would otherwise decide the sign of steps where the gradient is 0.
RELATIVE, ABSOLUTE = 1e-4, 2e-5
CHANGES = {"eps": 1e-2, "save_every": 2}
SECONDS = 1200


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_agents.write_dataset(tmp_path_factory.mktemp("data"))


def _start(data, out, count, **task):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.learners.one_process",
                json.dumps(
                    {
                        "agent": "bc",
                        "changes": CHANGES,
                        "data": str(data.url),
                        "out": str(out),
                        "port": port,
                        "process": number,
                        "processes": count,
                        **task,
                        "kill_at": task["kill_at"] if number == count - 1 else None,
                    }
                ),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(count)
    ]


def _run(data, out, count, *, kill_at=None, **task):
    """Runs processes to their ends; returns their exit codes and what they printed."""
    team = _start(data, out, count, kill_at=kill_at, **task)
    try:
        texts = [one.communicate(timeout=SECONDS)[0] for one in team]
    finally:
        for one in team:
            one.kill()
            one.wait()
    return [one.returncode for one in team], texts


def _assert_same_result(ours, theirs):
    """Compares parameters and the first moments of Adam; all arrays must be there."""
    one, two = checkpoint.load(ours)[1], checkpoint.load(theirs)[1]
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(
            one[name], two[name], RELATIVE, ABSOLUTE, err_msg=name
        )


@pytest.mark.parametrize("agent", ["bc", "e-oac"])
@pytest.mark.parametrize("hosts", [2, 4])
def test_hosts_read_the_rows_of_the_same_batches(agent, hosts, data):
    run = small_agents.run(agent, accumulate=2)
    cut = splits.cut(run)
    whole = splits.batches(run, data)
    parts = [splits.batches(run, data, host=host, hosts=hosts) for host in range(hosts)]
    size = run.algorithm.batch_size // hosts
    for _ in range(5):
        arrays = next(whole)
        rows = rollouts.unit_rows(arrays, small_agents.SETTINGS)
        expected = rollouts.prepare(arrays, small_agents.SETTINGS, cut, rows=rows)
        shares = [
            rollouts.prepare(
                next(part),
                small_agents.SETTINGS,
                cut,
                first_row=host * size,
                rows=rows,
            )
            for host, part in enumerate(parts)
        ]
        for key, value in expected.items():
            joined = np.concatenate([share[key] for share in shares])
            np.testing.assert_array_equal(joined, value, err_msg=key)
    states = [one.get_state() for one in (whole, *parts)]
    assert all(state == states[0] for state in states)


@pytest.mark.timeout(SECONDS)
def test_two_processes_survive_a_kill_and_give_the_result_of_one(data, tmp_path):
    """One of two is killed, the other ends and says why; one process then goes on."""
    alone, together = tmp_path / "alone", tmp_path / "together"
    run = small_agents.run("bc", **CHANGES)
    training.train(run, data, alone)
    codes, texts = _run(data, together, 2, kill_at=5, heartbeat=40)
    assert codes[1] == -9
    assert codes[0] not in (0, -9), texts[0]
    assert "another" in texts[0], texts[0]
    assert "died" in texts[0] or "has probably ended" in texts[0], texts[0]
    assert checkpoint.load(together)[0].update in (2, 4)
    summary = training.train(run, data, together)
    assert (summary.update, summary.problem) == (6, None)
    _assert_same_result(alone, together)
    rows = [
        np.genfromtxt(one / "metrics.csv", delimiter=",") for one in (alone, together)
    ]
    np.testing.assert_allclose(rows[0][1:], rows[1][1:], 1e-3, 1e-4)


@pytest.mark.slow
@pytest.mark.timeout(3 * SECONDS)
@pytest.mark.parametrize("agent", ["bc", "e-oac"])
def test_four_processes_stop_and_two_go_on(agent, data, tmp_path):
    """Four are killed, two continue; the result is that of one process."""
    start, alone, together = (
        tmp_path / name for name in ("start", "alone", "together")
    )
    init = None
    if agent == "e-oac":
        training.train(small_agents.run("bc"), data, start)
        init = start
    changes = {**CHANGES, "accumulate": 2, "frames": 4 * 4 * 2 * 6}
    run = small_agents.run(agent, **changes)
    training.train(run, data, alone, init=init)
    task = {
        "agent": agent,
        "changes": changes,
        "init": None if init is None else str(init),
    }
    codes, texts = _run(data, together, 4, kill_at=5, heartbeat=30, **task)
    assert codes[3] == -9
    assert 0 not in codes, texts
    codes, texts = _run(data, together, 2, **task)
    assert codes == [0, 0], texts
    _assert_same_result(alone, together)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("127.0.0.1:1", None, 2), "all three or none"),
        ((None, 0, 2), "all three or none"),
        (("nowhere", 0, 2), "expected HOST:PORT, found 'nowhere'"),
        (("127.0.0.1:1", 2, 2), "expected 0 to 1, found 2"),
    ],
)
def test_senseless_arguments_are_refused(arguments, message):
    with pytest.raises(errors.ConfigError, match=message):
        processes.join(*arguments)


def test_one_process_looks_for_nobody():
    processes.join(processes=1)
    assert (processes.count(), processes.index()) == (1, 0)
    assert processes.is_writer()
