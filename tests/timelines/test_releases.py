"""What earlier releases of vLLM's scheduler did otherwise, by hand.

A step of m tokens lasts 1 + m/4 seconds; blocks hold 4 tokens.
"""

from __future__ import annotations

import pytest
from engine_cases import digest, run, table

from simulator import simulate
from simulator.errors import InputError
from simulator.scenario import Scenario, resolve
from simulator.schedulers.releases import RULES

TIMES = ("admitted_s", "first_token_s", "finished_s")


def both(requests, release, **limits):
    """The run, after checking that stepping and coasting agree."""
    options = RULES[release].limits() | limits
    stepped = run(requests, events=True, **options)
    assert digest(stepped.recording) == digest(run(requests, **options).recording)
    return stepped


@pytest.mark.parametrize(
    ("release", "chunks"),
    # Alone: 6 tokens at once in 2.5 s, or 2 at a time in 1.5 s.
    [("0.33.0", [6]), ("0.20.0", [2, 2, 2]), ("0.11.2", [2, 2, 2])],
)
def test_the_cap_on_long_prompts_for_who_is_alone(release, chunks):
    done = both(table((0.0, 6, 1)), release, long_prefill_token_threshold=2)
    assert [tokens for (tokens,) in done.rows("scheduled_tokens")] == chunks


@pytest.mark.parametrize(
    ("release", "at_5_75"),
    # As in test_kv_limits.py: at 5.75 r0, first in the list, needs a 4th block and is itself
    # the least urgent.  The scan goes on, r1+1 in 1.25 s; or it ends, and the step holds
    # nothing and lasts no time: then r1+1 at 5.75 too.
    [("0.33.0", [(5.75, 1, 1)]), ("0.20.0", [(5.75, 0, 1), (5.75, 1, 0)])],
)
def test_who_is_behind_a_request_that_preempts_itself(release, at_5_75):
    requests = table((0.0, 4, 6), (1.0, 4, 5), priority=[1, 0])
    tight = {"block_size": 2, "usable_blocks": 6, "max_num_seqs": 2, "max_model_len": 12}
    done = both(requests, release, order="priority", **tight)
    rows = done.rows("start_s", "scheduled_tokens", "preempted")
    assert [row for row in rows if row[0] == 5.75] == at_5_75


@pytest.mark.parametrize(
    ("release", "hit_tokens"),
    # 4 blocks.  r0's 7 tokens leave block 0 with a hash and 1 without: the free list is 1 2 3 0,
    # or before 0.33 it is 2 3 1 0.  r1's 6 tokens take two and leave 2 3 0 1, or 1 0 3 2;
    # r2's 5 tokens take 2 and 3, or 1 and 0; r3 looks for block 0.
    [("0.33.0", 4), ("0.20.0", 0)],
)
def test_blocks_without_a_hash_push_out_cached_ones(release, hit_tokens):
    requests = table(
        (0.0, 7, 1), (10.0, 6, 1), (20.0, 5, 1), (30.0, 7, 1),
        pieces=[[(5, 7)], [], [], [(5, 7)]],
    )  # fmt: skip
    done = both(requests, release, allocator="prefix", usable_blocks=4, max_model_len=16)
    assert done.times("cached_tokens")[3] == (hit_tokens,)


UNCHUNKED = ((0.0, 4, 2), (1.0, 8, 1), (1.2, 8, 1), (1.5, 3, 1))


@pytest.mark.parametrize(
    ("release", "admitted_s"),
    [
        # Budget 8.  2: beside r0's decode 7 are left, r1 asks 8: nobody passes; r0+1 ends.
        # 3.25: r1+8 -> 3 s; r2+8 -> 3 s; r3.
        ("0.33.0", [0.0, 3.25, 6.25, 9.25]),
        # 2: r0+1 ends, r1 and r2 let r3+3 pass -> 2 s, and return in reverse order: r2+8 at 4.
        ("0.11.2", [0.0, 7.0, 4.0, 2.0]),
    ],
)
def test_a_prompt_over_the_budget_without_chunking(release, admitted_s):
    limits = {"max_num_batched_tokens": 8, "chunked_prefill": 0}
    done = both(table(*UNCHUNKED), release, **limits)
    assert [at for (at,) in done.times("admitted_s")] == admitted_s


def scenario(*overrides):
    return Scenario.from_yaml("chat-8b-h100", ["workload.num_requests=20", *overrides])


@pytest.mark.parametrize(
    ("version", "rules"),
    [("0.10.2", "0.11.2"), ("0.19", "0.11.2"), ("0.20.0", "0.20.0"), ("0.27", "0.20.0"),
     ("0.33.0", "0.33.0"), ("1.5", "0.33.0")],
)  # fmt: skip
def test_a_release_has_the_rules_of_the_nearest_that_was_read(version, rules):
    resolved = resolve(scenario(f"cluster.engine_version='{version}'"))
    assert resolved.defaults.scheduler_rules == rules
    said = [note for note in resolved.notes if note.startswith("scheduler rules: ")]
    assert len(said) == (rules != "0.33.0")
    assert all(f"those of vllm {rules}" in note for note in said)


def test_an_unknown_version_gets_a_sentence():
    with pytest.raises(InputError, match=r"'0\.6' of vllm is older than 0\.10"):
        resolve(scenario("cluster.engine_version='0.6'"))
    (note,) = [n for n in resolve(scenario("cluster.engine_version='1.5'")).notes if "1.5" in n]
    assert "the nearest release before it" in note


@pytest.mark.parametrize(
    ("key", "version"),
    [("watermark=0.1", "0.20"), ("watermark=0.1", "0.11"),
     ("scheduler_reserve_full_isl=true", "0.12")],
)  # fmt: skip
def test_an_option_of_a_later_release_is_refused(key, version):
    said = rf"scheduler\.{key.split('=')[0]} .*vllm {version} has no such option"
    with pytest.raises(InputError, match=said):
        resolve(scenario(f"scheduler.{key}", f"cluster.engine_version='{version}'"))


def test_the_rules_reach_the_engine():
    # One prompt of 1,000 tokens, alone, capped at 100: 1 step before 0.33, or 10.
    lone = [
        "workload.lengths={distribution: fixed, prompt_tokens: 1000, output_tokens: 1}",
        "workload.num_requests=1", "scheduler.long_prefill_token_threshold=100",
        "scheduler.async_scheduling=false",
    ]  # fmt: skip
    for version, steps in (("0.33", 1), ("0.20", 10)):
        found = simulate(scenario(*lone, f"cluster.engine_version='{version}'")).summary
        assert found["num_steps"] == steps
