"""The prefix cache's second tier in host memory, by hand.

A step of m tokens lasts 1 + m/4 seconds and waits half a second for each block copied in;
blocks hold 4 tokens.
"""

from __future__ import annotations

import pytest
from engine_cases import digest, run, table

from simulator import simulate
from simulator.engine.integrity import violations
from simulator.errors import InputError
from simulator.scenario import Scenario

TIMES = ("admitted_s", "first_token_s", "finished_s")


def both(requests, **limits):
    """The run, after checking that stepping and coasting agree and that it is sound."""
    options = {"allocator": "prefix", "copy_s_per_block": 0.5, "offload_blocks": 8} | limits
    stepped = run(requests, "offloading", events=True, **options)
    assert digest(stepped.recording) == digest(run(requests, "offloading", **options).recording)
    log = stepped.events
    assert not violations(stepped.fleet, stepped.recording, log, every_member_scheduled=True)
    return stepped


# r0's 8 tokens are two blocks of the pool's 4; r1's 16 take all four, r0's among them.
PUSHED_OUT = ((0.0, 8, 1), (10.0, 16, 1), (20.0, 9, 1))
PIECES = [[(5, 8)], [], [(5, 8)]]
SMALL = {"usable_blocks": 4, "max_model_len": 17}


def test_what_was_pushed_out_is_copied_back():
    # 20: r2's first 8 tokens are in host memory: 2 blocks, 1 s, then one token: 1.25 s.
    done = both(table(*PUSHED_OUT, pieces=PIECES), **SMALL)
    assert done.times(*TIMES) == [(0.0, 3.0, 3.0), (10.0, 15.0, 15.0), (20.0, 22.25, 22.25)]
    assert done.times("cached_tokens") == [(0,), (0,), (8,)]
    # r2's 3 blocks push out three of r1's, after the two of r0; they were noted, but nobody
    # has asked since.
    assert (done.recording.stored_blocks, done.recording.loaded_blocks) == (2, 2)


def test_the_second_tier_keeps_the_newest():
    # Room for one: of r0's two blocks the tail went first, so that its head is the newest.
    done = both(table(*PUSHED_OUT, pieces=PIECES), offload_blocks=1, **SMALL)
    assert done.times("cached_tokens")[2] == (4,)
    assert done.times(*TIMES)[2] == (20.0, 20.0 + 0.5 + 1 + 5 / 4, 22.75)


def test_a_prefix_goes_on_in_host_memory_where_the_gpu_has_no_more_of_it():
    # r1's 5 tokens take the two free blocks; r2's 9 need three: r1's block without a hash,
    # and r0's tail, block 1, before its head; ... r3 finds the head on the GPU, the tail in
    # host memory: one copy.
    requests = table(
        (0.0, 8, 1), (10.0, 5, 1), (20.0, 5, 1), (30.0, 9, 1),
        pieces=[[(5, 8)], [], [], [(5, 8)]],
    )  # fmt: skip
    done = both(requests, **SMALL)
    assert done.times("cached_tokens")[3] == (8,)
    assert done.recording.loaded_blocks == 1
    assert done.times(*TIMES)[3] == (30.0, 31.75, 31.75)  # 0.5 + 1 + 1/4


def test_with_nothing_to_find_it_is_chunked_prefill():
    options = {"allocator": "prefix"} | SMALL
    requests = table(*PUSHED_OUT)
    plain = run(requests, "chunked_prefill", **options)
    offloading = run(requests, "offloading", offload_blocks=8, **options)
    assert digest(offloading.recording) == digest(plain.recording)


def chats(*overrides):
    """Turns of long conversations, more of them than the GPU's cache holds."""
    return Scenario.from_mapping(
        {
            "workload": {
                "arrivals": {"process": "poisson", "rate": 1.0},
                "lengths": {"distribution": "fixed", "prompt_tokens": 400, "output_tokens": 50},
                "sessions": {"mean_turns": 4, "turns": "fixed", "think_time_s": 20.0},
                "num_requests": 200,
            },
            "model": "llama-3.1-8b",
            "kv_cache": {"num_gpu_blocks": 700, "max_model_len": 4096},
        }
    ).with_overrides(overrides)


def test_host_memory_finds_what_the_gpu_forgot():
    gpu_alone = simulate(chats()).summary
    both_tiers = simulate(chats("kv_cache.kv_offloading_size=8")).summary
    assert both_tiers["prefix_hit_rate"] > gpu_alone["prefix_hit_rate"] + 0.1
    assert both_tiers["offload_loaded_bytes"] > 0
    # 131,072 bytes a token, over 64 GB/s.
    expected_s = both_tiers["offload_loaded_bytes"] / 64e9
    assert both_tiers["offload_load_s"] == pytest.approx(expected_s)
    assert gpu_alone["offload_stored_bytes"] == 0


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["scheduler.policy=sglang"], "the policy sglang has no second tier"),
        (["kv_cache.enable_prefix_caching=false"], "without prefix caching"),
        (["scheduler.structured_output={share: 1.0, grammar_s_per_seq: 0}"], "structured_output"),
        (["scheduler.enable_chunked_prefill=false"], "enable_chunked_prefill false"),
    ],
)
def test_what_has_no_second_tier_is_refused(overrides, said):
    with pytest.raises(InputError, match=f"kv_offloading_size is 8, .*{said}"):
        chats("kv_cache.kv_offloading_size=8", *overrides)


def test_less_room_than_a_block_is_refused():
    with pytest.raises(InputError, match="less than one block of 2097152 bytes"):
        simulate(chats("kv_cache.kv_offloading_size=0.001"))
