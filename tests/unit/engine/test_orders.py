"""Queue orders whose keys change, against the simplest that could be right: O(n) at each step."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import digest, fleet, run, table
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine import fair, log
from simulator.engine.queue import pop, push, push_front
from simulator.engine.verbs import head
from simulator.errors import InputError
from simulator.recording import FINISHED
from simulator.schedulers.orders import make_order

N, TENANTS = 24, 3
NAMES = ("a", "b", "c")


class VirtualTokenCounters:
    """Algorithm 1 of Sheng et al. (2024) with lists; who was preempted goes in front."""

    def __init__(self):
        self.queue = []  # (place, row)
        self.counter = [0] * TENANTS
        self.last_left = None

    def join(self, row, tenant_of, place):
        waiting = {tenant_of[i] for _, i in self.queue}
        tenant = tenant_of[row]
        if tenant not in waiting:
            if waiting:
                floor = min(self.counter[t] for t in waiting)
            else:
                floor = 0 if self.last_left is None else self.counter[self.last_left]
            self.counter[tenant] = max(self.counter[tenant], floor)
        self.queue.append((place, row))

    def first(self, tenant_of):
        return min(self.queue, key=lambda e: (self.counter[tenant_of[e[1]]], tenant_of[e[1]], e[0]))

    def take(self, tenant_of, prompts, preempted):
        entry = self.first(tenant_of)
        self.queue.remove(entry)
        row = entry[1]
        self.last_left = tenant_of[row]
        if row not in preempted:
            self.counter[tenant_of[row]] += prompts[row]
        return row


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, TENANTS - 1), st.integers(1, 9)), min_size=N, max_size=N),
    st.lists(st.sampled_from(["join", "take", "take", "charge", "preempt"]), max_size=80),
    st.randoms(use_true_random=False),
)
def test_fair_serves_the_least_served_tenant_whatever_has_been_charged(rows, actions, random):
    tenant_of, prompts = [tenant for tenant, _ in rows], [prompt for _, prompt in rows]
    requests = table(*[(0.0, p, 9) for p in prompts], class_id=tenant_of, class_names=NAMES)
    engine = fleet(requests, order="fair", max_num_seqs=N).engine
    expected = VirtualTokenCounters()
    outside, running, preempted = list(range(N)), [], set()
    back, front = 0, -1
    for action in actions:
        if action == "join" and outside:
            row = outside.pop(0)
            push(engine, 0, row)
            expected.join(row, tenant_of, back)
            back += 1
        elif action == "take" and expected.queue:
            row = expected.first(tenant_of)[1]
            assert head(engine, 0) == row
            assert pop(engine, 0) == row
            assert expected.take(tenant_of, prompts, preempted) == row
            running.append(row)
        elif action == "charge" and running:
            steps = random.randint(1, 3)
            engine.running[0, : len(running)] = running
            engine.replicas[0].running = len(running)
            fair.charge_steps(engine, 0, steps)
            for row in running:
                expected.counter[tenant_of[row]] += 2 * steps
        elif action == "preempt" and running:
            row = running.pop(random.randrange(len(running)))
            preempted.add(row)
            engine.requests[row].preemptions += 1
            push_front(engine, 0, row)
            expected.join(row, tenant_of, front)
            front -= 1
        assert engine.shares.service[0].tolist() == expected.counter
        assert engine.replicas[0].waiting == len(expected.queue)
    while expected.queue:
        assert pop(engine, 0) == expected.take(tenant_of, prompts, preempted)
    assert head(engine, 0) == -1


def follow(done, key):
    """Check against the log that each admission took the waiting request of the least key.

    `key(i, generated)` of request `i`, which has `generated` tokens by then.
    """
    requests = done.recording.requests
    waiting, generated = set(), np.zeros(len(requests), int)
    computed, known, sampling = np.zeros(len(requests), int), requests.prompt_tokens.copy(), []
    checked = 0
    for event in done.events:
        kind, i, value = int(event["kind"]), int(event["request"]), int(event["value"])
        if kind == log.ARRIVE:
            waiting.add(i)
        elif kind == log.PREEMPT:
            waiting.add(i)
            computed[i] = 0
        elif kind in (log.ADMIT, log.RESUME):
            ranked = [(key(k, generated[k]), requests.arrival_s[k], requests.id_of(k))
                      for k in waiting]  # fmt: skip
            assert requests.id_of(i) == min(ranked)[2]
            checked += len(waiting) > 1
            waiting.remove(i)
        elif kind == log.SCHEDULE:
            computed[i] += value
            if computed[i] == known[i]:
                sampling.append(i)
        elif kind == log.COMMIT:
            generated[sampling] += 1
            known[sampling] += 1
            sampling = []
    return checked


CROWD = {
    "usable_blocks": 14, "block_size": 2, "max_num_seqs": 6, "max_model_len": 28,
    "max_num_batched_tokens": 30,
}  # fmt: skip


@pytest.mark.parametrize("policy", ["chunked_prefill", "continuous", "orca"])
def test_srpt_counts_what_a_preempted_request_has_already(policy):
    preemptions = checked = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows = zip(
            np.cumsum(rng.exponential(0.8, 30)), rng.integers(1, 9, 30), rng.integers(1, 18, 30),
            strict=True,
        )  # fmt: skip
        predicted = rng.integers(1, 18, 30)
        done = run(
            table(*rows, predicted_tokens=predicted), policy, order="srpt", events=True, **CROWD
        )
        preemptions += done.recording.outcome.preemptions.sum()
        checked += follow(done, lambda i, generated, p=predicted: max(p[i] - generated, 1))
    assert preemptions > 20
    assert checked > 100


def test_edf_serves_by_arrival_and_limit():
    # One seat, 2 s each.  r1 is due at 0.5 + 9, r2 at 1 + 3, r3 (no limit) never, r4 at 1.5 + 3.
    requests = table((0.0, 4, 1), (0.5, 4, 1), (1.0, 4, 1), (1.0, 4, 1), (1.5, 4, 1))
    limit_s = np.array([1.0, 9.0, 3.0, np.inf, 3.0])
    done = run(requests, order="edf", max_num_seqs=1, ttft_limit_s=limit_s)
    assert [first for (first,) in done.times("admitted_s")] == [0.0, 6.0, 2.0, 8.0, 4.0]


def test_fair_alternates_between_a_crowd_and_a_single_client():
    # One seat; 4 + 2 x 1 = 6 units of service each, 2 s.  "a" sends four at once, "b" two: after
    # each of a's comes one of b's while there is one (equal counters: a, the first).
    requests = table(
        *[(0.0, 4, 1)] * 4, *[(0.0, 4, 1)] * 2, class_id=[0, 0, 0, 0, 1, 1], class_names=("a", "b")
    )
    done = run(requests, order="fair", max_num_seqs=1)
    assert [first for (first,) in done.times("admitted_s")] == [0.0, 4.0, 8.0, 10.0, 2.0, 6.0]


def test_who_comes_back_to_a_fair_queue_has_saved_no_credit():
    # One seat, 2 s each.  "b" comes at 7, in a's fourth turn: it is lifted to a's counter, so
    # that they alternate from 8 on, a before b on a tie, and b does not go twice.
    requests = table(
        *[(0.0, 4, 1)] * 6, *[(7.0, 4, 1)] * 2, class_id=[0] * 6 + [1] * 2, class_names=("a", "b")
    )
    done = run(requests, order="fair", max_num_seqs=1)
    starts = [first for (first,) in done.times("admitted_s")]
    assert starts == [0.0, 2.0, 4.0, 6.0, 8.0, 12.0, 10.0, 14.0]


def test_fair_takes_blocks_from_the_latest_admitted_so_that_somebody_ends():
    # Chunks of 3 in 16 blocks of 2, admitted without a look at the whole: r0 and r1 come to 12
    # and 13 blocks.  Were the most served tenant the victim, each would take the other's blocks
    # before its prompt is done, for ever.
    requests = table(
        (0.0, 15, 9), (0.0, 17, 10), (0.0, 7, 2), (0.25, 5, 7), (0.5, 12, 5), (7.5, 2, 13),
        class_id=[0, 0, 2, 0, 1, 2], class_names=NAMES, max_concurrency=2,
    )  # fmt: skip
    done = run(
        requests, order="fair", block_size=2, usable_blocks=16, max_num_batched_tokens=6,
        max_model_len=31, reserve_full_isl=0, long_prefill_token_threshold=3, horizon_s=1e3,
    )  # fmt: skip
    assert (done.recording.outcome.status == FINISHED).all()


def test_on_a_full_tie_the_last_name_is_preempted():
    # Alike in all, 6 blocks of 2: at 7 tokens one must go.
    tight = {"block_size": 2, "usable_blocks": 6, "max_num_seqs": 2, "max_model_len": 12}
    requests = table((0.0, 4, 6), (0.0, 4, 6))
    for order in ("sjf", "srpt", "priority"):
        assert run(requests, order=order, **tight).times("preemptions") == [(0,), (1,)]


def test_requests_alike_in_all_do_not_preempt_each_other_for_ever():
    # r3 and r4 tie under priority: were the first in the list the victim, as in vLLM, they would
    # take each other's blocks before either prompt is done.
    requests = table(
        (1.25, 19, 2), (1.25, 21, 6), (3.25, 14, 6), (5.25, 22, 12), (5.25, 24, 13),
        (5.25, 12, 10), (12.25, 12, 3), priority=[2, 1, 2, 0, 0, 2, 1],
    )  # fmt: skip
    done = run(
        requests, order="priority", block_size=1, usable_blocks=42, max_num_seqs=5,
        max_num_batched_tokens=21, max_model_len=42, reserve_full_isl=0,
        long_prefill_token_threshold=3, horizon_s=1e3,
    )  # fmt: skip
    assert (done.recording.outcome.status == FINISHED).all()


@pytest.mark.parametrize("order", ["srpt", "edf", "fair"])
@pytest.mark.parametrize("policy", ["static", "chunked_prefill", "continuous", "orca"])
def test_stepping_and_coasting_agree(policy, order):
    rng = np.random.default_rng(5)
    rows = zip(
        np.cumsum(rng.exponential(0.8, 60)), rng.integers(1, 9, 60), rng.integers(1, 18, 60),
        strict=True,
    )  # fmt: skip
    requests = table(*rows, class_id=rng.integers(0, 3, 60), class_names=NAMES)
    limit_s = rng.uniform(0, 9, 60)
    static = {"batch_size": 3, "max_wait_s": 1.0} if policy == "static" else {}
    options = CROWD | static | {"order": order, "ttft_limit_s": limit_s}
    stepped = run(requests, policy, events=True, **options)
    assert digest(stepped.recording) == digest(run(requests, policy, **options).recording)


def write(path, text):
    path.write_text("import numpy as np\n" + text)
    return path.name


def test_an_order_of_ones_own_is_a_key_for_each_request(tmp_path):
    name = write(tmp_path / "mine.py", "def key(requests):\n    return -requests.prompt_tokens\n")
    requests = table((0.0, 4, 1), (0.5, 1, 1), (1.0, 2, 1), (1.0, 3, 1))
    order = make_order(f"{name}:key", requests, base_dir=tmp_path)
    assert order.key.tolist() == [-4, -1, -2, -3]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return requests.prompt_tokens[:2]", "an array of shape (2,) for 3 requests"),
        ("return 3", "an array of shape () for 3 requests"),
        ("return ['x'] * 3", "returns no array of numbers"),
        ("return requests.predicted_tokens", "key of request r0 is not a number"),
    ],
)
def test_what_is_no_key_is_refused_in_one_sentence(tmp_path, body, said):
    name = write(tmp_path / "mine.py", f"def key(requests):\n    {body}\n")
    requests = table(*[(0.0, 1, 1)] * 3, predicted_tokens=[np.nan] * 3)
    with pytest.raises(InputError) as refusal:
        make_order(f"{name}:key", requests, base_dir=tmp_path)
    assert str(refusal.value).startswith("scheduler.order is mine.py:key, ")
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)
