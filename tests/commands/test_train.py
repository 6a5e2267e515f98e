"""`starmill train` on the command line."""

import json

import pytest

from starmill import cli
from starmill.learners import runs
from tests.factories import small_agents


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    small_agents.write_dataset(path)
    return path


@pytest.fixture
def config(tmp_path):
    """A --config file with the small network and batches."""
    run = small_agents.run("bc").to_json()
    del run["agent"], run["sampler"]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(run))
    return path


def test_dry_run_prints_the_resolved_run(folder, tmp_path, config, capsys):
    options = ["--dataset", str(folder), "--out", str(tmp_path / "run"), "--dry-run"]
    assert cli.main(["train", *options, "--config", str(config), "--seed", "9"]) == 0
    text = capsys.readouterr().out
    shown = runs.from_json(json.loads(text[: text.rindex("}") + 1]))
    assert shown == small_agents.run("bc", seed=9)
    assert "parameters, 6 updates" in text
    assert " policy.world\n" in text  # each part has a line
    assert not (tmp_path / "run").exists()


def test_balance_weighs_functions_by_the_training_games(
    folder, tmp_path, config, capsys
):
    options = ["--dataset", str(folder), "--out", str(tmp_path / "run"), "--dry-run"]
    command = ["train", *options, "--config", str(config), "--balance", "0.12"]
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    shown = runs.from_json(json.loads(text[: text.rindex("}") + 1]))
    weights = shown.algorithm.step_weights
    assert weights
    assert all(0 < weight < 1 for weight in weights.values())


def test_a_file_sets_step_weights(folder, tmp_path, capsys):
    run = small_agents.run("bc").to_json()["algorithm"]["network"]
    weights = {"Smart_unit": 0.5}
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps({"algorithm": {"network": run, "step_weights": weights}})
    )
    options = ["--dataset", str(folder), "--out", str(tmp_path / "run"), "--dry-run"]
    assert cli.main(["train", *options, "--config", str(path)]) == 0
    text = capsys.readouterr().out
    shown = json.loads(text[: text.rindex("}") + 1])
    assert shown["algorithm"]["step_weights"] == weights


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rollout", "0"], "rollout: must be at least 1"),
        (["--agent", "oac"], "--init"),
        (["--split", "nowhere"], "found 'nowhere'"),
        (["--init", "missing"], "starmill train"),
    ],
)
def test_what_cannot_start_exits_with_two(folder, tmp_path, options, message, capsys):
    out = ["--dataset", str(folder), "--out", str(tmp_path / "run")]
    # The small settings need the small network.
    run = small_agents.run(options[1] if options[0] == "--agent" else "bc").to_json()
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"algorithm": {"network": run["algorithm"]["network"]}}))
    code = cli.main(["train", *out, "--config", str(path), "--workers", "0", *options])
    assert code == 2
    assert message in capsys.readouterr().err


def test_unknown_keys_of_a_file_are_errors(folder, tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"algorithm": {"colour": 1}}))
    out = ["--dataset", str(folder), "--out", str(tmp_path / "run")]
    assert cli.main(["train", *out, "--config", str(path)]) == 2
    assert "unknown key 'colour'" in capsys.readouterr().err


@pytest.mark.slow
def test_trains_evaluates_and_goes_on(folder, tmp_path, config, capsys):
    out = tmp_path / "run"
    command = ["train", "--dataset", str(folder), "--out", str(out)]
    command += ["--config", str(config), "--workers", "1"]
    assert cli.main(command) == 0
    first = capsys.readouterr().out
    assert "| function |" in first
    result = json.loads((out / "prediction.json").read_text())
    assert set(result["arguments"]) == set(small_agents.ACTION_SPECS)
    assert cli.main(command) == 0  # nothing left to do but to evaluate again
    assert "this session 0 in" in capsys.readouterr().out
    assert json.loads((out / "prediction.json").read_text()) == result


@pytest.mark.slow
def test_without_held_out_games_it_trains_and_says_so(tmp_path, config, capsys):
    data = tmp_path / "data"
    small_agents.write_dataset(data, splits=("train",))
    command = ["train", "--dataset", str(data), "--out", str(tmp_path / "run")]
    assert cli.main([*command, "--config", str(config), "--workers", "0"]) == 0
    printed = capsys.readouterr().out
    assert "evaluation skipped: the dataset has no episodes in test" in printed
    assert "--hold-out 100" in printed
    assert not (tmp_path / "run" / "prediction.json").exists()


def test_the_former_name_of_an_agent_is_understood(folder, tmp_path, capsys):
    out = ["--dataset", str(folder), "--out", str(tmp_path / "run"), "--dry-run"]
    run = small_agents.run("e-oac").to_json()
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"algorithm": {"network": run["algorithm"]["network"]}}))
    command = ["train", *out, "--config", str(path), "--agent"]
    assert cli.main([*command, "eoac"]) == 0
    former = capsys.readouterr().out
    assert cli.main([*command, "e-oac"]) == 0
    assert capsys.readouterr().out == former
    assert '"agent": "e-oac"' in former
