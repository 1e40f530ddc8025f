"""Speculative decoding gains at low load and loses at high load."""

from __future__ import annotations

import pytest

from simulator import Scenario, simulate

AHEAD, RATE, COST = 4, 0.5, 0.05


def tpot_ratio(concurrency, num_requests):
    """Mean TPOT with drafts over that without, at so many users."""
    scenario = Scenario.from_yaml(
        "speculative-decoding",
        [f"workload.arrivals.concurrency={concurrency}", f"workload.num_requests={num_requests}"],
    )
    drafted = simulate(scenario).summary
    plain = simulate(scenario.with_overrides(["scheduler.speculative=null"])).summary
    assert drafted["completed"] == plain["completed"] == num_requests
    assert drafted["draft_acceptance"] == pytest.approx(
        # Of k drafts those before the first wrong one: (a + ... + a^k) / k.
        sum(RATE**j for j in range(1, AHEAD + 1)) / AHEAD, abs=0.02
    )  # fmt: skip
    return drafted["mean_tpot_ms"] / plain["mean_tpot_ms"]


def test_a_few_users_gain_what_theory_says():
    # Leviathan et al., theorem 3.8, where checking costs no more than decoding:
    # (1 - a^(k + 1)) / ((1 - a)(k c + 1)) times as fast.
    faster = (1 - RATE ** (AHEAD + 1)) / (1 - RATE) / (AHEAD * COST + 1)
    assert tpot_ratio(2, 60) == pytest.approx(1 / faster, rel=0.1)


def test_many_users_lose():
    # 512 x 5 tokens a step are bound by compute: 5 tokens are paid for each 1.94, though
    # their attention and the prompts of others are paid once.
    assert tpot_ratio(512, 1024) > 1.02
