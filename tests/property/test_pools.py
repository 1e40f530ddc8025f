"""What must always hold where prefill and decode have pools of their own."""

from __future__ import annotations

import numpy as np
from engine_cases import digest, table
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_cases import serve

from simulator.recording import FINISHED

BLOCK = 4
LONGEST = 24  # prompt and output


@st.composite
def situations(draw):
    """Requests, and the options of two small pools in which each of them fits alone."""
    count = draw(st.integers(1, 14))
    rows, at = [], 0.0
    for _ in range(count):
        at += draw(st.sampled_from([0.0, 0.5, 1.0, 3.25]))
        prompt = draw(st.integers(1, LONGEST - 1))
        rows.append((at, prompt, draw(st.integers(1, LONGEST - prompt))))
    prefix = draw(st.booleans())
    columns = {}
    if prefix:
        columns["pieces"] = [
            [(draw(st.integers(0, 2)), draw(st.integers(1, prompt)))] for _, prompt, _ in rows
        ]
    if draw(st.booleans()):
        columns["max_concurrency"] = draw(st.integers(1, 4))
    blocks = st.integers(LONGEST // BLOCK + 1, 4 * LONGEST // BLOCK)
    options = {
        "allocator": "prefix" if prefix else "paged",
        "depth": draw(st.sampled_from([1, 2])),
        "order": draw(st.sampled_from(["fcfs", "sjf", "priority", "fair"])),
        "max_num_seqs": draw(st.integers(1, 5)),
        "max_num_batched_tokens": draw(st.integers(5, 20)),
        "max_model_len": LONGEST + 1,
        "prefill": {"usable_blocks": draw(blocks)},
        "decode": {"usable_blocks": draw(blocks), "watermark_blocks": draw(st.integers(0, 1))},
        "replicas": (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        "router": draw(st.sampled_from(["round_robin", "least_outstanding", "least_kv"])),
        "block_s": draw(st.sampled_from([0.0, 0.25, 2.0])),
        "latency_s": draw(st.sampled_from([0.0, 0.5])),
        "prefill_token": draw(st.booleans()),
    }
    return table(*rows, **columns), options


@given(situations())
@settings(max_examples=60, deadline=None)
def test_both_pools_are_sound(situation):
    requests, options = situation
    done = serve(requests, events=True, **options)  # counted anew from the event logs
    assert digest(done) == digest(serve(requests, **options))  # stepped or coasted

    outcome, moved = done.outcome, done.handovers
    assert (outcome.status == FINISHED).all()
    assert (outcome.generated_tokens == requests.output_tokens).all()
    assert (outcome.arrival_s <= outcome.admitted_s).all()
    assert (outcome.admitted_s < outcome.first_token_s).all()
    assert (outcome.first_token_s <= outcome.finished_s).all()
    there = moved.replica >= 0
    alone = options["prefill_token"] & (requests.output_tokens == 1)
    assert (there == ~alone).all()
    read = ~np.isnan(moved.arrived_s)
    assert (moved.prefilled_s[read] <= moved.claimed_s[read]).all()
    assert (moved.claimed_s[read] <= moved.arrived_s[read]).all()
    assert (moved.arrived_s[read] < outcome.finished_s[read]).all()
    # Each side of a link carries one transfer at a time.
    busy_s = moved.pulled_blocks * options["block_s"]
    for replica in (outcome.replica, moved.replica):
        for r in np.unique(replica[read]):
            mine = np.flatnonzero(read & (replica == r))
            order = mine[np.argsort(moved.arrived_s[mine], kind="stable")]
            gaps = np.diff(moved.arrived_s[order])
            assert (gaps >= busy_s[order][1:] - 1e-9).all()
