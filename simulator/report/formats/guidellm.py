"""The console tables of guidellm, with guidellm's definitions.

Source: schemas/request_stats.py, schemas/statistics.py, benchmark/schemas/generative and the
console output of github.com/vllm-project/guidellm.  They differ from vLLM's in this:

- ITL: per request (last token - first token) / (tokens - 1), what vLLM calls TPOT; a request
  weighs as much as it has gaps;
- TPOT: per request (last token - start) / tokens, first token included; weighed by tokens;
- percentiles, and so medians, are the smallest value that reaches the share, not interpolated;
- concurrency and request rate are over all requests, whether they completed or not;
- tokens per second are over the time from the first such event to the last: prompts count
  when their first token comes, so that their rate leaves out the first wait.

(Events less than 0.1 ms apart, which guidellm merges, are kept apart here.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.latency import Floats, Population, e2el_s, population, tpot_s, ttft_s
from simulator.metrics.quantiles import weighted_sum
from simulator.recording import FINISHED, Recording
from simulator.report.formats.ascii_table import Column, ascii_table

if TYPE_CHECKING:
    from simulator.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Distribution:
    """A weighted sample; statistics of an empty one are NaN."""

    values: Floats
    weights: Floats

    @property
    def mean(self) -> float:
        """The weighted mean."""
        total = self.weights.sum()
        return weighted_sum(self.values, self.weights) / total if total > 0 else float("nan")

    def quantile(self, q: float) -> float:
        """The smallest value with at least the share `q` of the weight at or below it."""
        held = self.weights > 0
        if not held.any():
            return float("nan")
        values, weights = self.values[held], self.weights[held]
        order = np.argsort(values)
        reached = np.cumsum(weights[order])
        # A sum of weights that only just misses the share for rounding has reached it.
        at = np.searchsorted(reached, q * reached[-1] * (1 - 1e-12))
        return float(values[order[at]])


def equal(values: NDArray[np.generic]) -> Distribution:
    """A sample in which every value weighs the same."""
    return Distribution(values.astype(np.float64), np.ones(len(values)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidellmFigures:
    """guidellm's metrics of one run; latencies of completed requests, rates of all."""

    latency_s: Distribution
    ttft_ms: Distribution
    itl_ms: Distribution
    tpot_ms: Distribution
    input_tokens: Distribution
    output_tokens: Distribution
    total_tokens: Distribution
    concurrency: Distribution
    requests_per_s: float
    input_tokens_per_s: float
    output_tokens_per_s: float
    total_tokens_per_s: float
    duration_s: float


def guidellm_figures(recording: Recording, scenario: Scenario) -> GuidellmFigures:
    """Compute guidellm's metrics from a recording."""
    who = population(recording, scenario.cut_s)
    outcome, done = recording.outcome, who.completed
    tokens = outcome.generated_tokens[done].astype(np.float64)
    prompts = recording.requests.prompt_tokens[done].astype(np.float64)
    latency_s = e2el_s(outcome)[done]
    whole = scenario.scheduler.policy == "static" and not scenario.scheduler.static.stream
    streamed = 0.0 if whole else 1.0  # no token has a time of its own in a whole answer
    start_s, end_s = _lifetimes(recording, who)
    duration_s = float(end_s.max() - start_s.min()) if len(start_s) else 0.0
    seen = who.counted & ~np.isnan(outcome.first_token_s)
    first_s = outcome.first_token_s[seen]
    last_s = np.where(np.isnan(outcome.finished_s), recording.end_s, outcome.finished_s)[seen]
    read = float(recording.requests.prompt_tokens[seen].sum())
    written = float(outcome.generated_tokens[seen].sum())
    reading_s = float(np.ptp(first_s)) if seen.any() else 0.0
    writing_s = float(last_s.max() - first_s.min()) if seen.any() else 0.0
    return GuidellmFigures(
        latency_s=equal(latency_s),
        ttft_ms=Distribution(ttft_s(outcome)[done] * 1e3, np.full(len(tokens), streamed)),
        itl_ms=Distribution(np.nan_to_num(tpot_s(outcome)[done]) * 1e3, (tokens - 1) * streamed),
        tpot_ms=Distribution(latency_s / np.maximum(tokens, 1) * 1e3, tokens),
        input_tokens=equal(prompts),
        output_tokens=equal(tokens),
        total_tokens=equal(prompts + tokens),
        concurrency=_concurrency(start_s, end_s),
        requests_per_s=_rate(len(end_s), duration_s),
        input_tokens_per_s=_rate(read, reading_s),
        output_tokens_per_s=_rate(written, writing_s),
        total_tokens_per_s=_rate(read + written, writing_s),
        duration_s=duration_s,
    )


