"""A small valid scenario, and a way to change it."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def mapping() -> dict[str, Any]:
    """A scenario that needs no calibration and no memory sum."""
    return {
        "workload": {
            "arrivals": {"process": "poisson", "rate": 8.0},
            "lengths": {"distribution": "fixed", "prompt_tokens": 100, "output_tokens": 20},
            "num_requests": 50,
        },
        "model": "llama-3.1-8b",
        "cost_model": {"kind": "linear", "t_mem_s": 5e-3, "t_flop_s_per_token": 2e-5},
    }
