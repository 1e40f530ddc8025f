"""Scenarios whose replicas are several stages or engines: what must be the same, and is sound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulator import Scenario, simulate
from simulator.errors import InputError
from simulator.scenario import resolve
from simulator.simulation import Result


def scenario(model: str, *overrides: str, **cluster: Any) -> Scenario:
    return Scenario.from_mapping(
        {
            "name": "groups",
            "workload": {
                "arrivals": {"process": "poisson", "rate": 20.0},
                "lengths": {
                    "distribution": "uniform",
                    "min_prompt_tokens": 20,
                    "max_prompt_tokens": 3000,
                    "min_output_tokens": 1,
                    "max_output_tokens": 60,
                },
                "num_requests": 150,
            },
            "model": model,
            "cluster": {"gpu": "h100_sxm", **cluster},
        }
    ).with_overrides(list(overrides))


def times(result: Result) -> np.ndarray:
    outcome = result.recording.outcome
    return np.stack((outcome.admitted_s, outcome.first_token_s, outcome.finished_s))


def test_engines_of_a_dense_model_are_replicas() -> None:
    engines, replicas = (
        simulate(scenario("llama-3.1-8b", **cluster))
        for cluster in ({"data_parallel": 3}, {"replicas": 3})
    )
    assert (times(engines) == times(replicas)).all()
    assert engines.summary["num_gpus"] == replicas.summary["num_gpus"] == 3
    assert engines.summary["cost"] == replicas.summary["cost"]


@pytest.mark.parametrize(
    ("model", "cluster"),
    [
        ("llama-3.1-8b", {"pipeline_parallel": 2}),
        ("qwen3-30b-a3b", {"data_parallel": 2, "tensor_parallel": 2, "expert_parallel": True}),
    ],
)
def test_a_run_with_few_blocks_is_sound(model: str, cluster: dict[str, Any]) -> None:
    """Preemptions while other steps are under way leave no block and no token astray."""
    result = simulate(scenario(model, "kv_cache.num_gpu_blocks=400", **cluster))
    assert result.summary["completed"] == 150
    assert result.summary["preemptions"] > 0
    assert result.check_integrity() == []
    steps = result.recording.steps
    for engine in range(result.recording.replicas):
        mine = steps.replica == engine
        start_s, end_s = steps.start_s[mine], steps.end_s[mine]
        assert (start_s[1:] >= end_s[:-1]).all()
        length_s = (steps.gpu_s + steps.host_s)[mine]
        np.testing.assert_allclose(end_s - start_s, length_s, atol=1e-9)
    parts = result.attribution.e2el_s
    latency = result.recording.outcome.finished_s - result.recording.outcome.arrival_s
    np.testing.assert_allclose(parts.sum(axis=1), latency)
    assert (parts >= -1e-9).all()
    # Who runs gets a token, in this step or in that of another stage.
    assert result.summary["decode_stall_share"] == 0


def test_engines_that_share_experts_end_their_steps_together() -> None:
    result = simulate(scenario("qwen3-30b-a3b", data_parallel=2, expert_parallel=True))
    steps = result.recording.steps
    ends = [set(steps.end_s[steps.replica == engine]) for engine in (0, 1)]
    both = ends[0] & ends[1]
    assert len(both) > 100
    # A step of one engine during another's would end between its start and its end.
    for start, end in zip(steps.start_s, steps.end_s, strict=True):
        assert not any(start < other < end for other in ends[0] | ends[1])


def test_what_cannot_be_together_is_refused() -> None:
    with pytest.raises(InputError, match="pipeline_parallel is 2, but it is simulated with the po"):
        scenario("llama-3.1-8b", "scheduler.policy=continuous", pipeline_parallel=2)
    with pytest.raises(InputError, match=r"not simulated together with scheduler\.speculative"):
        scenario(
            "llama-3.1-8b",
            "scheduler.speculative={num_speculative_tokens: 2, acceptance_rate: 0.5}",
            pipeline_parallel=2,
        )
    with pytest.raises(InputError, match="async_scheduling is true, but with cluster.pipeline"):
        scenario("llama-3.1-8b", "scheduler.async_scheduling=true", pipeline_parallel=2)
    with pytest.raises(InputError, match="data_parallel is 2, but it is simulated with the policy"):
        scenario("llama-3.1-8b", "scheduler.policy=static", data_parallel=2)
    with pytest.raises(InputError, match="stages of engines that share experts"):
        resolve(scenario("qwen3-30b-a3b", data_parallel=2, pipeline_parallel=2))
    linear = "cost_model={kind: linear, t_mem_s: 0.01, t_flop_s_per_token: 1.0e-5}"
    with pytest.raises(InputError, match="cost_model.kind calibrated alone"):
        simulate(scenario("qwen3-30b-a3b", linear, data_parallel=2))


def test_notes_say_what_data_parallel_engines_do() -> None:
    notes = resolve(scenario("qwen3-30b-a3b", data_parallel=2, expert_parallel=True)).notes
    assert any("the 2 engines of a replica step together" in note for note in notes)
    one = resolve(scenario("qwen3-30b-a3b", expert_parallel=True)).notes
    assert any("expert_parallel: no effect on one GPU" in note for note in one)
