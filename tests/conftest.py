"""Fixtures that every layer of tests uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A change is judged by the same examples every time; `.ci/long` draws new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("new", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of recordings, traces and measurements that are not part of the repository."""
    folder = Path(os.environ.get("SERVECAST_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no recordings at {folder}; set SERVECAST_SHARED to the folder that has them")
    return folder
