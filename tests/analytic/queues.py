"""A scheduler reduced to a queue of the textbooks, and confidence intervals for its means."""

from __future__ import annotations

import numpy as np
from engine_cases import run
from scipy import stats

from simulator.workload.requests import Requests

AMPLE = {"max_model_len": 1 << 40, "usable_blocks": 1 << 40, "max_num_batched_tokens": 1 << 40}


def poisson(rng, rate, n):
    """Arrival times of a Poisson process."""
    return np.cumsum(rng.exponential(1 / rate, n))


def requests_of(arrival_s, prompt_tokens, output_tokens):
    """Requests with the given columns; a number stands for a whole column."""
    n = len(arrival_s)
    output = np.broadcast_to(output_tokens, n).astype(np.int64)
    return Requests(
        arrival_s=arrival_s,
        prompt_tokens=np.broadcast_to(prompt_tokens, n).astype(np.int64),
        output_tokens=output,
        max_tokens=output,
        predicted_tokens=output.astype(np.float64),
        priority=np.zeros(n, np.int64),
        class_id=np.zeros(n, np.int64),
    )


def serve(requests, policy="chunked_prefill", **options):
    """Outcome and recording of a run with one seat, unless `options` say otherwise."""
    return run(requests, policy, **({"max_num_seqs": 1} | AMPLE | options)).recording


def waits_s(recording):
    """Arrival to first scheduled, without the tenth that warms up."""
    outcome = recording.outcome
    return (outcome.admitted_s - outcome.arrival_s)[len(outcome.status) // 10 :]


def interval(samples, confidence=0.99):
    """Student's confidence interval of the mean of independent samples."""
    samples = np.asarray(samples)
    half = stats.t.ppf((1 + confidence) / 2, len(samples) - 1) * stats.sem(samples)
    return samples.mean() - half, samples.mean() + half


def assert_mean_is(expected, samples, *, within):
    """`expected` lies in the 99 % interval, which is narrower than ±`within` of it.

    Without the second condition a sloppy experiment would pass.
    """
    low, high = interval(samples)
    assert low <= expected <= high, (low, expected, high)
    assert high - low <= 2 * within * expected, (low, expected, high)
