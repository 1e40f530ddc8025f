"""What reservation costs, and how KV memory caps the batch."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from engine_cases import run, table

from cost_models import catalog
from simulator import simulate


def reserving(allocator):
    # 4 requests of 4 + 4 tokens, 16 declared; blocks of 4 tokens, 10 of them.
    requests = table(*[(0.0, 4, 4)] * 3, (3.0, 4, 4), max_tokens=[16] * 4)
    return run(requests, allocator=allocator, usable_blocks=10).recording


def test_contiguous_reservation_queues_where_paged_admits():
    # Reserved: 20 tokens, 5 blocks each, so two at once; paged: one block each at first.
    contiguous, paged = reserving("contiguous"), reserving("paged")
    assert contiguous.steps.running.max() == 2
    assert paged.steps.running.max() == 4
    assert paged.steps.waiting.max() == 0
    queued = contiguous.steps.waiting > 0
    assert queued.any()
    # Beside the queue half of the pool and more is reserved and empty.
    unused = contiguous.steps.kv_blocks * 4 - contiguous.steps.kv_tokens
    assert contiguous.steps.kv_blocks[queued].tolist() == [10] * queued.sum()
    assert (unused[queued] >= 20).all()


def test_contiguous_reservation_batches_continuously_all_the_same():
    # r0 and r1 run for 2 and 8 tokens; r2 takes r0's place beside r1, which goes on.
    requests = table((0.0, 4, 2), (0.0, 4, 8), (0.0, 4, 2), max_tokens=[16] * 3)
    done = run(requests, allocator="contiguous", usable_blocks=10)
    (_, r0_left_s), (_, r1_left_s), (r2_joined_s, _) = done.times("admitted_s", "finished_s")
    assert r0_left_s == r2_joined_s < r1_left_s
    steps = done.recording.steps
    joined = (steps.prefill_seqs == 1) & (steps.decode_seqs == 1)
    assert joined.sum() == 1  # r2's prompt in one step with r1's decode


def test_paged_holds_at_least_twice_the_batch_of_a_generous_reservation(describe):
    batch, unused = {}, {}
    for allocator in ("contiguous", "paged"):
        result = simulate(
            describe(
                {
                    "arrivals": {"process": "burst"},
                    "lengths": {"distribution": "azure_conv_2023"},
                    "num_requests": 1500,
                    "max_tokens": 2048,
                },
                kv_cache={"allocator": allocator},
            )
        )
        steps, pool = result.recording.steps, result.recording.usable_kv_blocks
        queued = steps.waiting > 0
        length_s = (steps.end_s - steps.start_s)[queued]
        empty = (steps.kv_blocks - steps.kv_tokens / 16) / pool
        batch[allocator] = np.average(steps.running[queued], weights=length_s)
        unused[allocator] = np.average(empty[queued], weights=length_s)
    assert batch["paged"] > 2 * batch["contiguous"]
    assert unused["contiguous"] > 0.4
    assert unused["paged"] < 0.02


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """An 8B shape with 32 KV heads, with its own 8, and with these in fp8."""
    shape = dataclasses.asdict(catalog.model("llama-3.1-8b"))
    config = tmp_path_factory.mktemp("mha") / "config.json"
    given = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": shape["num_layers"],
        "num_attention_heads": shape["num_heads"],
        "num_key_value_heads": shape["num_heads"],
        "tie_word_embeddings": False,
    }
    same = ("hidden_size", "intermediate_size", "vocab_size", "max_position_embeddings")
    config.write_text(json.dumps(given | {key: shape[key] for key in same}))
    return {
        "mha": str(config),
        "gqa": "llama-3.1-8b",
        "gqa fp8": {"name": "llama-3.1-8b", "kv_dtype": "fp8"},
    }


def test_the_pool_caps_the_batch_and_fewer_bytes_per_token_lift_the_cap(describe, models):
    # 3,072 + 1,024 tokens reserved: 256 blocks of 16 per request.
    largest, kib = {}, {}
    for name, model in models.items():
        workload = {
            "arrivals": {"process": "burst"},
            "lengths": {"distribution": "fixed", "prompt_tokens": 3072, "output_tokens": 1024},
            "num_requests": 400,
            "max_tokens": 1024,
        }
        result = simulate(describe(workload, model=model, kv_cache={"allocator": "contiguous"}))
        largest[name] = int(result.recording.steps.running.max())
        kib[name] = result.resolved.model.kv_bytes_per_token(1) / 1024
        assert largest[name] == result.recording.usable_kv_blocks // 256
    # 2 (K and V) x 32 layers x heads x 128 x bytes
    assert kib == {"mha": 512, "gqa": 128, "gqa fp8": 64}
    assert largest["gqa"] == pytest.approx(4 * largest["mha"], rel=0.1)
    assert largest["gqa fp8"] == pytest.approx(2 * largest["gqa"], rel=0.02)
