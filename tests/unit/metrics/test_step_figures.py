"""Padding, bubbles, stalls and the KV cache, from steps written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from recordings import recording, req, step

from simulator.metrics.latency import population
from simulator.metrics.steps import peak_output_tokens_per_s, step_figures


def figures(requests, steps, whole_blocks=False, reserved=None, **more):
    rec = recording(requests, steps, **more)
    return step_figures(rec, population(rec), whole_blocks=whole_blocks, reserved=reserved)


def test_static_batch_of_two():
    # Prompts of 6 and 10 are padded to 10; r0 makes 2 tokens, r1 makes 4; its row is
    # computed until the end: steps of 2, 1, 1, 1 s.
    requests = [
        req(0.0, 6, 2, admitted=0.0, first=2.0, finished=3.0),
        req(0.0, 10, 4, admitted=0.0, first=2.0, finished=5.0),
    ]
    steps = [
        step(0, 2, prefill_seqs=2, prefill_tokens=16, scheduled_tokens=16, padding_tokens=4,
             running=2, kv_blocks=4, kv_tokens=16),
        step(2, 3, decode_seqs=2, scheduled_tokens=2, running=2, kv_blocks=4, kv_tokens=18),
        *[step(t, t + 1, decode_seqs=1, bubble_seqs=1, scheduled_tokens=1, running=2, kv_blocks=4,
               kv_tokens=16 + t) for t in (3, 4)],
    ]  # fmt: skip
    out = figures(requests, steps, whole_blocks=True, usable_kv_blocks=8, block_size=8)
    assert out.tail_bubble_share == pytest.approx(2 / 8)  # 4 steps of 2 rows, 2 of them finished
    assert out.padding_share == pytest.approx(4 / 26)  # 10·2 + 2·3 tokens computed
    assert out.mean_batch_size == pytest.approx(2.0)
    assert out.mean_decode_seqs == pytest.approx(4 / 5)
    assert out.decode_stall_share == 0.0
    assert out.kv_usage_mean == pytest.approx(0.5)
    assert out.kv_usage_peak == pytest.approx(0.5)
    held = 4 * 8 * 5
    assert out.kv_reserved_unused == pytest.approx(1 - (2 * 16 + 18 + 19 + 20) / held)
    assert out.kv_internal_fragmentation == 0.0


def test_prefill_alone_stalls_running_streams():
    # r0 runs from 0 to 4; from 1 to 3 the engine prefills r1 alone.
    requests = [
        req(0.0, 4, 3, admitted=0.0, first=1.0, finished=5.0),
        req(0.5, 99, 1, admitted=1.0, first=3.0, finished=3.0),
    ]
    steps = [
        step(0, 1, prefill_seqs=1, running=1),
        step(1, 3, prefill_seqs=1, running=2),
        step(3, 4, decode_seqs=1, running=1),
        step(4, 5, decode_seqs=1, running=1),
    ]
    assert figures(requests, steps).decode_stall_share == pytest.approx(2 / (1 + 4 + 1 + 1))


def test_idle_time_and_replicas():
    # Two replicas for 4 s: one busy for 1 s of host and 1 s of GPU time, one for 2 s.
    requests = [
        req(0.0, 4, 1, admitted=0.0, first=2.0, finished=2.0),
        req(2.0, 4, 1, admitted=2.0, first=4.0, finished=4.0),
    ]
    steps = [
        step(0, 2, host_s=1.0, running=1, kv_blocks=3, kv_tokens=40),
        step(2, 4, running=1, replica=1, kv_blocks=1, kv_tokens=16),
    ]
    out = figures(requests, steps, replicas=2, usable_kv_blocks=10)
    assert out.utilisation == pytest.approx(0.5)
    assert out.gpu_share == pytest.approx(3 / 8)
    assert out.host_share == pytest.approx(1 / 8)
    assert out.kv_usage_mean == pytest.approx((3 * 2 + 1 * 2) / (10 * 8))
    assert out.kv_usage_peak == pytest.approx(0.3)
    assert out.kv_internal_fragmentation == pytest.approx(1 - (40 * 2 + 16 * 2) / (64 * 2))


def test_peak_second_counts_from_the_first_arrival():
    requests = [req(0.5, 4, 9, admitted=0.5, first=1.0, finished=3.0)]
    steps = [
        step(0.5, 1.0, sampled_tokens=1),
        step(1.0, 1.4, sampled_tokens=4),  # in the first second: 0.5 to 1.5
        step(1.4, 2.0, sampled_tokens=3),
        step(2.0, 3.0, sampled_tokens=1),
    ]
    rec = recording(requests, steps)
    assert peak_output_tokens_per_s(rec, population(rec)) == 5.0


def test_no_steps():
    out = figures([req(0.0)], [], end_s=1.0)
    assert out.num_steps == 0
    assert np.isnan(out.mean_batch_size)
    assert out.utilisation == 0.0


def test_external_fragmentation_is_what_the_longest_free_piece_leaves():
    # 10 blocks.  For 1 s 6 are free in pieces of 4 and 2, for 3 s 2 are free in one piece:
    # of 6·1 + 2·3 free block-seconds, 2·1 are outside the longest piece.
    requests = [req(0.0, 4, 2, admitted=0.0, first=1.0, finished=4.0)]
    steps = [
        step(0, 1, running=1, kv_blocks=4, largest_gap_blocks=4),
        step(1, 4, running=1, kv_blocks=8, largest_gap_blocks=2),
    ]
    out = figures(requests, steps, usable_kv_blocks=10)
    assert out.kv_external_fragmentation == pytest.approx(2 / 12)


def test_no_free_block_outside_the_longest_piece_is_exactly_none():
    # 7 of 10 blocks free in one piece, over times whose sums are not exact.
    requests = [req(0.0, 4, 2, admitted=0.0, first=0.1, finished=0.7)]
    steps = [
        step(0.1 * k, 0.1 * (k + 1), running=1, kv_blocks=3, largest_gap_blocks=7) for k in range(7)
    ]
    assert figures(requests, steps, usable_kv_blocks=10).kv_external_fragmentation == 0.0


def test_held_slots_are_filled_reserved_or_rounding():
    # 4 blocks of 8 are held for 20 tokens, of which 6 are there for 1 s and 12 for 2 s.
    requests = [req(0.0, 6, 14, admitted=0.0, first=1.0, finished=3.0)]
    steps = [
        step(0, 1, running=1, kv_blocks=4, kv_tokens=6),
        step(1, 3, running=1, kv_blocks=4, kv_tokens=12),
    ]
    out = figures(requests, steps, reserved=np.array([20, 20]), block_size=8)
    assert out.kv_internal_fragmentation == pytest.approx(12 / 32)
    assert out.kv_reserved_unused == pytest.approx((14 * 1 + 8 * 2) / (32 * 3))


def test_the_best_second_of_a_run_of_ages():
    # Seconds 0 and 10^12, in which 2 and 3 tokens come; there is no memory for all between them.
    rec = recording(
        [req(0.0, 10, 5, admitted=0.0, first=0.5, finished=1e12 + 0.5)],
        [step(0.0, 0.5, sampled_tokens=2), step(1e12, 1e12 + 0.5, sampled_tokens=3)],
    )
    assert peak_output_tokens_per_s(rec, population(rec)) == 3.0
