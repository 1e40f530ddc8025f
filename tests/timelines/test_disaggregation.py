"""Prefill and decode in pools of their own, by hand.

A step of m tokens lasts 1 + m/4 seconds; blocks hold 4 tokens; a transfer starts a quarter of
a second after it was asked for and takes half a second for each block.
"""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import digest, table
from pool_cases import serve

from simulator import simulate
from simulator.scenario import Scenario

TIMES = ("admitted_s", "first_token_s", "finished_s")


def both(requests, **options):
    """The run, after checking that stepping and coasting agree and that it is sound."""
    stepped = serve(requests, events=True, **options)
    assert digest(stepped) == digest(serve(requests, **options))
    return stepped


def times(recording, *names):
    columns = [getattr(recording.outcome, name).tolist() for name in names]
    return list(zip(*columns, strict=True))


def handed(recording):
    """Per request: prompt done, blocks claimed, KV there."""
    moved = recording.handovers
    columns = (moved.prefilled_s, moved.claimed_s, moved.arrived_s)
    return list(zip(*(column.tolist() for column in columns), strict=True))


# A prompt of 8 tokens: 3 s in prefill; two blocks, 1.25 s on the way; a token every 1.25 s.
ALONE = ((0.0, 8, 3),)


def test_a_request_goes_from_pool_to_pool():
    done = both(table(*ALONE))
    assert handed(done) == [(3.0, 3.0, 4.25)]
    # The decode replica samples all three tokens: the first from the prompt's last token.
    assert times(done, *TIMES) == [(0.0, 5.5, 8.0)]
    steps = done.steps
    assert list(zip(steps.replica, steps.start_s, steps.end_s, strict=True)) == [
        (0, 0.0, 3.0), (1, 4.25, 5.5), (1, 5.5, 6.75), (1, 6.75, 8.0),
    ]  # fmt: skip
    # What prefill samples is nobody's, and one token behind KV that is there is a decode.
    assert steps.sampled_tokens.tolist() == [0, 1, 1, 1]
    assert steps.decode_seqs.tolist() == [0, 1, 1, 1]
    assert done.outcome.generated_tokens.tolist() == [3]


def test_the_first_token_may_come_from_prefill():
    done = both(table(*ALONE), prefill_token=True)
    assert handed(done) == [(3.0, 3.0, 4.25)]
    assert times(done, *TIMES) == [(0.0, 3.0, 6.75)]
    gaps = np.sort(np.repeat(done.gaps.gap_s, done.gaps.count))
    assert gaps.tolist() == [1.25, 2.5]  # the second token waits for the KV


def test_a_single_token_from_prefill_needs_no_decode():
    done = both(table((0.0, 8, 1)), prefill_token=True)
    assert times(done, *TIMES) == [(0.0, 3.0, 3.0)]
    assert done.handovers.replica.tolist() == [-1]


# Both prompts in one step of 12 tokens: [0, 4].
TWO = table((0.0, 8, 2), (0.0, 4, 2))


def test_transfers_into_one_replica_follow_each_other():
    done = both(TWO)
    assert handed(done) == [(4.0, 4.0, 5.25), (4.0, 4.0, 5.75)]
    # r1's KV comes while r0's first step runs, and it joins the next: 1.5 s for two tokens.
    assert times(done, *TIMES) == [(0.0, 6.5, 8.0), (0.0, 8.0, 9.25)]


def test_transfers_out_of_one_replica_follow_each_other():
    done = both(TWO, replicas=(1, 2))
    assert handed(done) == [(4.0, 4.0, 5.25), (4.0, 4.0, 5.75)]
    assert times(done, *TIMES) == [(0.0, 6.5, 7.75), (0.0, 7.0, 8.25)]
    assert done.handovers.replica.tolist() == [1, 2]


def test_a_busy_decode_replica_claims_at_its_next_step():
    # r0 alone takes prefill 0 to 3 s, r1 prefill 1 to 2 s.  r1 is there first: its KV at 2.75,
    # steps to 4 and 5.25.  r0, done at 3, is seen at 4 and has its KV at 5.25.
    done = both(TWO, replicas=(2, 1))
    assert handed(done) == [(3.0, 4.0, 5.25), (2.0, 2.0, 2.75)]
    assert times(done, *TIMES) == [(0.0, 6.5, 7.75), (0.0, 4.0, 5.25)]


def test_links_are_not_shared_by_other_pairs():
    # From prefill 0 to decode 0, from prefill 1 to decode 1, at the same time.
    done = both(table((0.0, 8, 2), (0.0, 8, 2)), replicas=(2, 2))
    assert handed(done) == [(3.0, 3.0, 4.25), (3.0, 3.0, 4.25)]


def test_prefill_keeps_blocks_until_they_have_been_read():
    # Room for one prompt: r1 starts when r0's two blocks are back at 4.25.  Decode, busy with
    # r0 to 8, asks for r1's KV then.
    done = both(table((0.0, 8, 3), (0.0, 8, 1)), prefill={"usable_blocks": 3})
    assert times(done, "admitted_s") == [(0.0,), (4.25,)]
    assert handed(done) == [(3.0, 3.0, 4.25), (7.25, 8.0, 9.25)]
    assert times(done, "finished_s") == [(8.0,), (10.5,)]


