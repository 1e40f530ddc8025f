"""Preemption by swapping to host memory, by hand.

A step of m tokens lasts 1 + m/4 seconds and waits half a second for each block copied.
"""

from __future__ import annotations

import pytest
from engine_cases import digest, run, table

from simulator import simulate
from simulator.engine.integrity import violations
from simulator.scenario import Scenario

TIMES = ("admitted_s", "first_token_s", "finished_s")
STEP = (
    "start_s", "end_s", "scheduled_tokens", "prefill_tokens", "running", "waiting", "kv_blocks",
    "kv_tokens", "preempted",
)  # fmt: skip
COUNTS = ("preemptions", "recomputed_tokens", "swapped_blocks")
TIGHT = {"block_size": 2, "usable_blocks": 6, "max_num_seqs": 2, "max_model_len": 12}


def both(requests, **limits):
    """The run, after checking that stepping and coasting agree and that it is sound."""
    options = {"copy_s_per_block": 0.5} | limits
    stepped = run(requests, "continuous", events=True, **options)
    assert digest(stepped.recording) == digest(run(requests, "continuous", **options).recording)
    log = stepped.events
    assert not violations(stepped.fleet, stepped.recording, log, every_member_scheduled=False)
    return stepped


def test_kv_goes_to_host_memory_and_comes_back_without_being_computed_again():
    done = both(table((0.0, 4, 6), (0.0, 4, 5)), host_blocks=3, **TIGHT)
    assert done.rows(*STEP) == [
        (0.0, 3.0, 8, 8, 2, 0, 4, 8, 0),  # r0+4, r1+4 -> 3 s; r0:1, r1:1
        (3.0, 4.5, 2, 0, 2, 0, 6, 10, 0),
        (4.5, 6.0, 2, 0, 2, 0, 6, 12, 0),
        # 6: r0's 7th token needs a 4th block: r1's 3 go out, 1.5 s, before r0+1 -> 1.25 s
        (6.0, 8.75, 1, 0, 1, 1, 4, 7, 1),
        # 8.75: r1 needs its 3 and one to spare, 2 are free
        (8.75, 10.0, 1, 0, 1, 1, 4, 8, 0),
        (10.0, 11.25, 1, 0, 1, 1, 5, 9, 0),  # r0:6 ends
        # 11.25: r1's 3 come back, 1.5 s, and it decodes at once: r1+1 -> 1.25 s; r1:4
        (11.25, 14.0, 1, 0, 1, 0, 4, 7, 0),
        (14.0, 15.25, 1, 0, 1, 0, 4, 8, 0),  # r1:5 ends
    ]
    assert done.times(*TIMES) == [(0.0, 3.0, 11.25), (0.0, 3.0, 15.25)]
    assert done.times(*COUNTS) == [(0, 0, 0), (1, 0, 6)]
    assert done.recording.transfer_s == 3.0


def test_copies_beside_the_computing_cost_what_they_take_longer():
    # As above, but the 1.5 s of copies hide the 1.25 s of the step that they belong to.
    done = both(table((0.0, 4, 6), (0.0, 4, 5)), host_blocks=3, overlap_swap=1, **TIGHT)
    assert done.rows("start_s", "end_s", "preempted") == [
        (0.0, 3.0, 0),
        (3.0, 4.5, 0),
        (4.5, 6.0, 0),
        (6.0, 7.5, 1),  # r1's 3 blocks go out: max(1.5, 1.25)
        (7.5, 8.75, 0),
        (8.75, 10.0, 0),
        (10.0, 11.5, 0),  # and come back
        (11.5, 12.75, 0),
    ]
    assert done.recording.transfer_s == 0.25 + 0.25
    # Copies of 0.75 s are hidden altogether.
    done = both(
        table((0.0, 4, 6), (0.0, 4, 5)),
        host_blocks=3, overlap_swap=1, copy_s_per_block=0.25, **TIGHT,
    )  # fmt: skip
    assert done.times("finished_s") == [(9.75,), (12.25,)]
    assert done.recording.transfer_s == 0.0


def test_without_room_in_host_memory_the_kv_is_lost():
    # As in timelines/test_kv_limits.py: r1's 3 blocks do not fit in 2.
    done = both(table((0.0, 4, 6), (0.0, 4, 5)), host_blocks=2, **TIGHT)
    assert done.times(*TIMES) == [(0.0, 3.0, 9.75), (0.0, 3.0, 13.75)]
    assert done.times(*COUNTS) == [(0, 0, 0), (1, 6, 0)]
    assert done.recording.transfer_s == 0.0


