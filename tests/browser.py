"""A page as a headless Chromium shows it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--enable-logging=stderr", "--virtual-time-budget=1000",
)  # fmt: skip

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium in the PATH; install Debian's package chromium"
)


@dataclass(frozen=True)
class Shown:
    """What became of a page: its elements after scripts ran, the console, the picture."""

    dom: str
    console: list[str]
    pixels: np.ndarray  # (height, width, 3) uint8


def show(page: Path, *, width: int = 1200, height: int = 2400, dark: bool = False) -> Shown:
    """Open a file and let its scripts run; a fresh profile, no network."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory() as profile:
        picture = Path(profile) / "page.png"
        done = subprocess.run(
            [
                CHROMIUM, *QUIET, f"--user-data-dir={profile}/user", f"--screenshot={picture}",
                "--dump-dom", f"--window-size={width},{height}",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}", page.as_uri(),
            ],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        pixels = np.asarray(Image.open(picture).convert("RGB"))
    console = re.findall(r":CONSOLE(?::|\()\d+\)?\] (.*)", done.stderr)
    return Shown(done.stdout, console, pixels)
