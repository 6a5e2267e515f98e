"""From replays to a verified dataset, command by command, as a user would go."""

import json

import numpy as np
import pytest

from starmill import cli
from starmill.schema.loader import dataset
from tests.factories import short_games

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Leaves the logging of the test process alone."""
    monkeypatch.setattr(cli, "_configure_logging", lambda: None)


def test_replays_to_a_verified_dataset(tmp_path, capsys):
    replays, data = tmp_path / "replays", tmp_path / "data"
    short_games.write_games(replays, 4, loops=150)
    index = str(tmp_path / "index.parquet")

    assert cli.main(["index", str(replays), "--out", index]) == 0
    assert cli.main(["select", index, "--selection", "skirmish"]) == 0
    capsys.readouterr()
    build = ["generate", "--index", index, "--selection", "skirmish", "--workers", "1"]
    assert cli.main([*build, "--output", str(data), "--sc2", "skirmish"]) == 0
    reference = capsys.readouterr().out.splitlines()[-1]

    pinned = f"{data}#{reference.split('#')[1]}"
    again = ["--replay", "1", "--replays", str(replays), "--sc2", "skirmish"]
    assert cli.main(["verify", pinned, *again]) == 0
    assert "1 replays played again" in capsys.readouterr().out

    assert cli.main(["info", str(data), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert info["digest"] == reference.split("#")[1]
    assert info["episodes"] == 8
    assert info["engine"].startswith("skirmish")

    opened = dataset.open_dataset(pinned)
    arrays = opened[0][:]
    assert arrays["raw_units"].any()
    assert np.all(np.diff(arrays["game_loop"]) > 0)
