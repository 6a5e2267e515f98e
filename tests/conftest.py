"""Where shared test data is, a real browser, and what to do where either is not."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
BROWSER_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1300,2600",
)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of goldens and replays beside the checkout; skips where there is none."""
    if not SHARED.is_dir():
        pytest.skip("needs ../shared (goldens and real replays), which is not here")
    return SHARED


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium, driven by selenium; skips where Chromium is not installed."""
    from selenium import webdriver

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip(
            "needs chromium and chromedriver (Debian: chromium chromium-driver)"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in BROWSER_OPTIONS:
        options.add_argument(option)
    home = str(tmp_path_factory.mktemp("browser"))
    options.add_argument(f"--user-data-dir={home}")
    # Chromium writes crash reports to the home folder; nothing is to be left there.
    service = webdriver.ChromeService(driver, env={**os.environ, "HOME": home})
    page = webdriver.Chrome(options, service)
    try:
        yield page
    finally:
        page.quit()