def test_who_is_out_comes_back_before_any_new_prompt():
    # r2 waits from 7 on, and at 8.75 its 2 tokens would fit in the 2 free blocks; but r1 is
    # out.  11.25: r0 has ended, r1 comes back, r2 not beside it: the step has decodes.
    # 14: nobody is out any more: r2+2 alone -> 1.5 s.  15.5: r1+1 -> 1.25 s.
    requests = table((0.0, 4, 6), (0.0, 4, 5), (7.0, 2, 1))
    done = both(requests, host_blocks=3, **TIGHT)
    assert done.times(*TIMES) == [(0.0, 3.0, 11.25), (0.0, 3.0, 16.75), (14.0, 15.5, 15.5)]


def test_a_step_that_preempts_brings_nobody_back():
    # 7 blocks of 2.  0: r0+4, r1+4, r2+2 -> 3.5 s, 5 blocks.  3.5: 5, 5, 3 tokens take all
    # blocks but none: 3 + 3 + 2 = 8 of 7: r2 is the last, its one block goes out, 0.5 s;
    # r0+1, r1+1 -> 1.5 s, 6 blocks.  5.5: 6 tokens each, r2 needs 1 + 1 of 1 free blocks.
    # 7: r0's 7th takes the 7th block; r1's 7th finds none: r1, the last, goes out, 3 blocks,
    # 1.5 s; r0+1 -> 1.25 s.  Its 3 blocks are free, but nobody comes back in this step.
    # 9.75: r1 first: 3 + 1 of 3 free blocks, so nobody, r2 behind it neither; r0:5 ends, 1.25 s.
    # 11: r1, 3 + 1 of 7, wait 1.5 s; r2, 1 + 1 of the 3 that r1's 7th token leaves, 0.5 s;
    # r1+1, r2+1 -> 1.5 s, to 14.5: r1:4 ends, r2:2.  14.5: r2+1 -> 1.25 s ends.
    requests = table((0.0, 4, 5), (0.0, 4, 4), (0.0, 2, 3))
    done = both(requests, host_blocks=9, block_size=2, usable_blocks=7, max_model_len=14)
    assert done.rows("start_s", "end_s", "running", "waiting", "preempted") == [
        (0.0, 3.5, 3, 0, 0),
        (3.5, 5.5, 2, 1, 1),
        (5.5, 7.0, 2, 1, 0),
        (7.0, 9.75, 1, 2, 1),
        (9.75, 11.0, 1, 2, 0),
        (11.0, 14.5, 2, 0, 0),
        (14.5, 15.75, 1, 0, 0),
    ]
    assert done.times(*COUNTS) == [(0, 0, 0), (1, 0, 6), (1, 0, 2)]


@pytest.fixture
def crowded():
    """16 requests at once, whose KV comes to twice the pool."""
    return Scenario.from_mapping(
        {
            "workload": {
                "arrivals": {"process": "burst"},
                "lengths": {"distribution": "fixed", "prompt_tokens": 200, "output_tokens": 200},
                "num_requests": 16,
            },
            "model": "llama-3.1-8b",
            "scheduler": {"policy": "continuous", "preemption": "swap"},
            "kv_cache": {"num_gpu_blocks": 225, "max_model_len": 1024},
        }
    )


def test_a_copy_takes_its_bytes_over_the_pcie_link(crowded):
    result = simulate(crowded)
    summary = result.summary
    assert summary["preemptions"] > 0
    assert summary["recomputed_tokens"] == 0  # 4 GiB are 2,048 blocks of 2 MiB
    # Llama 3.1 8B: 32 layers of 8 heads of 128, keys and values, 2 bytes: 131,072 a token.
    blocks = int(result.recording.outcome.swapped_blocks.sum())
    assert summary["swapped_bytes"] == blocks * 16 * 131_072
    assert summary["preemption_lost_s"] == pytest.approx(summary["swapped_bytes"] / 64e9)


def test_each_gpu_copies_its_share(crowded):
    alone = simulate(crowded).summary
    shared = simulate(crowded.with_overrides(["cluster.tensor_parallel=2"])).summary
    ratio = shared["swapped_bytes"] / shared["preemption_lost_s"]
    assert ratio == pytest.approx(2 * alone["swapped_bytes"] / alone["preemption_lost_s"])


def test_less_host_memory_means_more_recomputed(crowded):
    small = simulate(crowded.with_overrides(["scheduler.cpu_swap_gb=0.03"])).summary
    assert small["recomputed_tokens"] > 0
    assert small["swapped_bytes"] > 0
