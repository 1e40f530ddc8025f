"""The compiled kernels and their plain Python form give the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from forms import CHOSEN, random_runs

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("which", "count", "hard"),
    [("few", 56, 5), pytest.param("all", 297, 20, marks=pytest.mark.long)],
)
def test_plain_python_gives_the_same_bits_as_compiled_code(which, count, hard):
    paths = [str(HERE), str(HERE.parents[1]), *sys.path]
    environment = os.environ | {"SERVECAST_PLAIN": "1", "PYTHONPATH": os.pathsep.join(paths)}
    plain = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / "forms.py", which],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert plain.returncode == 0, plain.stderr
    lines = [f"{name} {run_hash}" for name, run_hash in random_runs(CHOSEN[which]())]
    assert len(lines) == count
    assert sum("preempted=0" not in line for line in lines) > hard  # they are not all easy
    assert plain.stdout.splitlines() == lines
