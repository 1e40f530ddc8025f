"""SGLang's scheduler by hand: prompts alone, the bet at admission, retraction, radix cache.

A step of m tokens lasts 1 + m/4 seconds; pages hold one token.
"""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import digest, fleet, run, table

from simulator import simulate
from simulator.engine.integrity import violations
from simulator.errors import InputError
from simulator.scenario import Scenario
from simulator.schedulers.sglang import new_token_ratio

TIMES = ("admitted_s", "first_token_s", "finished_s")
STEPS = ("start_s", "end_s", "scheduled_tokens", "prefill_tokens", "running", "waiting")


AMPLE = {
    "block_size": 1, "usable_blocks": 1 << 20, "max_num_seqs": 8, "max_num_batched_tokens": 64
}  # fmt: skip


def both(requests, **limits):
    """The run, after checking that stepping and coasting agree and that it is sound."""
    options = AMPLE | limits
    stepped = run(requests, "sglang", events=True, **options)
    assert digest(stepped.recording) == digest(run(requests, "sglang", **options).recording)
    log = stepped.events
    assert not violations(stepped.fleet, stepped.recording, log, every_member_scheduled=False)
    return stepped


def test_prompts_run_alone_and_decodes_wait():
    done = both(table((0.0, 4, 3), (1.0, 8, 2), (1.5, 4, 1)), max_num_seqs=2)
    assert done.rows(*STEPS) == [
        (0.0, 2.0, 4, 4, 1, 0),  # r0+4; r0:1
        (2.0, 5.0, 8, 8, 2, 1),  # r1+8 alone; r1:1; r2 has no seat, the batch is full
        (5.0, 6.5, 2, 0, 2, 1),  # r0+1, r1+1; r1:2 ends
        (6.5, 8.5, 4, 4, 2, 0),  # r2+4; r2:1 ends
        (8.5, 9.75, 1, 0, 1, 0),  # r0+1; r0:3 ends
    ]


def test_one_prompt_at_a_time_is_cut_to_the_budget_and_continued_first():
    requests = table((0.0, 4, 3), (1.0, 10, 2), (1.5, 4, 1))
    done = both(requests, max_num_batched_tokens=6)
    assert done.rows(*STEPS) == [
        (0.0, 2.0, 4, 4, 1, 0),  # r0+4; r0:1
        (2.0, 4.5, 6, 6, 2, 1),  # r1+6 of 10
        (4.5, 7.0, 6, 6, 3, 0),  # r1+4 first; r1:1; then r2+2 of 4
        (7.0, 8.5, 2, 2, 3, 0),  # r2+2; r2:1 ends
        (8.5, 10.0, 2, 0, 2, 0),  # r0+1, r1+1; r1:2 ends
        (10.0, 11.25, 1, 0, 1, 0),  # r0:3 ends
    ]


def test_a_prompt_waits_until_the_declared_outputs_are_likely_to_fit():
    # 20 tokens.  2: r0 holds 4 and may declare 9 more, of which 0.7 count: 20 - 4 - 6.3 = 9.7
    # are left.  r1 asks 4 + 10 + 1: the batch is full until r0 leaves, at 2 + 9 x 1.25.
    waits = both(table((0.0, 4, 10), (0.5, 4, 10)), usable_blocks=20)
    assert waits.times(*TIMES) == [(0.0, 2.0, 13.25), (13.25, 15.25, 26.5)]
    # 4 + 4 + 1 are less than 9.7: r1+4 -> 2 s; both decode 3 times, 1.5 s; then r0 alone.
    fits = both(table((0.0, 4, 10), (0.5, 4, 4)), usable_blocks=20)
    assert fits.times(*TIMES) == [(0.0, 2.0, 16.0), (2.0, 4.0, 8.5)]


