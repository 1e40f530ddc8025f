"""Sessions drawn at random."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from simulator import Scenario, simulate
from simulator.errors import InputError
from simulator.report.benchmark import benchmark_block
from simulator.scenario import WorkloadSpec
from simulator.workload import build_requests, content
from simulator.workload.content import output_tag, own_tag

FIXED = {"distribution": "fixed", "prompt_tokens": 30, "output_tokens": 10}
TABLE = {"distribution": "azure_conv_2023"}


def made(seed=0, max_model_len=100_000, **workload):
    base = {"arrivals": {"process": "poisson", "rate": 2.0}, "lengths": TABLE}
    spec = WorkloadSpec.model_validate({**base, **workload})
    return build_requests(spec, base_dir=".", max_model_len=max_model_len, seed=seed)


def turns_of(requests):
    first = np.flatnonzero(requests.previous_request() < 0)
    return np.diff(first, append=len(requests))


def test_prompts_repeat_what_was_said():
    sessions = {"mean_turns": 3, "turns": "fixed", "think_time_s": 5.0, "think_cv": 0}
    requests = made(lengths=FIXED, sessions=sessions, num_requests=6, shared_prefix_tokens=20)
    assert requests.prompt_tokens.tolist() == [30, 70, 110] * 2
    assert requests.next_request.tolist() == [1, 2, -1, 4, 5, -1]
    assert requests.think_s.tolist() == [5.0, 5.0, 0.0] * 2
    assert requests.arrival_s[0] == requests.arrival_s[2] < requests.arrival_s[3]
    ends = requests.segment_offsets
    assert requests.segments[ends[2] : ends[3]].tolist() == [
        [0, 20], [own_tag(0), 10], [output_tag(0), 10], [own_tag(1), 30], [output_tag(1), 10]
    ]  # fmt: skip


def test_turns_and_think_times_have_their_distributions():
    sessions = {"mean_turns": 4, "think_time_s": 7.0, "think_cv": 2.0}
    requests = made(lengths=FIXED, sessions=sessions, num_requests=40_000)
    turns = turns_of(requests)[:-1]  # the last one is cut by num_requests
    # Geometric: at a significance of 1e-3.
    counts = np.bincount(np.minimum(turns, 12), minlength=13)[1:]
    chance = np.append(stats.geom.pmf(np.arange(1, 12), 1 / 4), stats.geom.sf(11, 1 / 4))
    assert stats.chisquare(counts, chance * len(turns)).pvalue > 1e-3
    think_s = requests.think_s[requests.next_request >= 0]
    assert stats.kstest(think_s, stats.gamma(0.25, scale=28).cdf).pvalue > 1e-3
    starts = requests.arrival_s[requests.previous_request() < 0]
    assert stats.kstest(np.diff(starts), stats.expon(scale=0.5).cdf).pvalue > 1e-3


def test_sessions_end_before_the_context_is_full():
    sessions = {"mean_turns": 5, "turns": "fixed"}
    requests = made(lengths=FIXED, sessions=sessions, num_requests=30, max_model_len=130)
    # Turns: 30 + 10, 70 + 10, 110 + 10, then 150.
    assert requests.prompt_tokens.tolist() == [30, 70, 110] * 10
    assert any("100.0% end earlier" in note for note in requests.notes)
    capped = made(
        lengths=FIXED, sessions={**sessions, "max_context_tokens": 80}, num_requests=4
    )  # fmt: skip
    assert capped.prompt_tokens.tolist() == [30, 70] * 2


def test_outputs_that_end_at_max_tokens_are_repeated_so():
    sessions = {"mean_turns": 2, "turns": "fixed"}
    requests = made(lengths=FIXED, sessions=sessions, num_requests=2, max_tokens=4)
    assert requests.prompt_tokens.tolist() == [30, 64]
    assert requests.output_tokens.tolist() == [4, 4]


def test_variants_share_turns_lengths_and_think_times():
    sessions = {"mean_turns": 4, "think_time_s": 7.0}
    one = made(sessions=sessions, num_requests=500)
    fast = made(sessions=sessions, num_requests=500, arrivals={"process": "poisson", "rate": 20.0})
    more = made(sessions=sessions, num_requests=900)
    lazy = made(sessions={**sessions, "think_time_s": 14.0}, num_requests=500)
    for other in (fast, more, lazy):
        assert np.array_equal(one.prompt_tokens, other.prompt_tokens[:500])
        assert np.array_equal(one.output_tokens, other.output_tokens[:500])
        assert np.array_equal(one.next_request[:-1], other.next_request[: 500 - 1])
    assert fast.arrival_s * 10 == pytest.approx(one.arrival_s)
    assert np.array_equal(lazy.think_s, 2 * one.think_s)


def test_classes_and_clients_go_by_session():
    classes = [{"name": "a", "share": 0.5, "priority": 1}, {"name": "b", "share": 0.5}]
    requests = made(
        arrivals={"process": "closed_loop", "concurrency": 3, "think_time_s": 2.0, "ramp_s": 9.0},
        sessions={"mean_turns": 3}, num_requests=300, classes=classes,
    )  # fmt: skip
    followers = np.flatnonzero(requests.next_request >= 0)
    assert (requests.class_id[followers] == requests.class_id[followers + 1]).all()
    assert set(requests.class_id.tolist()) == {0, 1}
    assert requests.max_concurrency == 3
    assert requests.seating == (2.0, 9.0, True)


def test_classes_with_arrivals_of_their_own():
    classes = [
        {"name": name, "arrivals": {"process": "poisson", "rate": 1.0}} for name in ("a", "b")
    ]
    requests = made(arrivals=None, sessions={"mean_turns": 3}, num_requests=300, classes=classes)
    assert len(requests) == 300
    followers = np.flatnonzero(requests.next_request >= 0)
    assert (requests.class_id[followers] == requests.class_id[followers + 1]).all()
    assert (requests.prompt_tokens[followers] < requests.prompt_tokens[followers + 1]).all()


def test_pieces_are_the_same_however_they_are_found():
    sessions = {"mean_turns": 4}
    requests = made(sessions=sessions, num_requests=400, shared_prefix_tokens=150)
    turn = np.zeros(len(requests), np.int64)
    for row in np.flatnonzero(requests.previous_request() >= 0):
        turn[row] = turn[row - 1] + 1
    n = len(requests)
    slow = content._part_of_it(
        np.full(n, 150), np.zeros(n, np.int64), requests.prompt_tokens, requests.output_tokens,
        np.full(n, content.WHOLE_HISTORY), turn,
    )  # fmt: skip
    assert np.array_equal(slow[0], requests.segments)
    assert np.array_equal(slow[1], requests.segment_offsets)


def test_prompts_that_are_cut_repeat_what_is_left():
    sessions = {"mean_turns": 3, "turns": "fixed"}
    requests = made(lengths=FIXED, sessions=sessions, num_requests=3, max_prompt_tokens=60)
    assert requests.prompt_tokens.tolist() == [30, 60, 60]
    ends = requests.segment_offsets
    last = requests.segments[ends[2] : ends[3]].tolist()
    assert last == [[own_tag(0), 30], [output_tag(0), 10], [own_tag(1), 20]]


def test_a_rate_of_sessions_is_called_one():
    base = {
        "workload": {
            "arrivals": {"process": "poisson", "rate": 2.0}, "lengths": FIXED, "num_requests": 30,
        },
        "model": "llama-3.1-8b",
        "cost_model": {"kind": "linear", "t_mem_s": 0.001, "t_flop_s_per_token": 1e-7},
    }  # fmt: skip
    alone = simulate(Scenario.from_mapping(base)).summary
    sessions = {**base["workload"], "sessions": {"mean_turns": 3, "turns": "fixed"}}
    together = simulate(Scenario.from_mapping({**base, "workload": sessions})).summary
    assert (alone["request_rate"], alone["session_rate"]) == (2.0, None)
    assert (together["request_rate"], together["session_rate"]) == (None, 2.0)
    assert "Session starts configured (1/s):         2.00" in benchmark_block(together)


SESSIONS = {
    "about": "by hand", "probability": [0, 0.5, 1], "turns": [2, 2, 4], "think_s": [1, 1, 3],
    "first_prompt_tokens": [500, 700, 900],
}  # fmt: skip


def drawn_from(tmp_path, table, n=3000):
    (tmp_path / "s.json").write_text(json.dumps(table))
    workload = {
        "arrivals": {"process": "poisson", "rate": 2.0}, "lengths": FIXED, "num_requests": n,
        "sessions": {"file": "s.json"},
    }  # fmt: skip
    spec = WorkloadSpec.model_validate(workload)
    return build_requests(spec, base_dir=tmp_path, max_model_len=10**6, seed=0)


def test_sessions_by_a_table(tmp_path):
    requests = drawn_from(tmp_path, SESSIONS)
    turns = turns_of(requests)[:-1]
    # Half of the sessions have 2 turns; of the rest, evenly from 2 to 4, a quarter each rounds
    # to 2 and 4 and half to 3: 5/8, 2/8, 1/8.
    shares = [np.mean(turns == k) for k in (2, 3, 4)]
    assert shares == pytest.approx([5 / 8, 2 / 8, 1 / 8], abs=4 * 0.5 / len(turns) ** 0.5)
    first = requests.previous_request() < 0
    assert np.median(requests.prompt_tokens[first]) == pytest.approx(700, abs=15)
    second = requests.next_request[np.flatnonzero(first)[0]]
    assert requests.prompt_tokens[second] == requests.prompt_tokens[0] + 10 + 30
    think_s = requests.think_s[requests.next_request >= 0]
    assert think_s.mean() == pytest.approx(1.5, abs=0.05)  # half at 1, half evenly from 1 to 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"turns": [2, 1, 4]}, "turns needs 3 numbers that do not go down"),
        ({"turns": [0, 1, 4]}, "turns must be from 1 to"),
        ({"think_s": [1, 2]}, "think_s needs 3 numbers"),
        ({"probability": [0, 0.5, 0.9]}, "probability must go up from 0 to 1"),
        ({"first_prompt_tokens": "x"}, "no table of sessions can be read"),
    ],
)
def test_bad_tables_of_sessions(tmp_path, change, said):
    with pytest.raises(InputError, match=said):
        drawn_from(tmp_path, {**SESSIONS, **change})


@pytest.mark.parametrize(
    ("sessions", "said"),
    [
        ({}, "needs mean_turns or a file"),
        ({"file": "x", "mean_turns": 2.0}, "needs mean_turns or a file"),
        ({"file": "x", "think_time_s": 2.0}, "remove turns and think_time_s"),
    ],
)
def test_sessions_are_told_one_way(sessions, said):
    with pytest.raises(ValueError, match=said):
        made(sessions=sessions)
