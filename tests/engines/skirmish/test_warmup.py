"""The game is compiled once, whoever asks for it."""

import pytest

from starmill.engines.skirmish import warmup
from starmill.schema import compilation


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """Returns how often the game was compiled, with an empty cache."""
    calls = []
    monkeypatch.setattr(warmup, "_cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(warmup, "compile_game", lambda: calls.append(1))
    return calls


def test_the_game_is_compiled_once(compiled):
    warmup.ready()
    warmup.ready()
    assert compiled == [1]


def test_changed_sources_are_compiled_again(compiled, monkeypatch):
    warmup.ready()
    monkeypatch.setattr(compilation, "source_digest", lambda *modules: "0" * 64)
    warmup.ready()
    warmup.ready()
    assert compiled == [1, 1]


def test_the_stamp_covers_kernels_of_both_rooms(compiled, monkeypatch):
    stamped = []
    monkeypatch.setattr(
        compilation, "source_digest", lambda *modules: stamped.extend(modules) or "0"
    )
    warmup.ready()
    modules = compilation.imported_modules(*stamped)
    root = "starmill.engines.skirmish"
    for name in ("simulation.orders", "simulation.ids", "observation.plane_painting"):
        assert f"{root}.{name}" in modules


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    calls = []
    monkeypatch.setattr(warmup, "_cache_folder", lambda: tmp_path / "file" / "cache")
    monkeypatch.setattr(warmup, "compile_game", lambda: calls.append(1))
    warmup.ready()
    warmup.ready()
    assert calls == [1, 1]