def test_in_one_batch_declared_outputs_count_in_full():
    # 20 - 4 - 10 = 6 are left beside r0, r1 asks 4 + 3 + 1.  At 2, when only 6.3 of 9 count,
    # it would fit; but the batch is full until r0 leaves.
    done = both(table((0.0, 4, 10), (0.0, 4, 3)), usable_blocks=20)
    assert done.times("admitted_s") == [(0.0,), (13.25,)]


def test_of_a_long_declared_output_4096_tokens_count():
    # r0 declares 6000: 4 + 4096 + 1 < 9000, and in the same batch 9000 - 4 - 4096 = 4900 are
    # left for r1, who asks 4 + 4096 + 1 too.
    requests = table((0.0, 4, 2), (0.0, 4, 2), max_tokens=[6000, 6000])
    assert both(requests, usable_blocks=9000).times("admitted_s") == [(0.0,), (0.0,)]
    assert both(requests, usable_blocks=8000).times("admitted_s") == [(0.0,), (3.25,)]


LOST_BET = ((0.0, 2, 20), (0.5, 2, 20))  # 0: 2 + 20 + 1 < 39; 1.5: the same < 37 - 0.7 x 19


@pytest.mark.parametrize(
    ("allocator", "resumed_s", "recomputed"),
    # With the radix cache r1's prompt is found again; its outputs are not, it had not ended.
    [("paged", 6.0, 19), ("prefix", 5.5, 17)],
)
def test_who_has_the_fewest_outputs_is_retracted(allocator, resumed_s, recomputed):
    # From 3 on both hold 2 tokens and decode in 1.5 s; 17 steps later 38 of 39 are taken.
    # Equal outputs, equal prompts: r1 is retracted at 28.5, and r0+1 -> 1.25 s.
    # 29.75: r1 asks 20 + 2 + 1; 39 - 20 are free, less all of the token that r0 may still
    # need, since the ratio became min(1, (18 + 20) / (20 + 1)).  31: r0:20 ends; r1+20 or,
    # behind 2 cached, r1+18; then one decode.
    done = both(table(*LOST_BET), usable_blocks=39, allocator=allocator)
    assert done.rows("start_s", "running", "preempted")[18:22] == [
        (27.0, 2, 0), (28.5, 1, 1), (29.75, 1, 0), (31.0, 1, 0)
    ]  # fmt: skip
    end_s = 31.0 + resumed_s
    assert done.times(*TIMES) == [(0.0, 1.5, 31.0), (1.5, 3.0, end_s + 1.25)]
    assert done.times("preemptions", "recomputed_tokens") == [(0, 0), (1, recomputed)]


def test_of_equal_outputs_the_longest_prompt_is_retracted():
    # r0's prompt is longer by one.  1.75: 23 < 38 - 3 - 0.7 x 19.  From 3.25 on 3 + 2 tokens,
    # 17 steps later 39 of 38 would be needed at 28.75 - 1.5.
    done = both(table((0.0, 3, 20), (0.5, 2, 20)), usable_blocks=40)
    assert done.times("preemptions") == [(1,), (0,)]


def test_the_retracted_go_to_the_end_of_the_queue():
    # r2 waits for a seat; when r1 is retracted at 28.5 it goes behind r2.
    # 29.75: r2 asks 3 + 1 + 1 < 19 - 1: r2+3 -> 1.75 s; behind it r1 does not fit.
    # 31.5: r2 has ended, r1 asks 23 of 18: r0:20 -> 1.25 s.  32.75: r1+20.
    requests = table(*LOST_BET, (20.0, 3, 1))
    done = both(requests, usable_blocks=39, max_num_seqs=2)
    assert done.times(*TIMES) == [(0.0, 1.5, 32.75), (1.5, 3.0, 40.0), (29.75, 31.5, 31.5)]


