"""The engine that the claims are tested with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simulator import Scenario

ENGINE: dict[str, dict[str, Any]] = {
    "cluster": {"gpu": "h100_sxm", "engine_version": "0.12"},
    "scheduler": {"policy": "chunked_prefill", "async_scheduling": False},
    "kv_cache": {"enable_prefix_caching": False, "max_model_len": 16384},
}


@pytest.fixture(scope="session")
def describe() -> Callable[..., Scenario]:
    """Make a scenario: each section adds to ENGINE's; synchronous, without prefix caching."""

    def made(workload: dict[str, Any], model: Any = "llama-3.1-8b", **sections: Any) -> Scenario:
        data: dict[str, Any] = {"name": "claim", "workload": workload, "model": model}
        for key in {**ENGINE, **sections}:
            data[key] = {**ENGINE.get(key, {}), **sections.get(key, {})}
        return Scenario.from_mapping(data)

    return made


def burst(num_requests: int, prompt_tokens: int, output_tokens: int) -> dict[str, Any]:
    """Equal requests, all at t = 0."""
    return {
        "arrivals": {"process": "burst"},
        "lengths": {
            "distribution": "fixed",
            "prompt_tokens": prompt_tokens,
            "output_tokens": output_tokens,
        },
        "num_requests": num_requests,
    }


@pytest.fixture(scope="session", name="burst")
def _burst() -> Callable[..., dict[str, Any]]:
    return burst
