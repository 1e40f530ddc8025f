"""The order fair keeps the bound of its theory on how far the service of two tenants differs.

Sheng et al., "Fairness in Serving Large Language Models" (2024), theorem 4.4: for tenants f
and g that are both backlogged throughout, |W_f(t1, t2) - W_g(t1, t2)| <= 2 U with
U = max(w_p x longest prompt, w_q x most tokens in a running batch), w_p = 1, w_q = 2.
"""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import fleet, table

from simulator.engine.state import QUEUED

PROMPT, BLOCK, BLOCKS, SEATS = 40, 4, 60, 8
BOUND = 2 * max(PROMPT, 2 * BLOCK * BLOCKS)


def widest_difference(seed, order, policy):
    """Most that the difference of two tenants' service moves while both have requests waiting.

    "few" sends short prompts with long outputs, "many" twice as many long prompts with short
    outputs.  Read from outside: prompts of who has been admitted, tokens of all.
    """
    rng = np.random.default_rng(seed)
    n = 360
    is_many = rng.random(n) < 2 / 3
    prompts = np.where(is_many, rng.integers(20, PROMPT + 1, n), rng.integers(1, 8, n))
    outputs = np.where(is_many, rng.integers(1, 6, n), rng.integers(10, 60, n))
    requests = table(
        *zip(np.zeros(n), prompts, outputs, strict=True), class_id=is_many,
        class_names=("few", "many"),
    )  # fmt: skip
    made = fleet(
        requests, policy, order=order, block_size=BLOCK, usable_blocks=BLOCKS, max_num_seqs=SEATS,
        max_num_batched_tokens=128, max_model_len=128, step_s=(1.0, 0.0, 0.0),
    )  # fmt: skip
    made.deliver(np.arange(n), np.zeros(n, np.int64))
    differences = []
    rows = made.engine.requests
    for moment in np.arange(0.5, 5000.0):  # every step takes 1 s
        made.advance(moment)
        waiting = (rows["state"] == QUEUED) & (rows["preemptions"] == 0)
        if not (waiting & is_many).any() or not (waiting & ~is_many).any():
            return max(differences) - min(differences), len(differences)
        generated = rows["known_tokens"] - rows["in_flight"] - prompts
        service = np.where(waiting, 0, prompts) + 2 * generated
        differences.append(int(service[is_many].sum() - service[~is_many].sum()))
    raise AssertionError("the requests are never served")


@pytest.mark.parametrize("policy", ["chunked_prefill", "continuous", "orca"])
def test_service_of_two_backlogged_tenants_differs_by_no_more_than_the_bound(policy):
    for seed in range(5):
        moved, steps = widest_difference(seed, "fair", policy)
        assert steps > 100  # long enough for any other order to leave the bound
        assert moved <= BOUND


def test_in_order_of_arrival_the_difference_grows_beyond_the_bound():
    moved, _ = widest_difference(0, "fcfs", "chunked_prefill")
    assert moved > BOUND
