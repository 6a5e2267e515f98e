"""Real replays, and s2protocol's own decoders to compare with."""

import csv
import importlib.util
import sys
import types
from pathlib import Path
from typing import NamedTuple

import pytest

from starmill.engines.replays import replay_file


class RealReplay(NamedTuple):
    """A real replay, opened, with its row of the manifest and s2protocol's module."""

    row: dict[str, str]
    replay: replay_file.ReplayFile
    s2protocol: types.ModuleType


def s2protocol_module(build: int) -> types.ModuleType:
    """s2protocol's module of a build, without its loader, which newer Pythons lack."""
    package = importlib.util.find_spec("s2protocol")
    folder = Path(package.submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location(
        f"their_protocol_{build}", folder / f"versions/protocol{build:05d}.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def real_replays(shared: Path) -> list[RealReplay]:
    """The smallest readable replay of each build."""
    smallest: dict[str, tuple[dict[str, str], bytes]] = {}
    with (shared / "replays/manifest.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["decode_game_events"] != "ok":
                continue
            data = (shared / "replays" / row["file"]).read_bytes()
            other = smallest.get(row["base_build"])
            if other is None or len(other[1]) > len(data):
                smallest[row["base_build"]] = row, data
    return [
        RealReplay(
            row,
            replay_file.open_replay(data),
            s2protocol_module(int(row["base_build"])),
        )
        for row, data in smallest.values()
    ]


@pytest.fixture(scope="session")
def short_replays(real_replays: list[RealReplay]) -> list[RealReplay]:
    """Those with few events, as s2protocol is slow."""
    replays = [real for real in real_replays if int(real.row["n_game_events"]) < 3000]
    assert len(replays) > 10
    return replays
