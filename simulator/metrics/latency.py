"""What a request experienced, and which requests a figure is about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.recording import FINISHED, REJECTED, UNFINISHED, Outcome, Recording

Floats = NDArray[np.float64]
Rows = NDArray[np.bool_]


def ttft_s(outcome: Outcome) -> Floats:
    """Time to first token, from the arrival; (n,) seconds, NaN without a token."""
    return outcome.first_token_s - outcome.arrival_s


def e2el_s(outcome: Outcome) -> Floats:
    """End-to-end latency, arrival to last token; (n,) seconds, NaN where unfinished."""
    return outcome.finished_s - outcome.arrival_s


def queue_s(outcome: Outcome) -> Floats:
    """Arrival to the start of the first step; (n,) seconds, NaN where never scheduled."""
    return outcome.admitted_s - outcome.arrival_s


def tpot_s(outcome: Outcome) -> Floats:
    """Time per output token after the first; (n,) seconds, NaN for a one-token request.

    (E2EL - TTFT) / (tokens - 1), which is how ``vllm bench serve`` takes it.
    """
    gaps = outcome.generated_tokens - 1.0
    gaps[gaps <= 0] = np.nan
    return (outcome.finished_s - outcome.first_token_s) / gaps


def normalised_s(outcome: Outcome) -> Floats:
    """End-to-end latency per output token; (n,) seconds."""
    return e2el_s(outcome) / np.where(
        outcome.generated_tokens > 0, outcome.generated_tokens, np.nan
    )


@dataclass(frozen=True, eq=False, slots=True)
class Population:
    """The requests and the stretch of time that the figures are about.

    Attributes
    ----------
    counted : (n,) bool, requests that arrived at or after the warm-up cut
    completed : (n,) bool, those of them that finished
    start_s : first counted arrival, or the end of the warm-up
    duration_s : `start_s` to the last completion, the benchmark duration
    observed_s : `start_s` to the last completion, or to the end of the run where a
        request was left unfinished: what the replicas' time is measured against
    warmup_requests : how many arrived before the cut
    """

    counted: Rows
    completed: Rows
    start_s: float
    duration_s: float
    observed_s: float
    warmup_requests: int

    @property
    def end_s(self) -> float:
        """End of the observed time."""
        return self.start_s + self.observed_s


def population(recording: Recording, warmup_s: float = 0.0) -> Population:
    """Cut the warm-up: drop requests that arrived before `warmup_s`.

    A cut request is in no percentile, count or throughput; a step that started before
    the cut is in no time-weighted figure.
    """
    outcome = recording.outcome
    arrival = outcome.arrival_s
    # A request that a client still held back when the run ended never arrived; it counts
    # as unfinished, at the time its source meant to send it.
    sent = np.where(np.isnan(arrival), recording.requests.arrival_s, arrival)
    # What arrives after the clock has stopped is not part of the run.
    unsent = (outcome.status == UNFINISHED) & (outcome.replica < 0)
    never = unsent & (recording.requests.arrival_s >= recording.end_s)
    early = (sent < warmup_s) & ~never
    counted = ~early & ~never
    completed = counted & (outcome.status == FINISHED)
    first = float(sent[counted].min()) if counted.any() else warmup_s
    start = max(first, warmup_s) if warmup_s > 0 else first
    last = float(outcome.finished_s[completed].max()) if completed.any() else recording.end_s
    open_ended = bool((outcome.status[counted] == UNFINISHED).any())
    end = max(recording.end_s, last) if open_ended else last
    duration_s, observed_s = max(last - start, 0.0), max(end - start, 0.0)
    return Population(counted, completed, start, duration_s, observed_s, int(early.sum()))


def counts(recording: Recording, rows: Rows) -> dict[str, int]:
    """How the requests in `rows` ended: completed, rejected, unfinished."""
    status = recording.outcome.status[rows]
    return {
        "completed": int((status == FINISHED).sum()),
        "rejected": int((status == REJECTED).sum()),
        "unfinished": int((status == UNFINISHED).sum()),
    }