def test_blocks_are_claimed_before_the_transfer():
    # Three blocks: r0 has two, r1 waits for two until r0 ends at 10, its KV kept meanwhile.
    done = both(table((0.0, 8, 3), (0.0, 8, 1)), decode={"usable_blocks": 3})
    assert handed(done) == [(5.0, 5.0, 6.25), (5.0, 10.0, 11.25)]
    assert times(done, *TIMES) == [(0.0, 7.5, 10.0), (0.0, 12.5, 12.5)]


def test_who_is_preempted_in_decode_computes_its_prompt_there():
    # Four blocks are claimed at 5.  At 7.5 r0 needs a third; r1, whose KV has just come, cannot
    # be preempted, so r0 is.  r1 goes on alone: 9 tokens, from 8.75 to 18.75.  Then r0 computes
    # 9 tokens again in 3.25 s and has its other 7 by 30.75.
    done = both(table((0.0, 8, 9), (0.0, 8, 9)), decode={"usable_blocks": 4})
    assert handed(done) == [(5.0, 5.0, 6.25), (5.0, 5.0, 7.25)]
    assert times(done, *TIMES) == [(0.0, 7.5, 30.75), (0.0, 8.75, 18.75)]
    assert times(done, "preemptions", "recomputed_tokens") == [(1, 8), (0, 0)]


def test_a_pool_that_preempts_is_named():
    small = Scenario.from_mapping(
        {
            "workload": {
                "arrivals": {"process": "burst"},
                "lengths": {"distribution": "fixed", "prompt_tokens": 64, "output_tokens": 64},
                "num_requests": 8,
            },
            "model": "llama-3.1-8b",
            "cluster": {"pools": {"decode": {"num_gpu_blocks": 33}}},
            "cost_model": {"kind": "linear", "t_mem_s": 0.01, "t_flop_s_per_token": 1e-5},
            "kv_cache": {"max_model_len": 256, "num_gpu_blocks": 100},
        }
    )
    # 32 blocks hold eight prompts of four blocks, and not one token more.
    result = simulate(small)
    assert result.summary["preemptions"] > 0
    assert not result.check_integrity()
    assert all(text.startswith("decode pool: ") for text in result.preemption_reasons)
    assert "32 are there" in result.preemption_reasons[0]


def test_what_decode_has_cached_is_not_read_again():
    # The first 8 of 9 tokens are alike.  r0: three blocks, 1.75 s.  r1: prefill finds 8 tokens
    # and computes one; so does decode, and one block comes over in 0.75 s.
    requests = table((0.0, 9, 1), (20.0, 9, 1), pieces=[[(5, 8)], [(5, 8)]])
    done = both(requests, allocator="prefix", max_model_len=17, usable_blocks=16)
    assert handed(done) == [(3.25, 3.25, 5.0), (21.25, 21.25, 22.0)]
    assert done.handovers.pulled_blocks.tolist() == [3, 1]
    assert done.outcome.cached_tokens.tolist() == [0, 8]


def test_who_has_its_kv_but_no_seat_is_not_forgotten():
    # Both claim at 3 and have their KV at once; the only seat is free again at 4.25.
    options = {"max_num_seqs": 1, "block_s": 0.0, "latency_s": 0.0}
    done = both(table((0.0, 4, 1), (0.0, 4, 1)), prefill={"max_num_seqs": 2}, **options)
    assert handed(done) == [(3.0, 3.0, 3.0), (3.0, 3.0, 3.0)]
    assert times(done, "finished_s") == [(4.25,), (5.5,)]


def test_a_client_s_next_request_follows_the_last_token_in_decode():
    done = both(table((0.0, 8, 3), (0.0, 8, 3), max_concurrency=1))
    assert times(done, "arrival_s", *TIMES) == [(0.0, 0.0, 5.5, 8.0), (8.0, 8.0, 13.5, 16.0)]


def test_a_full_queue_is_in_front_of_prefill():
    done = both(table(*((0.0, 8, 1),) * 3), max_num_seqs=1, prefill={"max_queue": 0})
    assert done.outcome.status.tolist() == [1, 2, 2]


def test_a_horizon_cuts_both_pools():
    done = serve(table(*ALONE, (1.0, 8, 3)), horizon_s=6.0)
    assert done.outcome.status.tolist() == [0, 0]
    assert times(done, "first_token_s")[0] == (5.5,)
    assert done.outcome.generated_tokens.tolist() == [1, 0]


@pytest.mark.parametrize("horizon_s", [3.5, 4.5])
def test_a_horizon_may_cut_while_kv_is_lent(horizon_s):
    # The prompt's KV is on its way from 3 s to 4.25 s; `both` audits who holds which blocks.
    done = both(table(*ALONE), horizon_s=horizon_s)
    assert done.outcome.status.tolist() == [0]
    assert np.isnan(done.handovers.arrived_s[0]) == (horizon_s < 4.25)


@pytest.mark.parametrize("prefill_token", [False, True])
def test_nothing_is_lost_where_a_transfer_takes_no_time(prefill_token):
    done = both(table(*ALONE), block_s=0.0, latency_s=0.0, prefill_token=prefill_token)
    assert handed(done) == [(3.0, 3.0, 3.0)]
    first_s = 3.0 if prefill_token else 4.25
    assert times(done, *TIMES) == [(0.0, first_s, first_s + 2.5)]
