"""What must always hold, over random workloads, limits, orders, allocators and clients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from engine_cases import POLICIES, digest, fleet, run, table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.engine import log
from simulator.engine.integrity import violations
from simulator.kv_cache.prefix import output_tag, own_tag
from simulator.recording import FINISHED, REJECTED

WHOLE_PROMPTS = ("continuous", "orca")
LONG_ENOUGH_S = 5e4  # no case needs a twentieth of it; who is not done by then never will be


@dataclass(frozen=True)
class Case:
    """Arguments of `engine_cases.run`."""

    rows: list[tuple[float, int, int]]
    columns: dict
    options: dict

    def run(self, policy, **more):
        requests = table(*self.rows, **self.columns)
        return run(requests, policy, horizon_s=LONG_ENOUGH_S, **(self.options | more))


@st.composite
def pieces(draw, row, prompt):
    """What a prompt consists of: pieces that others share, or an earlier prompt and answer."""
    shared = st.tuples(st.integers(0, 1), st.integers(1, 12))
    if row > 0:
        earlier = draw(st.integers(0, row - 1))
        turn = st.sampled_from([own_tag(earlier), output_tag(earlier)])
        shared |= st.tuples(turn, st.integers(1, 12))
    fitting = []
    for tag, length in draw(st.lists(shared, max_size=3)):
        fitting.append((tag, min(length, prompt)))
        prompt -= fitting[-1][1]
    return [piece for piece in fitting if piece[1] > 0]


@st.composite
def cases(draw, policy):
    """A small case in which KV, seats, budget and queue are all scarce now and then."""
    n = draw(st.integers(1, 14))
    steps = st.sampled_from([0.0, 0.0, 0.25, 0.3, 1.0, 1.25, 2.0, 7.0])
    arrival_s = np.cumsum(draw(st.lists(steps, min_size=n, max_size=n)))
    prompts = draw(st.lists(st.integers(1, 24), min_size=n, max_size=n))
    outputs = draw(st.lists(st.integers(1, 14), min_size=n, max_size=n))
    declared = draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
    max_tokens = [output + more for output, more in zip(outputs, declared, strict=True)]
    longest = max(p + m for p, m in zip(prompts, max_tokens, strict=True))
    max_model_len = draw(st.sampled_from([longest, longest, max(2, longest - 3)]))
    block_size = draw(st.integers(1, 5))
    seats = draw(st.integers(1, 6))
    chunked = draw(st.booleans()) or draw(st.booleans())
    budget = draw(st.integers(seats, 30))
    if policy in WHOLE_PROMPTS or not chunked:
        budget = max(budget, max_model_len)
    options = {
        "order": draw(st.sampled_from(["fcfs", "sjf", "priority"])),
        "router": draw(st.sampled_from(["round_robin", "least_outstanding"])),
        "replicas": draw(st.integers(1, 3)),
        "step_s": draw(st.sampled_from([(1.0, 0.25, 0.0), (0.7, 0.013, 0.0), (1.0, 0.1, 0.3)])),
        "max_model_len": max_model_len,
        "block_size": block_size,
        "usable_blocks": -(-max_model_len // block_size) + draw(st.integers(0, 5)),
        "max_num_seqs": seats,
        "max_num_batched_tokens": budget,
        "chunked_prefill": chunked,
        "reserve_full_isl": draw(st.booleans()),
        "long_prefill_token_threshold": draw(st.sampled_from([0, 0, 1, 3, 7])),
        "watermark_blocks": draw(st.integers(0, 2)),
        "max_queue": draw(st.sampled_from([1 << 40, 1 << 40, 1, 3])),
    }
    if policy == "static":
        options |= {
            "batch_size": draw(st.integers(1, seats)),
            "max_wait_s": draw(st.sampled_from([0.0, 0.3, 2.0])),
            "stream": draw(st.integers(0, 1)),
        }
    else:
        options["allocator"] = draw(st.sampled_from(["paged", "contiguous", "prefix", "prefix"]))
    if policy == "chunked_prefill" and options["allocator"] != "contiguous":
        options["depth"] = draw(st.sampled_from([1, 1, 2]))  # 2: asynchronous scheduling
    columns = {
        "max_tokens": max_tokens,
        "pieces": [draw(pieces(row, prompts[row])) for row in range(n)],
        "priority": draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)),
        "max_concurrency": draw(st.sampled_from([None, None, 1, 2, 5])),
    }
    return Case(list(zip(arrival_s.tolist(), prompts, outputs, strict=True)), columns, options)


def check_ends(done):
    """Everybody ends once: finished, or rejected with a reason.  Nobody waits for ever."""
    outcome = done.recording.outcome
    assert np.isin(outcome.status, (FINISHED, REJECTED)).all()
    assert ((outcome.reject_reason > 0) == (outcome.status == REJECTED)).all()


def check_causality(done):
    outcome, steps = done.recording.outcome, done.recording.steps
    finished = outcome.status == FINISHED
    asked_s = done.recording.requests.arrival_s
    in_order = [asked_s, outcome.arrival_s, outcome.admitted_s, outcome.first_token_s]
    for before, after in zip(in_order, [*in_order[1:], outcome.finished_s], strict=True):
        assert (before[finished] <= after[finished]).all()
    assert (outcome.admitted_s[finished] < outcome.first_token_s[finished]).all()
    assert np.isnan(outcome.finished_s[~finished]).all()
    for r in range(done.recording.replicas):
        mine = steps.replica == r
        assert (steps.start_s[mine][1:] >= steps.end_s[mine][:-1]).all()
        assert (steps.end_s[mine] >= steps.start_s[mine]).all()


def check_tokens(done):
    recording = done.recording
    outcome, steps = recording.outcome, recording.steps
    finished = outcome.status == FINISHED
    needed = recording.requests.prompt_tokens + outcome.generated_tokens - 1
    total = needed[finished].sum() + outcome.recomputed_tokens.sum() - outcome.cached_tokens.sum()
    if done.fleet.engine.limits["depth"][0] == 1:  # else some are computed in vain
        assert steps.scheduled_tokens.sum() == total
    assert steps.sampled_tokens.sum() == outcome.generated_tokens[finished].sum()
    assert (steps.scheduled_tokens == steps.decode_seqs + steps.prefill_tokens).all()


def check_work_conservation(done, policy, options):
    """A replica starts its next step when it can: at the last one's end, or when work comes."""
    outcome, steps = done.recording.outcome, done.recording.steps
    for r in range(done.recording.replicas):
        mine = (outcome.replica == r) & (outcome.status == FINISHED)
        free_s = 0.0
        for row in np.flatnonzero(steps.replica == r):
            start_s = steps.start_s[row]
            if start_s > free_s or policy == "static":
                present = mine & (outcome.admitted_s < start_s) & (outcome.finished_s > free_s)
                if present.any():
                    assert start_s == free_s, "a step is missing while requests run"
                elif policy != "static":
                    ahead = outcome.arrival_s[mine & (outcome.finished_s > free_s)]
                    assert start_s == max(free_s, ahead.min())
                elif outcome.admitted_s[mine & (outcome.admitted_s >= start_s)].min() == start_s:
                    ahead = np.sort(outcome.arrival_s[mine & (outcome.admitted_s >= start_s)])
                    ready_s = ahead[0] + options["max_wait_s"]
                    if len(ahead) >= options["batch_size"]:
                        ready_s = min(ready_s, ahead[options["batch_size"] - 1])
                    assert start_s == max(free_s, ready_s)
            free_s = steps.end_s[row]