@pytest.mark.parametrize("coast", [True, False])
def test_the_ratio_falls_with_every_decode_step_and_starts_anew_after_an_idle_time(coast):
    made = fleet(
        table((0.0, 4, 1001), (5000.0, 4, 3)),
        "sglang",
        coast=coast,
        block_size=1,
        usable_blocks=1 << 20,
    )
    made.deliver(np.array([0, 1]), np.zeros(2, np.int64))
    falls = 0.7 * (1 - 0.14) / 600
    for steps, ratio in ((0, 0.7), (300, 0.7 - 300 * falls), (900, 0.14 * 0.7)):
        made.advance(2.0 + 1.25 * steps)
        assert new_token_ratio(made.engine, 0, 2.0) == pytest.approx(ratio, rel=1e-12)
    made.advance(5002.0)
    assert new_token_ratio(made.engine, 0, 5002.0) == 0.7


def test_a_prefix_is_found_token_by_token_once_it_is_computed():
    # The same 5 tokens three times.  r1 is in r0's step: computed twice.  6: r2 finds all
    # but the last.  8: r3 shares 3 of them.
    requests = table(
        (0.0, 5, 1), (0.0, 5, 1), (6.0, 5, 1), (8.0, 5, 1),
        pieces=[[(7, 5)], [(7, 5)], [(7, 5)], [(7, 3)]],
    )  # fmt: skip
    done = both(requests, allocator="prefix", usable_blocks=64)
    assert done.times("cached_tokens") == [(0,), (0,), (4,), (3,)]
    assert done.rows("start_s", "end_s") == [(0.0, 3.5), (6.0, 7.25), (8.0, 9.5)]


def test_the_chunks_of_a_prompt_are_shared_before_it_ends():
    # Budget 4: r0 of 9 tokens takes 3 steps.  At 4 it is continued with its last token, and
    # r1 finds the 8 tokens of the two chunks before.
    requests = table((0.0, 9, 1), (3.0, 9, 1), pieces=[[(7, 9)], [(7, 9)]])
    done = both(requests, allocator="prefix", usable_blocks=64, max_num_batched_tokens=4)
    assert done.times("cached_tokens") == [(0,), (8,)]
    assert done.times(*TIMES) == [(0.0, 5.5, 5.5), (4.0, 5.5, 5.5)]


def test_a_scenario_runs_with_a_page_of_one_token_and_the_radix_cache():
    scenario = Scenario.from_yaml(
        "chat-8b-h100", ["scheduler.policy=sglang", "workload.num_requests=50"]
    )
    result = simulate(scenario)
    assert result.resolved.block_size == 1
    assert result.resolved.scenario.kv_cache.enable_prefix_caching
    assert result.summary["completed"] == 50
    assert result.summary["kv_internal_fragmentation"] == 0.0


def test_a_pool_without_the_pages_that_it_spares_is_refused_or_lowered():
    overrides = ["scheduler.policy=sglang", "kv_cache.num_gpu_blocks=1000"]
    result = simulate(Scenario.from_yaml("chat-8b-h100", [*overrides, "workload.num_requests=9"]))
    assert result.resolved.max_model_len == 1000 - 1 - 2


def test_a_budget_of_less_than_a_page_is_refused():
    overrides = ["scheduler.policy=sglang", "kv_cache.block_size=64"]
    budget = ["scheduler.max_num_batched_tokens=32", "scheduler.max_num_seqs=8"]
    with pytest.raises(InputError, match="is 32, less than a page of kv_cache.block_size 64"):
        simulate(Scenario.from_yaml("chat-8b-h100", [*overrides, *budget]))


def test_a_batch_may_decode_more_requests_than_a_chunk_has_tokens():
    scenario = Scenario.from_mapping(
        {
            "workload": {
                "arrivals": {"process": "burst"},
                "lengths": {"distribution": "fixed", "prompt_tokens": 8, "output_tokens": 40},
                "num_requests": 40,
            },
            "model": "llama-3.1-8b",
            "scheduler": {"policy": "sglang", "max_num_batched_tokens": 16, "max_num_seqs": 32},
            "kv_cache": {"max_model_len": 4096},
        }
    )
    done = simulate(scenario)
    assert done.recording.steps.prefill_tokens.max() == 16
    assert done.recording.steps.decode_seqs.max() > 16