def _lifetimes(recording: Recording, who: Population) -> tuple[Floats, Floats]:
    """Start and end of every counted request; a rejected one ends as it arrives."""
    outcome = recording.outcome
    rows = who.counted & ~np.isnan(outcome.arrival_s)
    arrival = outcome.arrival_s[rows]
    status, finished = outcome.status[rows], outcome.finished_s[rows]
    open_until = np.where(outcome.reject_reason[rows] > 0, arrival, recording.end_s)
    return arrival, np.where(status == FINISHED, finished, open_until)


def _concurrency(start_s: Floats, end_s: Floats) -> Distribution:
    """Requests in flight, weighed by how long that many were."""
    times = np.concatenate((start_s, end_s))
    change = np.concatenate((np.ones(len(start_s)), -np.ones(len(end_s))))
    moments, where = np.unique(times, return_inverse=True)
    level = np.cumsum(np.bincount(where, weights=change, minlength=len(moments)))
    return Distribution(level[:-1].astype(np.float64), np.diff(moments))


def _rate(part: float, whole_s: float) -> float:
    return part / whole_s if whole_s > 0 else float("nan")


def guidellm_block(recording: Recording, scenario: Scenario) -> str:
    """The tables as text."""
    figures = guidellm_figures(recording, scenario)
    arrivals = scenario.workload.arrivals
    load = "trace" if scenario.workload.trace else arrivals.process if arrivals else "classes"
    strategy = Column(("Benchmark", "Strategy", ""), load)
    tables = [
        (
            "Run Summary Info",
            [
                Column(("Timings", "Dur", "Sec"), figures.duration_s),
                Column(("Input Tokens", "Comp", "Tot"), float(figures.input_tokens.values.sum())),
                Column(("Output Tokens", "Comp", "Tot"), float(figures.output_tokens.values.sum())),
            ],
        ),
        (
            "Request Token Statistics (Completed Requests)",
            [
                *_pair("Input Tok", "Per Req", figures.input_tokens),
                *_pair("Output Tok", "Per Req", figures.output_tokens),
                *_pair("Total Tok", "Per Req", figures.total_tokens),
            ],
        ),
        (
            "Request Latency Statistics (Completed Requests)",
            [
                *_pair("Request Latency", "Sec", figures.latency_s),
                *_pair("TTFT", "ms", figures.ttft_ms),
                *_pair("ITL", "ms", figures.itl_ms),
                *_pair("TPOT", "ms", figures.tpot_ms),
            ],
        ),
        (
            "Server Throughput Statistics (All Requests)",
            [
                Column(("Requests", "Concurrency", "Mdn"), figures.concurrency.quantile(0.5)),
                Column(("Requests", "Concurrency", "Mean"), figures.concurrency.mean),
                Column(("Requests", "Per Sec", "Mean"), figures.requests_per_s),
                Column(("Input Tokens", "Per Sec", "Mean"), figures.input_tokens_per_s),
                Column(("Output Tokens", "Per Sec", "Mean"), figures.output_tokens_per_s),
                Column(("Total Tokens", "Per Sec", "Mean"), figures.total_tokens_per_s),
            ],
        ),
    ]
    return "\n\n".join(
        f"{title}, as guidellm defines them\n{ascii_table([strategy, *columns])}"
        for title, columns in tables
    )


def _pair(group: str, name: str, sample: Distribution) -> list[Column]:
    return [
        Column((group, name, "Mdn"), sample.quantile(0.5)),
        Column((group, name, "p95"), sample.quantile(0.95)),
    ]
