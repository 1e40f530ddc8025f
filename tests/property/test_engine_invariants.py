"""What must always hold, over random workloads, limits, orders, allocators and clients."""

from __future__ import annotations

import random

import numpy as np
import pytest
from engine_cases import POLICIES, WITH_OPTIONS, digest, fleet, table
from hypothesis import HealthCheck, given, settings
from random_cases import Thrown, cases, make_case

from simulator.engine import log
from simulator.engine.integrity import violations
from simulator.recording import FINISHED, REJECTED

CASES = (*POLICIES, *WITH_OPTIONS)
# Of each policy: cases that Hypothesis draws, and makes small where one fails, and cases by
# seed, which cost half as much.
DRAWN, BY_SEED = 50, 250
LONG_EXAMPLES = 56_000
PARTS = 4  # of the long hunt, so that two processes share it well


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
    accepted = steps.scheduled_tokens - steps.decode_seqs - steps.prefill_tokens
    assert (accepted >= 0).all()
    if not done.fleet.engine.limits["num_speculative_tokens"][0]:
        assert (accepted == 0).all()


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
                    for size in [*options["preferred_sizes"], options["batch_size"]]:
                        if len(ahead) >= size:
                            ready_s = min(ready_s, ahead[size - 1])
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


def check(case, policy):
    """Run a case and check all that must hold."""
    done = case.run(policy, events=True)
    check_ends(done)
    check_causality(done)
    check_tokens(done)
    check_work_conservation(done, policy, case.options)
    check_clients(done)
    every_member = (
        policy == "chunked_prefill"
        and case.options.get("depth", 1) == 1
        and not case.options["self_preemption_ends_scan"]
    )
    wrong = violations(done.fleet, done.recording, done.events, every_member_scheduled=every_member)
    assert not wrong
    # Coasting, which a run without an event log does, gives the same bits.
    coasted = case.run(policy)
    assert digest(coasted.recording) == digest(done.recording)
    if case.options["replicas"] == 1 and case.columns["max_concurrency"] is None:
        check_alone(case, policy, coasted)


@pytest.mark.parametrize("policy", CASES)
def test_invariants(policy):
    @settings(
        deadline=None,
        suppress_health_check=list(HealthCheck),
        max_examples=DRAWN,
        derandomize=True,
    )
    @given(cases(policy))
    def holds(case):
        check(case, policy)

    holds()
    check_seeds(range(BY_SEED), policy)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("policy", CASES)
def test_invariants_of_new_cases(policy, part):
    examples = LONG_EXAMPLES // len(CASES) // PARTS
    first = random.SystemRandom().randrange(1 << 60)
    check_seeds(range(first, first + examples), policy)


def check_seeds(seeds, policy):
    """Check the case of each seed; name the one that fails."""
    for seed in seeds:
        try:
            check(make_case(Thrown(seed), policy), policy)
        except Exception as error:
            raise AssertionError(f"make_case(Thrown({seed}), {policy!r}) fails") from error


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
        places = np.arange(replica.free_front, replica.free_back) % pool.free.shape[1]
        assert len(places) <= pool.free.shape[1]
        free = [block for block in pool.free[r, places].tolist() if block >= 0]
        assert np.array_equal(pool.free[r, blocks.place[free]], free)
        assert len(free) == replica.free_blocks
        assert sorted(free) == np.flatnonzero(users == 0).tolist()
        # Every hashed block is in exactly one bucket.
        found = []
        for block in pool.buckets[r, :, 0].tolist():
            while block >= 0 and len(found) <= usable:
                found.append(block)
                block = int(blocks[block].bucket_after)
        assert sorted(found) == np.flatnonzero(blocks.hashed[:usable]).tolist()
