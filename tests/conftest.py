"""Where shared test data is, and what to do where it is not."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of goldens and replays beside the checkout; skips where there is none."""
    if not SHARED.is_dir():
        pytest.skip("needs ../shared (goldens and real replays), which is not here")
    return SHARED