def check_clients(done):
    """A closed loop sends request k when it is asked for and k - seats others have ended."""
    outcome, seats = done.recording.outcome, done.recording.requests.max_concurrency
    asked_s = done.recording.requests.arrival_s
    sent = np.flatnonzero(outcome.replica >= 0)
    if seats is None:
        assert np.array_equal(outcome.arrival_s[sent], asked_s[sent])
        return
    is_end = np.isin(done.events["kind"], (log.FINISH, log.REJECT))
    ends_s = np.sort(done.events["time_s"][is_end])
    sent_s = asked_s[sent]
    sent_s[seats:] = np.maximum(sent_s[seats:], ends_s[: max(0, len(sent) - seats)])
    assert np.array_equal(outcome.arrival_s[sent], sent_s)


def hunt(policy, **how):
    """Look for a case in which something does not hold."""

    @settings(deadline=None, suppress_health_check=list(HealthCheck), **how)
    @given(cases(policy))
    def holds(case):
        done = case.run(policy, events=True)
        check_ends(done)
        check_causality(done)
        check_tokens(done)
        check_work_conservation(done, policy, case.options)
        check_clients(done)
        every_member = policy == "chunked_prefill" and case.options.get("depth", 1) == 1
        wrong = violations(
            done.fleet, done.recording, done.events, every_member_scheduled=every_member
        )
        assert not wrong
        # Coasting, which a run without an event log does, gives the same bits.
        coasted = case.run(policy)
        assert digest(coasted.recording) == digest(done.recording)
        if case.options["replicas"] == 1 and case.columns["max_concurrency"] is None:
            check_alone(case, policy, coasted)

    holds()


@pytest.mark.parametrize("policy", POLICIES)
def test_invariants(policy):
    hunt(policy, max_examples=520, derandomize=True)


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES)
def test_invariants_of_new_cases(policy):
    hunt(policy, max_examples=10_000)


def check_alone(case, policy, behind_a_router):
    """One replica behind a router is the replica alone."""
    options = {name: value for name, value in case.options.items() if name != "router"}
    alone = fleet(table(*case.rows, **case.columns), policy, **options)
    rows = np.flatnonzero(~alone.is_rejected())
    alone.deliver(rows, np.zeros(len(rows), np.int64))
    for moment in behind_a_router.recording.steps.end_s[::3]:
        alone.advance(moment)
        if case.options.get("allocator") == "prefix":
            check_pool(alone.engine)
    alone.advance(np.inf)
    assert digest(alone.recording(0.0)) == digest(behind_a_router.recording)


def check_pool(engine):
    """Each block is in as many tables as it has users, and in the free list if it has none."""
    pool, usable = engine.prefix, int(engine.limits[0].usable_blocks)
    for r, replica in enumerate(engine.replicas):
        blocks = pool.blocks[r]
        users = np.zeros(usable, int)
        for i in engine.running[r, : replica.running]:
            request = engine.requests[i]
            held = pool.tables[r, request.seat, : request.held_blocks]
            assert len(set(held.tolist())) == len(held)
            users[held] += 1
        assert np.array_equal(users, blocks.users[:usable])
        free, block = [], int(blocks[usable].free_after)
        while block != usable and len(free) <= usable:
            free.append(block)
            block = int(blocks[block].free_after)
        assert len(free) == replica.free_blocks
        assert sorted(free) == np.flatnonzero(users == 0).tolist()
        # Every hashed block is in exactly one bucket.
        found = []
        for block in pool.buckets[r, :, 0].tolist():
            while block >= 0 and len(found) <= usable:
                found.append(block)
                block = int(blocks[block].bucket_after)
        assert sorted(found) == np.flatnonzero(blocks.hashed[:usable]).tolist()
