"""Every kind of bad scenario is refused in one sentence that says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.errors import InputError
from simulator.scenario import Scenario

POISSON = "{process: poisson, rate: 1}"

# Override -> fragments that the sentence must have: key, value, what is allowed, what to do.
REFUSED = {
    # unknown keys, with the nearest name
    "clutser.gpu=h100_sxm": ["clutser is not a key", "did you mean cluster?"],
    "workload.arrivals.rte=3": ["workload.arrivals.rte", "did you mean workload.arrivals.rate?"],
    "scheduler.max_num_seq=3": ["did you mean scheduler.max_num_seqs?"],
    "scheduler.static.batchsize=3": ["did you mean scheduler.static.batch_size?"],
    "cluster.zzz=3": ["cluster.zzz is not a key", "the keys of cluster are gpu, tensor_parallel"],
    "slo.p99_tttf_ms=3": ["did you mean slo.p99_ttft_ms?"],
    "slo.p100_ttft_ms=3": ["slo.p100_ttft_ms is not a key"],
    "slo.itl_ms=3": ["slo.itl_ms is not a key"],
    # wrong types
    "workload.arrivals.rate=fast": ["workload.arrivals.rate is 'fast'", "must be a number"],
    "workload.arrivals.rate='8'": ["workload.arrivals.rate is '8'", "must be a number"],
    "scheduler.max_num_seqs=true": ["scheduler.max_num_seqs is true", "a whole number"],
    "scheduler.max_num_seqs=1.5": ["scheduler.max_num_seqs is 1.5", "a whole number"],
    "scheduler.static.stream=1": ["scheduler.static.stream is 1", "true or false"],
    "cluster=5": ["cluster is 5", "a mapping of keys"],
    "workload.classes=5": ["workload.classes is 5", "a list"],
    "name=3": ["name is 3", "must be text"],
    "name=''": ["name is empty"],
    "model=3": ["model is 3", "a catalogue name such as llama-3.1-8b"],
    "workload.lengths.prompt_tokens=null": ["prompt_tokens is null", "a whole number"],
    # out of range
    "workload.arrivals.rate=0": ["workload.arrivals.rate is 0", "greater than 0"],
    "workload.arrivals.rate=1e-320": ["workload.arrivals.rate is 1e-320", "at least 1e-15"],
    "workload.arrivals.rate=-1": ["workload.arrivals.rate is -1", "greater than 0"],
    "workload.arrivals.rate=.inf": ["workload.arrivals.rate is inf", "a finite number"],
    "warmup_s=.nan": ["warmup_s is nan", "a finite number"],
    "cluster.replicas=0": ["cluster.replicas is 0", "at least 1"],
    "seed=-1": ["seed is -1", "at least 0"],
    "kv_cache.gpu_memory_utilization=1.2": ["is 1.2", "at most 1"],
    "kv_cache.num_gpu_blocks=1": ["kv_cache.num_gpu_blocks is 1", "at least 2"],
    "scheduler.watermark=1": ["scheduler.watermark is 1", "less than 1"],
    "slo.p99_ttft_ms=-5": ["slo.p99_ttft_ms is -5", "greater than 0"],
    "workload.predictor={lognormal_error: -1}": ["lognormal_error is -1", "at least 0"],
    # names
    "scheduler.order=fcsf": [
        "scheduler.order is 'fcsf'",
        "fcfs, sjf, srpt, priority",
        "mean fcfs?",
    ],
    "scheduler.policy=chunked": ["policy is 'chunked'", "static, continuous", "chunked_prefill?"],
    "scheduler.policy='mine:'": ["scheduler.policy is 'mine:'", "module:attr"],
    "workload.arrivals.process=poison": ["'poison'", "poisson, constant, gamma", "mean poisson?"],
    "workload.lengths.distribution=azure": ["workload.lengths.distribution", "azure_conv_2023"],
    "workload.predictor=orakle": ["workload.predictor is 'orakle'", "oracle, class_mean"],
    "cluster.router=fastest": ["cluster.router is 'fastest'", "round_robin, random"],
    "cost_model={kind: lineal}": ["cost_model.kind is 'lineal'", "calibrated, linear"],
    # missing keys
    "workload.arrivals={rate: 3}": ["workload.arrivals.process is missing", "poisson"],
    "workload.arrivals={process: gamma, rate: 3}": ["workload.arrivals.cv", "is missing"],
    "cost_model={kind: linear}": ["cost_model.t_mem_s", "seconds per step", "is missing"],
    "workload.classes=[{share: 1}]": ["workload.classes[0].name", "is missing"],
    "workload={}": ["workload needs a trace, or arrivals and lengths"],
    "workload.lengths=null": ["workload.lengths is missing"],
    # part of the contract, but not of this version
    "cluster.faults=[{at_s: 3}]": ["cluster.faults is not supported by servecast 0.1"],
    "cluster.pipeline_parallel=0": ["cluster.pipeline_parallel is 0", "at least 1"],
    "cluster={replicas: 2, pools: {}}": ["cluster.replicas is 2", "of each pool"],
    "cluster.pools={prefil: {}}": [
        "cluster.pools.prefil is not a key",
        "did you mean cluster.pools.prefill?",
    ],
    "cluster.pools={decode: {replicas: 0}}": ["cluster.pools.decode.replicas is 0"],
    "cluster.pools={kv_transfer: {bytes_per_s: 0}}": ["cluster.pools.kv_transfer.bytes_per_s"],
    "cluster.autoscaler={policy: target_tracking, target: 5}": ["cluster.autoscaler.max_replicas"],
    "cluster.autoscaler={policy: target_tracking, target: 0, max_replicas: 3}": [
        "autoscaler.target"
    ],
    "cluster.autoscaler={policy: target_tracking, target: 5, max_replicas: 3, "
    "poll_interval_s: 0.001}": ["autoscaler.poll_interval_s", "0.01"],
    "cluster.autoscaler={policy: target_tracking, target: 5, min_replicas: 4, max_replicas: 3}": [
        "min_replicas is 4, more than max_replicas 3"
    ],
    "cluster.autoscaler={policy: target_tracking, target: 5, min_replicas: 2, max_replicas: 3}": [
        "cluster.replicas is 1",
        "from min_replicas 2 to max_replicas 3",
    ],
    "cluster.autoscaler={policy: schedule, max_replicas: 3, points: []}": [
        "cluster.autoscaler.points is []; it must have at least 1 item"
    ],
    "cluster.autoscaler={policy: schedule, max_replicas: 3, points: [[0, 1, 2]]}": [
        "cluster.autoscaler.points[0] is [0, 1, 2]; it must have at most 2 items"
    ],
    "cluster.autoscaler={policy: schedule, max_replicas: 3, points: [[5, 1]]}": [
        "the first time must be 0"
    ],
    "cluster.autoscaler={policy: schedule, max_replicas: 3, points: [[0, 4]]}": [
        "asks for 4 replicas"
    ],
    "cluster.autoscaler={policy: schedule, max_replicas: 3, points: [[0, 1]], period_s: 0}": [
        "period_s"
    ],
    "cluster.autoscaler={policy: target_tracking, target: 5, max_replicas: 3}; "
    "cluster.data_parallel=2": ["cluster.data_parallel is 2", "cluster.autoscaler"],
    "cluster.autoscaler={policy: guess, max_replicas: 3}": ["target", "schedule"],
    "cluster.pue=0.9": ["cluster.pue"],
    "workload.arrivals={process: mmpp, rate: 1, burst_factor: 5, burst_share: 0.5, burst_s: 9}": [
        "bursts of 5 times the mean rate for 0.5 of the time",
        "at most 1",
    ],
    "workload.arrivals={process: diurnal, rate: 1}": ["needs a curve or a file"],
    "workload.arrivals={process: diurnal, curve: [0, 0]}": ["curve is 0 throughout"],
    "workload.arrivals={process: profile, points: [[5, 1], [0, 1]]}": ["must not go down"],
    "workload.arrivals={process: profile, points: [[0, 1], [5, 0]]}": ["workload.duration_s"],
    "workload.sessions={mean_turns: 2.5, turns: fixed}": ["mean_turns is 2.5", "whole number"],
    "workload.sessions={mean_turns: 0}": ["mean_turns is 0", "at least 1"],
    "workload.arrivals.think_time_s=2": ["workload.arrivals.think_time_s is not a key"],
    "cost_model={kind: table}": ["cost_model.path", "is missing"],
    # impossible together
    "workload.trace={path: t.csv}": ["workload.arrivals and workload.trace exclude each other"],
    "workload.arrivals={process: burst}; workload.duration_s=5": ["workload.duration_s is 5"],
    "workload.arrivals={process: closed_loop, concurrency: 4}; workload.max_concurrency=4": [
        "workload.max_concurrency is 4",
        "workload.arrivals.concurrency",
    ],
    "scheduler.policy=static; scheduler.async_scheduling=true": [
        "scheduler.async_scheduling is true, but the policy static",
    ],
    "scheduler.policy=static; kv_cache.enable_prefix_caching=true": [
        "kv_cache.enable_prefix_caching is true, but the policy static",
    ],
    "kv_cache.allocator=contiguous; workload.max_tokens=9; kv_cache.enable_prefix_caching=true": [
        "kv_cache.enable_prefix_caching is true, but the allocator contiguous",
    ],
    "scheduler.static={batch_size: 8, preferred_batch_sizes: [4, 16]}": [
        "preferred_batch_sizes has 16",
        "batch_size 8",
    ],
    "scheduler.policy=orca; scheduler.structured_output={share: 0.5, grammar_s_per_seq: 1e-4}": [
        "scheduler.structured_output is an option",
        "chunked_prefill",
        "orca",
    ],
    "scheduler.speculative={num_speculative_tokens: 4, acceptance_rate: 0.5}; "
    "kv_cache.allocator=contiguous_oracle": ["scheduler.speculative", "contiguous_oracle"],
    "scheduler.speculative={num_speculative_tokens: 4}": ["acceptance_rate", "is missing"],
    "scheduler.speculative={num_speculative_tokens: 4, acceptance_rate: 0.5}; "
    "scheduler.async_scheduling=true": ["async_scheduling is true", "scheduler.speculative"],
    "scheduler.preemption=swap": ["scheduler.preemption is swap", "the policy chunked_prefill"],
    "scheduler.policy=continuous; scheduler.preemption=swap; kv_cache.enable_prefix_caching=true": [
        "scheduler.preemption is swap",
        "kv_cache.enable_prefix_caching",
    ],
    "scheduler.policy=continuous; scheduler.preemption=swap; scheduler.cpu_swap_gb=0": [
        "scheduler.cpu_swap_gb is 0",
        "choose recompute",
    ],
    "scheduler.order=sjf": ["scheduler.order is sjf", "workload.predictor"],
    "scheduler.order=srpt": ["scheduler.order is srpt", "workload.predictor"],
    "scheduler.order=edf; slo={}": ["scheduler.order is edf", "a limit on TTFT"],
    "scheduler.order=edf; slo={mean_ttft_ms: 5}": ["scheduler.order is edf", "a limit on TTFT"],
    "scheduler.order=fair": ["scheduler.order is fair", "workload.classes"],
    "scheduler.order='mine:'": ["scheduler.order is 'mine:'", "module:attr"],
    "scheduler.policy=sglang; scheduler.async_scheduling=true": [
        "scheduler.async_scheduling is true",
        "not simulated",
    ],
    "scheduler.policy=sglang; kv_cache.allocator=contiguous; workload.max_tokens=9": [
        "kv_cache.allocator is contiguous",
        "sglang pages its cache",
    ],
    "kv_cache.allocator=contiguous": ["contiguous", "workload.max_tokens"],
    "scheduler.max_num_batched_tokens=4; scheduler.max_num_seqs=8": [
        "scheduler.max_num_batched_tokens is 4",
        "scheduler.max_num_seqs 8",
    ],
    "workload.lengths={distribution: uniform, min_prompt_tokens: 9, max_prompt_tokens: 2, "
    "min_output_tokens: 1, max_output_tokens: 2}": [
        "workload.lengths: min_prompt_tokens is 9, more than max_prompt_tokens 2"
    ],
    "workload.classes=[{name: a, share: 0.5}]": ["the shares add up to 0.5"],
    "workload.classes=[{name: a, share: 0.5}, {name: a, share: 0.5}]": ["'a' stands twice"],
    "workload.classes=[{name: a}]": ["'a' has no share"],
    f"workload.classes=[{{name: a, share: 1, arrivals: {POISSON}}}]": ["a share and arrivals"],
    f"workload.classes=[{{name: a, arrivals: {POISSON}}}]": ["workload.arrivals is left out"],
    "workload.classes=[{name: a, arrivals: {process: burst}}]": ["'a' has burst arrivals"],
}


def _refusal(mapping: dict[str, Any], overrides: list[str]) -> str:
    with pytest.raises(InputError) as refused:
        Scenario.from_mapping(mapping).with_overrides(overrides)
    return str(refused.value)


@pytest.mark.parametrize("change", REFUSED)
def test_refused_in_one_sentence(mapping: dict[str, Any], change: str) -> None:
    message = _refusal(mapping, change.split("; ") if ": uniform" not in change else [change])
    for fragment in REFUSED[change]:
        assert fragment in message
    assert "\n" not in message
    assert "pydantic" not in message


@pytest.mark.parametrize(
    ("key", "remedy"), [("num_requests", "workload.trace.limit"), ("duration_s", "trace.duration")]
)
def test_a_trace_has_limits_of_its_own(mapping: dict[str, Any], key: str, remedy: str) -> None:
    mapping["workload"] = {"trace": {"path": "t.csv"}, key: 3}
    with pytest.raises(InputError, match=f"workload.{key} and workload.trace.*{remedy}"):
        Scenario.from_mapping(mapping)


def test_a_misspelt_key_is_told_before_what_it_makes_look_missing(mapping: dict[str, Any]) -> None:
    mapping["workload"]["arrivals"] = {"process": "poisson", "rat": 3}
    with pytest.raises(InputError, match=r"did you mean workload\.arrivals\.rate\?"):
        Scenario.from_mapping(mapping)


def test_keys_of_the_contract_that_are_switched_off_may_stand(mapping: dict[str, Any]) -> None:
    mapping["cluster"] = {"pipeline_parallel": 1, "autoscaler": None, "faults": []}
    mapping["kv_cache"] = {"enable_prefix_caching": False}
    mapping["scheduler"] = None
    assert Scenario.from_mapping(mapping).cluster.replicas == 1


def test_without_a_count_or_a_duration_there_are_10000_requests(mapping: dict[str, Any]) -> None:
    del mapping["workload"]["num_requests"]
    assert Scenario.from_mapping(mapping).workload.num_requests == 10_000
    mapping["workload"]["duration_s"] = 60
    assert Scenario.from_mapping(mapping).workload.num_requests is None
