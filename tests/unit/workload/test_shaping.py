"""Other arrivals from a recording."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import stats

from simulator.errors import InputError
from simulator.scenario import WorkloadSpec
from simulator.workload import build_requests

N = 2000
LEVEL = 1e-3


@pytest.fixture
def build(tmp_path):
    random = np.random.default_rng(5)
    arrival = np.cumsum(random.exponential(0.5, N)).round(6)
    rows = [f"{t!r},{i + 1},{i % 7 + 1}" for i, t in enumerate(arrival.tolist())]
    (tmp_path / "t.csv").write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]))
    sessions = [f"{s},{400 * s},{k},0,{s + 1},2,5" for s in range(100) for k in range(3)]
    head = "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms"
    (tmp_path / "s.csv").write_text("\n".join([head, *sessions]))
    blocks = [
        {"timestamp": 3000 * (i // 9), "input_length": 512, "output_length": 1, "hash_ids": [i % 4]}
        for i in range(90)
    ]
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in blocks))

    def _build(path="t.csv", seed=0, max_model_len=10**6, lengths=None, arrivals=None, **keys):
        workload = {name: keys.pop(name) for name in list(keys) if name.startswith(("max_", "on_"))}
        spec = WorkloadSpec.model_validate(
            {"trace": {"path": path, **keys}, "lengths": lengths, "arrivals": arrivals, **workload}
        )
        return build_requests(spec, base_dir=tmp_path, max_model_len=max_model_len, seed=seed)

    return _build


def test_thinning_keeps_each_request_with_its_probability(build):
    whole, kept, fewer = build(), build(keep_share=0.4), build(keep_share=0.2)
    assert stats.binomtest(len(kept), N, 0.4).pvalue > LEVEL
    # As they were recorded, and nested: who is among the few is among the many.
    row = kept.prompt_tokens - 1
    assert np.array_equal(kept.arrival_s, whole.arrival_s[row])
    assert set(fewer.prompt_tokens.tolist()) <= set(kept.prompt_tokens.tolist())
    # A thinned Poisson process is one.
    gaps = np.diff(kept.arrival_s)
    assert stats.kstest(gaps, stats.expon(scale=0.5 / 0.4).cdf).pvalue > LEVEL
    assert any(f"{len(kept):,} of 2,000 requests are kept at random" in n for n in kept.notes)


def test_copies_are_shifted_around_the_clock(build):
    whole, three = build(), build(copies=3)
    assert len(three) == 3 * N
    period = whole.arrival_s[-1] * N / (N - 1)
    assert three.arrival_s.max() < period
    shifts = []
    for row in range(1, 4):  # each request has its three moments, equally shifted
        moments = three.arrival_s[three.prompt_tokens == row]
        shifts.append(sorted(((moments - whole.arrival_s[row - 1]) % period).tolist()))
    assert shifts[1] == pytest.approx(shifts[0]) == shifts[2]
    assert min(shifts[0][0], period - shifts[0][-1]) < 1e-6  # one is not shifted
    gaps = np.diff(three.arrival_s)
    assert stats.kstest(gaps, stats.expon(scale=0.5 / 3).cdf).pvalue > LEVEL


def test_copies_share_prefixes_within_themselves_only(build):
    requests = build("m.jsonl", copies=2)
    assert len(requests) == 180
    assert sorted(np.bincount(requests.segments[:, 0]).tolist()) == [22] * 4 + [23] * 4


def test_jitter_spreads_arrivals_over_their_bin(build):
    binned, spread = build("m.jsonl"), build("m.jsonl", jitter_s=3.0)
    assert len(np.unique(binned.arrival_s)) == 10
    assert len(np.unique(spread.arrival_s)) == 90
    inside = spread.arrival_s - np.sort(np.repeat(np.arange(10) * 3.0, 9))
    assert inside.min() >= 0
    assert inside.max() < 3
    assert stats.kstest(inside / 3, "uniform").pvalue > LEVEL


def test_sessions_are_shaped_as_a_whole(build):
    for keys in ({"keep_share": 0.5}, {"copies": 3}, {"jitter_s": 5.0}):
        requests = build("s.csv", **keys)
        assert len(requests) % 3 == 0
        turns = requests.prompt_tokens.reshape(-1, 3)
        assert (turns == turns[:, :1]).all()
        assert np.array_equal(np.flatnonzero(requests.next_request < 0) % 3, [2] * len(turns))


def test_the_requests_of_a_trace_at_other_times(build):
    poisson = {"process": "poisson", "rate": 4.0}
    whole, other = build(), build(arrivals=poisson)
    assert np.array_equal(other.prompt_tokens, whole.prompt_tokens)
    assert stats.kstest(np.diff(other.arrival_s), stats.expon(scale=0.25).cdf).pvalue > LEVEL
    sessions = build("s.csv", arrivals=poisson)
    assert len(np.unique(sessions.arrival_s)) == 100
    clients = build("s.csv", arrivals={"process": "closed_loop", "concurrency": 4})
    assert clients.max_concurrency == 4
    assert not clients.arrival_s.any()


def test_the_arrivals_of_one_trace_with_the_lengths_of_another(build):
    other = build(lengths={"distribution": "empirical", "file": "s.csv"})
    assert np.array_equal(other.arrival_s, build().arrival_s)
    assert set(other.prompt_tokens.tolist()) == set(range(1, 101))
    fixed = {"distribution": "fixed", "prompt_tokens": 1, "output_tokens": 1}
    for path, what in (("s.csv", "sessions"), ("m.jsonl", "block ids")):
        with pytest.raises(InputError, match=f"has {what}, which other lengths"):
            build(path, lengths=fixed)


def test_nothing_of_the_trace_may_be_left(build):
    fixed = {"distribution": "fixed", "prompt_tokens": 1, "output_tokens": 1}
    with pytest.raises(ValidationError, match="nothing of the trace would be left"):
        build(lengths=fixed, arrivals={"process": "burst"})
    with pytest.raises(ValidationError, match="rate_scale is 2, but workload.arrivals take"):
        build(arrivals={"process": "burst"}, rate_scale=2.0)


def test_lengths_are_cut_only_if_asked_and_this_is_said(build):
    whole = build()
    capped = build(max_prompt_tokens=1500, max_output_tokens=5)
    assert np.array_equal(capped.prompt_tokens, np.minimum(whole.prompt_tokens, 1500))
    assert np.array_equal(capped.output_tokens, np.minimum(whole.output_tokens, 5))
    notes = "\n".join(capped.notes)
    assert "500 of 2,000 prompts are cut to workload.max_prompt_tokens" in notes
    assert "outputs are cut to workload.max_output_tokens" in notes
    kept = build(max_model_len=1000)
    assert np.array_equal(kept.prompt_tokens, whole.prompt_tokens)
    fits = build(max_model_len=1000, on_too_long="truncate")
    assert np.array_equal(fits.output_tokens, whole.output_tokens)
    assert (fits.prompt_tokens + fits.output_tokens).max() == 1000
    untouched = whole.prompt_tokens + whole.output_tokens <= 1000
    assert np.array_equal(fits.prompt_tokens[untouched], whole.prompt_tokens[untouched])
    cut = N - np.count_nonzero(untouched)
    assert any(f"{cut:,} of 2,000 prompts are cut to what fits" in note for note in fits.notes)


def test_shaping_shares_random_numbers(build):
    assert np.array_equal(
        build(keep_share=0.4).prompt_tokens, build(keep_share=0.4, rate_scale=2.0).prompt_tokens
    )
    assert not np.array_equal(
        build(keep_share=0.4).prompt_tokens, build(keep_share=0.4, seed=1).prompt_tokens
    )
