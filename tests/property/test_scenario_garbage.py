"""Whatever stands in a scenario: it is valid, or refused in one sentence."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.errors import InputError
from simulator.scenario import Scenario

FULL: dict[str, Any] = {
    "name": "n",
    "workload": {
        "arrivals": {"process": "gamma", "rate": 8.0, "cv": 2.0},
        "lengths": {"distribution": "fixed", "prompt_tokens": 100, "output_tokens": 20},
        "num_requests": 50,
        "max_tokens": 64,
        "predictor": {"lognormal_error": 0.5},
        "classes": [
            {"name": "a", "share": 0.5, "priority": 1, "slo": {"p99_ttft_ms": 3}},
            {"name": "b", "share": 0.5, "lengths": {"distribution": "azure_conv_2023"}},
        ],
    },
    "model": {"name": "llama-3.1-8b", "kv_dtype": "fp8"},
    "cluster": {"gpu": "h100_sxm", "replicas": 2, "router": "round_robin", "faults": []},
    "scheduler": {"policy": "static", "order": "sjf", "static": {"batch_size": 4}},
    "kv_cache": {"allocator": "paged", "num_gpu_blocks": 100},
    "cost_model": {"kind": "linear", "t_mem_s": 5e-3, "t_flop_s_per_token": 2e-5},
    "slo": {"p99_ttft_ms": 500, "ttft_ms": 500},
}
GARBAGE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**30)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["poisson", "closed_loop", "sglang", "m:f", "linear", "oracle", "burst"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=4,
)


PLACES = [
    ("name",),
    *[(section,) for section in FULL if section != "name"],
    *[
        (section, key)
        for section in FULL
        if isinstance(FULL[section], dict)
        for key in FULL[section]
    ],
    ("workload", "arrivals", "process"),
    ("workload", "arrivals", "rate"),
    ("workload", "lengths", "distribution"),
    ("workload", "classes", 0),
    ("workload", "classes", 0, "share"),
    ("workload", "classes", 1, "lengths"),
    ("workload", "trace"),
    ("workload", "trace", "path"),
    ("scheduler", "static", "batch_size"),
    ("scheduler", "max_num_seqs"),
    ("zzz",),
]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(PLACES), GARBAGE)
def test_garbage_is_refused_in_one_sentence(place: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(FULL)
    holder: Any = data
    for key in place[:-1]:
        holder = holder.setdefault(key, {}) if isinstance(holder, dict) else holder[key]
    holder[place[-1]] = value
    outcome = _build(data)
    if isinstance(outcome, str):
        assert "pydantic" not in outcome
        assert "[type=" not in outcome
    else:
        again = Scenario.from_mapping(outcome.to_mapping())
        assert again.to_mapping() == outcome.to_mapping()


def _build(data: dict[str, Any]) -> Scenario | str:
    """The scenario, or why there is none."""
    try:
        return Scenario.from_mapping(data)
    except InputError as error:
        return str(error)
