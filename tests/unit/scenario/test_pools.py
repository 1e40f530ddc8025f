"""Pools of a scenario: what they inherit, what is refused, how fast a block goes over."""

from __future__ import annotations

import pytest

from simulator.errors import InputError
from simulator.scenario import Scenario, resolve
from simulator.scenario.pools import pool_scenario

BASE = {
    "workload": {
        "arrivals": {"process": "poisson", "rate": 4.0},
        "lengths": {"distribution": "fixed", "prompt_tokens": 512, "output_tokens": 64},
        "num_requests": 20,
    },
    "model": "llama-3.1-8b",
    "cluster": {"gpu": "h100_sxm", "pools": {}},
}


def scenario(*overrides: str) -> Scenario:
    return Scenario.from_mapping(BASE).with_overrides(overrides)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("scheduler.policy=static", "scheduler.policy is static"),
        ("scheduler.policy=sglang", "scheduler.policy is sglang"),
        ("scheduler.policy=continuous", "choose chunked_prefill"),
        ("cluster.replicas=3", "cluster.replicas is 3; give the replicas of each pool"),
        ("cluster.pipeline_parallel=2", "together with cluster.pipeline_parallel"),
        ("cluster.data_parallel=2", "together with cluster.data_parallel"),
        (
            "cluster.autoscaler={policy: target_tracking, target: 5, max_replicas: 3}",
            "together with cluster.autoscaler",
        ),
        ("kv_cache.kv_offloading_size=4", "together with kv_cache.kv_offloading_size"),
        (
            "scheduler.speculative={num_speculative_tokens: 3, acceptance_rate: 0.7}",
            "together with scheduler.speculative",
        ),
        (
            "scheduler.structured_output={share: 0.5, grammar_s_per_seq: 0.001}",
            "together with scheduler.structured_output",
        ),
    ],
)
def test_what_cannot_be_split_is_refused_in_a_sentence(override, sentence):
    with pytest.raises(InputError, match="cluster.pools is given, but") as refused:
        scenario(override)
    assert sentence in str(refused.value)


def test_the_pool_that_a_model_does_not_fit_in_is_named():
    with pytest.raises(InputError, match=r"^cluster\.pools\.decode: llama-3\.1-70b does not fit"):
        resolve(scenario("model=llama-3.1-70b", "cluster.pools.prefill.tensor_parallel=4"))


def test_a_pool_has_what_it_says_and_else_what_the_scenario_says():
    both = scenario(
        "cluster.tensor_parallel=2",
        "cluster.pools.prefill={replicas: 3, gpu: h200_sxm, max_num_batched_tokens: 4096}",
        "cluster.pools.decode={tensor_parallel: 4, max_num_seqs: 64}",
        "scheduler.max_num_seqs=128",
        "scheduler.max_queue=9",
    )
    prefill, decode = (pool_scenario(both, name) for name in ("prefill", "decode"))
    assert (prefill.cluster.replicas, prefill.cluster.gpu) == (3, "h200_sxm")
    assert (prefill.cluster.tensor_parallel, prefill.scheduler.max_num_seqs) == (2, 128)
    assert prefill.scheduler.max_num_batched_tokens == 4096
    assert (decode.cluster.replicas, decode.cluster.gpu) == (1, "h100_sxm")
    assert (decode.cluster.tensor_parallel, decode.scheduler.max_num_seqs) == (4, 64)
    # The queue that clients are refused at is in front of both.
    assert (prefill.scheduler.max_queue, decode.scheduler.max_queue) == (9, None)


def test_all_gpus_are_counted_and_paid_for():
    found = resolve(
        scenario(
            "cluster.pools.prefill={replicas: 3, tensor_parallel: 2, price_per_gpu_hour: 2.0}",
            "cluster.pools.decode={replicas: 2, gpu: h200_sxm, price_per_gpu_hour: 3.5}",
        )
    )
    assert found.num_gpus == 3 * 2 + 2
    assert found.price_per_hour == 6 * 2.0 + 2 * 3.5


def test_both_pools_take_requests_of_the_same_length():
    # An L40S has room for fewer tokens beside the weights than the model has positions.
    found = resolve(scenario("cluster.pools.decode.gpu=l40s"))
    lengths = {pool.max_model_len for pool in found.pools.values()}
    alone = resolve(Scenario.from_mapping({**BASE, "cluster": {"gpu": "l40s"}}))
    assert lengths == {alone.max_model_len} == {found.scenario.kv_cache.max_model_len}


def test_a_filled_scenario_is_the_same_scenario():
    found = resolve(scenario("cluster.pools.decode.gpu=h200_sxm"))
    again = resolve(found.scenario)
    assert again.scenario.hash() == found.scenario.hash()


def test_another_gpu_in_a_pool_is_another_scenario():
    hashes = {scenario(*sets).hash() for sets in ([], ["cluster.pools.decode.gpu=h200_sxm"])}
    assert len(hashes) == 2


# Llama 3.1 8B: 2 (K and V) · 32 layers · 8 KV heads · 128 · 2 bytes = 131,072 bytes per token.
BLOCK_BYTES = 16 * 131_072


@pytest.mark.parametrize(
    ("prefill_tp", "decode_tp", "bytes_over_the_busiest_link"),
    [
        (1, 1, BLOCK_BYTES),
        (2, 2, BLOCK_BYTES / 2),  # each rank reads its share over its own link
        (4, 1, BLOCK_BYTES),  # one rank reads all
        (1, 4, BLOCK_BYTES),  # one rank sends all
    ],
)
def test_the_busiest_link_sets_the_pace(prefill_tp, decode_tp, bytes_over_the_busiest_link):
    found = resolve(
        scenario(
            f"cluster.pools.prefill.tensor_parallel={prefill_tp}",
            f"cluster.pools.decode.tensor_parallel={decode_tp}",
            "cluster.pools.kv_transfer.bytes_per_s=1e9",
        )
    )
    assert found.kv_block_s == bytes_over_the_busiest_link / 1e9


def test_a_latent_vector_is_read_by_every_rank():
    # DeepSeek-V3: 61 layers · (512 + 64) · 2 bytes per token on every rank, whatever their
    # number is.
    found = resolve(
        scenario(
            "model=deepseek-v3", "cluster.gpu=h200_sxm", "cluster.tensor_parallel=8",
            "model.weight_dtype=fp8", "cost_model={kind: linear, t_mem_s: 0.01, "
            "t_flop_s_per_token: 0.0}", "cluster.pools.kv_transfer.bytes_per_s=1e9",
        )
    )  # fmt: skip
    assert found.kv_block_s == pytest.approx(16 * 61 * 576 * 2 / 1e9)


@pytest.mark.parametrize(("link", "rate"), [("network", 5e10), ("node", 4.5e11)])
def test_the_link_s_rate_is_the_catalogue_s(link, rate):
    found = resolve(scenario(f"cluster.pools.kv_transfer.link={link}"))
    assert found.scenario.cluster.pools.kv_transfer.bytes_per_s == rate
    assert any("vllm#50913" in note for note in found.notes)


def test_the_slower_end_counts():
    found = resolve(scenario("cluster.pools.prefill.gpu=l40s"))
    assert found.scenario.cluster.pools.kv_transfer.bytes_per_s == 2.5e10
