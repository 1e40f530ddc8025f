"""From the workload section of a scenario to the table of requests."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import stats

from simulator.errors import InputError
from simulator.scenario import WorkloadSpec
from simulator.workload import build_requests

TRACE = (
    "arrival_s,prompt_tokens,output_tokens,tier\n"
    "10,100,10,gold\n12,200,20,free\n13,300,30,gold\n20,400,40,free\n"
)
POISSON = {"process": "poisson", "rate": 8.0}
CONVERSATION = {"distribution": "azure_conv_2023"}


@pytest.fixture
def build(tmp_path):
    (tmp_path / "trace.csv").write_text(TRACE)

    def _build(*, max_model_len=4096, seed=0, replicate=0, **workload):
        return build_requests(
            WorkloadSpec.model_validate(workload),
            base_dir=tmp_path,
            max_model_len=max_model_len,
            seed=seed,
            replicate=replicate,
        )

    return _build


def same(a, b, *columns):
    return all(getattr(a, c).tolist() == getattr(b, c).tolist() for c in columns)


def test_a_trace_as_recorded(build):
    requests = build(trace={"path": "trace.csv"})
    assert requests.arrival_s.tolist() == [0, 2, 3, 10]
    assert requests.prompt_tokens.tolist() == [100, 200, 300, 400]
    assert requests.output_tokens.tolist() == [10, 20, 30, 40]
    assert requests.max_tokens.tolist() == [3996, 3896, 3796, 3696]
    assert np.isnan(requests.predicted_tokens).all()
    assert requests.class_names == ("default",)
    assert requests.ids is None
    assert requests.max_concurrency is None
    assert requests.notes == (
        "trace.csv: read as csv (own table, times in s), since it has arrival_s, prompt_tokens, "
        "output_tokens",
    )


def test_a_window_of_a_trace_replayed_faster(build):
    requests = build(
        trace={"path": "trace.csv", "skip_s": 1.0, "duration_s": 9.0, "limit": 9, "rate_scale": 2.0}
    )
    # Recorded at 2, 3 and 10 s after the first; 10 is the end and outside.
    assert requests.arrival_s.tolist() == [0.5, 1.0]
    assert requests.prompt_tokens.tolist() == [200, 300]
    assert "trace: 2 of 4 requests are in the window" in requests.notes


def test_an_empty_window_is_refused(build):
    with pytest.raises(InputError, match="has no requests"):
        build(trace={"path": "trace.csv", "skip_s": 100.0})


def test_prompts_beyond_the_model_are_left_to_the_engine(build):
    requests = build(trace={"path": "trace.csv"}, max_model_len=250)
    assert requests.prompt_tokens.tolist() == [100, 200, 300, 400]
    assert requests.max_tokens.tolist() == [150, 50, 1, 1]


def test_outputs_end_at_the_declared_max_tokens_and_this_is_said(build):
    requests = build(trace={"path": "trace.csv"}, max_tokens=25)
    assert requests.max_tokens.tolist() == [25] * 4
    assert requests.output_tokens.tolist() == [10, 20, 25, 25]
    assert any("2 of 4 outputs were longer" in note for note in requests.notes)


def test_columns_that_only_some_traces_have(build, tmp_path):
    path = tmp_path / "full.csv"
    path.write_text(
        "id,arrival_s,prompt_tokens,output_tokens,max_tokens,priority\n"
        "b,0,10,20,15,-1\na,1,10,20,,2\n"
    )
    requests = build(trace={"path": "full.csv"}, max_model_len=100)
    assert requests.ids == ("b", "a")
    assert requests.id_rank().tolist() == [1, 0]
    assert requests.priority.tolist() == [-1, 2]
    assert requests.max_tokens.tolist() == [15, 90]
    assert requests.output_tokens.tolist() == [15, 20]
    stated = build(trace={"path": "full.csv"}, max_tokens=30)
    assert stated.max_tokens.tolist() == [30, 30]
    assert stated.output_tokens.tolist() == [20, 20]
    assert any("takes the place of the trace's" in note for note in stated.notes)
    path.write_text(path.read_text().replace("\na,", "\nb,"))
    repeated = build(trace={"path": "full.csv"})
    assert repeated.ids is None
    assert any("do not name each request" in note for note in repeated.notes)


def test_classes_from_a_column(build):
    trace = {"path": "trace.csv", "class_column": "tier"}
    requests = build(trace=trace)
    assert requests.class_names == ("free", "gold")
    assert requests.class_id.tolist() == [1, 0, 1, 0]
    requests = build(trace=trace, classes=[{"name": "gold", "priority": -5}, {"name": "free"}])
    assert requests.class_names == ("gold", "free")
    assert requests.class_id.tolist() == [0, 1, 0, 1]
    assert requests.priority.tolist() == [-5, 0, -5, 0]
    with pytest.raises(InputError, match=r"has class 'free', which workload\.classes"):
        build(trace=trace, classes=[{"name": "gold"}])
    with pytest.raises(InputError, match="no column 'level'"):
        build(trace={"path": "trace.csv", "class_column": "level"})


def test_classes_by_share_have_their_lengths_and_priority(build):
    fixed = {"distribution": "fixed", "prompt_tokens": 9, "output_tokens": 3}
    requests = build(
        arrivals=POISSON,
        lengths=CONVERSATION,
        num_requests=20_000,
        classes=[
            {"name": "chat", "share": 0.75, "priority": 1},
            {"name": "ping", "share": 0.25, "lengths": fixed},
        ],
    )
    ping = requests.class_id == 1
    # Binomial, two-sided at 0.1 %.
    assert stats.binomtest(int(ping.sum()), 20_000, 0.25).pvalue > 0.001
    assert set(requests.prompt_tokens[ping].tolist()) == {9}
    assert np.unique(requests.prompt_tokens[~ping]).size > 1000
    assert set(requests.priority[ping].tolist()) == {0}
    assert set(requests.priority[~ping].tolist()) == {1}


def test_classes_with_their_own_arrivals_are_merged_by_time(build):
    def workload(rate):
        return build(
            lengths=CONVERSATION,
            duration_s=1000.0,
            classes=[
                {"name": "a", "arrivals": {"process": "constant", "rate": 1.0}},
                {"name": "b", "arrivals": {"process": "poisson", "rate": rate}},
            ],
        )

    few, many = workload(2.0), workload(5.0)
    for requests, rate in ((few, 2.0), (many, 5.0)):
        assert (np.diff(requests.arrival_s) >= 0).all()
        assert np.count_nonzero(requests.class_id == 0) == 1000
        count = np.count_nonzero(requests.class_id == 1)
        assert abs(count - rate * 1000) < 3.3 * np.sqrt(rate * 1000)
    # Class a does not notice that b sends more.
    for column in ("arrival_s", "prompt_tokens", "output_tokens"):
        before, after = (getattr(r, column)[r.class_id == 0] for r in (few, many))
        assert before.tolist() == after.tolist()


def test_num_requests_counts_all_classes_together(build):
    classes = [
        {"name": name, "arrivals": {"process": "constant", "rate": rate}}
        for name, rate in (("a", 1.0), ("b", 3.0))
    ]
    requests = build(lengths=CONVERSATION, num_requests=8, classes=classes)
    assert len(requests) == 8
    assert requests.class_id.tolist() == [0, 1, 1, 1, 0, 1, 1, 1]


def test_closed_loop_and_semaphore_give_seats(build):
    closed = build(
        arrivals={"process": "closed_loop", "concurrency": 4}, lengths=CONVERSATION, num_requests=10
    )
    assert closed.max_concurrency == 4
    assert closed.arrival_s.tolist() == [0.0] * 10
    seats = build(arrivals=POISSON, lengths=CONVERSATION, num_requests=10, max_concurrency=3)
    assert seats.max_concurrency == 3


def test_predictors(build):
    kwargs = {
        "arrivals": POISSON,
        "lengths": CONVERSATION,
        "num_requests": 20_000,
        "classes": [{"name": "a", "share": 0.5}, {"name": "b", "share": 0.5}],
    }
    plain = build(**kwargs)
    oracle = build(predictor="oracle", **kwargs)
    assert oracle.predicted_tokens.tolist() == plain.output_tokens.tolist()
    by_class = build(predictor="class_mean", **kwargs)
    for c in (0, 1):
        members = plain.class_id == c
        assert by_class.predicted_tokens[members] == pytest.approx(
            plain.output_tokens[members].mean()
        )
    noisy = build(predictor={"lognormal_error": 0.5}, **kwargs)
    error = np.log(noisy.predicted_tokens / plain.output_tokens)
    assert stats.kstest(error, stats.norm(0, 0.5).cdf).pvalue > 0.001
    assert same(noisy, plain, "arrival_s", "prompt_tokens", "output_tokens", "class_id")


def test_variants_share_their_random_numbers(build):
    kwargs = {
        "lengths": CONVERSATION,
        "classes": [{"name": "a", "share": 0.5}, {"name": "b", "share": 0.5}],
    }
    base = build(arrivals=POISSON, num_requests=1000, **kwargs)
    assert same(base, build(arrivals=POISSON, num_requests=1000, **kwargs), "arrival_s")
    faster = build(arrivals={**POISSON, "rate": 16.0}, num_requests=1000, **kwargs)
    assert same(base, faster, "prompt_tokens", "output_tokens", "class_id")
    assert (base.arrival_s / 2).tolist() == faster.arrival_s.tolist()
    bursty = build(
        arrivals={"process": "gamma", "rate": 8.0, "cv": 3.0}, num_requests=1000, **kwargs
    )
    assert same(base, bursty, "prompt_tokens", "output_tokens", "class_id")
    longer = build(arrivals=POISSON, num_requests=2000, **kwargs)
    for column in ("arrival_s", "prompt_tokens", "output_tokens", "class_id"):
        assert getattr(longer, column)[:1000].tolist() == getattr(base, column).tolist()


def test_seeds_and_replicates_are_independent(build):
    kwargs = {"arrivals": POISSON, "lengths": CONVERSATION, "num_requests": 20_000}
    runs = [build(**kwargs), build(seed=1, **kwargs), build(replicate=1, **kwargs)]
    for i, a in enumerate(runs):
        for b in runs[:i]:
            for column in ("prompt_tokens", "output_tokens"):
                r = np.corrcoef(getattr(a, column), getattr(b, column))[0, 1]
                assert abs(r) < 3.3 / np.sqrt(20_000)  # two-sided at 0.1 %
            gaps = np.corrcoef(np.diff(a.arrival_s), np.diff(b.arrival_s))[0, 1]
            assert abs(gaps) < 3.3 / np.sqrt(20_000)


def test_replicates_of_a_trace_keep_rows_gaps_and_stretches(build, tmp_path):
    n = 600  # blocks of 20
    random = np.random.default_rng(0)
    gaps = random.permutation(n) + 1.0  # each gap and prompt occurs once
    gaps[0] = 0.0
    arrival = np.cumsum(gaps)
    rows = "".join(f"{t!r},{i + 1},{i + 1}\n" for i, t in enumerate(arrival.tolist()))
    (tmp_path / "long.csv").write_text("arrival_s,prompt_tokens,output_tokens\n" + rows)
    trace = {"path": "long.csv"}
    first, second = (build(trace=trace, replicate=r) for r in (1, 2))
    assert build(trace=trace).prompt_tokens.tolist() == list(range(1, n + 1))
    assert not same(first, second, "prompt_tokens")
    assert any("replicate 1, drawn from the recording in blocks of 20" in m for m in first.notes)
    for requests in (first, second):
        row = requests.prompt_tokens - 1
        assert requests.output_tokens.tolist() == requests.prompt_tokens.tolist()
        assert np.diff(requests.arrival_s).tolist() == gaps[row][1:].tolist()
        followers = np.diff(row) == 1
        assert np.count_nonzero(~followers) <= 29
    with pytest.raises(InputError, match="4 requests are too few to draw replicates from"):
        build(trace={"path": "trace.csv"}, replicate=1)


def test_a_million_requests_in_a_second(build):
    def seconds() -> float:
        start = time.process_time()
        requests = build(arrivals=POISSON, lengths=CONVERSATION, num_requests=1_000_000)
        assert len(requests) == 1_000_000
        return time.process_time() - start

    assert min(seconds() for _ in range(3)) < 1.0
