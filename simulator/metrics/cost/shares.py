"""Which class caused how much of the bill: by the time of the steps that its tokens took.

A step is shared by many, so its time is divided by what drives it, each part among those who
are in it at the time: prompts' time by prompt tokens, that of decoding by the tokens that
come out, that of reading the KV cache by the context read.  A token of a full batch is
therefore cheap, and one of a nearly empty engine dear.  Idle time is divided like the rest, so
that the shares add up to the bill.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.cost.step_time import StepTime
from simulator.metrics.latency import Population
from simulator.metrics.steps import in_window
from simulator.recording import Recording

Floats = NDArray[np.float64]
PURPOSES = 3  # prompts, output tokens, context; see `StepTime.by_purpose`


def class_shares(
    recording: Recording, time: StepTime, who: Population, first_decode: int = 1
) -> Floats:
    """(classes,) shares of the bill, which add up to 1; NaN where nobody finished.

    Only requests that finished count: they pay for those that did not, too.

    Parameters
    ----------
    first_decode : the first output token that a decode brings: 1, after that of the prompt's
        step; 0 where prompts are computed elsewhere and all tokens are decoded.
    """
    classes = len(recording.requests.class_names)
    caused = np.zeros((PURPOSES, classes))
    for r in range(recording.replicas):
        rows = np.flatnonzero(who.completed & (recording.outcome.replica == r))
        seconds = _seconds_of(recording, time, r, rows, first_decode)
        for purpose in range(PURPOSES):
            caused[purpose] += np.bincount(
                recording.requests.class_id[rows], weights=seconds[purpose], minlength=classes
            )
    spent = time.by_purpose()[:, in_window(recording.steps, who)].sum(axis=1)
    known = caused.sum(axis=1) > 0
    if not known.any():
        return np.full(classes, np.nan)
    parts = caused[known] / caused[known].sum(axis=1, keepdims=True)
    shares = (parts * spent[known, None]).sum(axis=0)
    return np.asarray(shares / shares.sum())


def _seconds_of(
    recording: Recording,
    time: StepTime,
    replica: int,
    rows: NDArray[np.int64],
    first_decode: int,
) -> Floats:
    """(3, len(rows)) seconds that each request took of its replica, by purpose.

    Of a prompt, its tokens times what one cost on average while it was computed.  Of output
    tokens and their context, its part of each step between its first token and its last:
    exact where it decodes in all of them, the mean over them where it was preempted.
    """
    steps, outcome = recording.steps, recording.outcome
    own = slice(*np.searchsorted(steps.replica, (replica, replica + 1)))
    prompts_s, decoding_s, context_s = time.by_purpose()[:, own]
    begin = np.searchsorted(steps.start_s[own], outcome.admitted_s[rows], "left")
    first = np.searchsorted(steps.end_s[own], outcome.first_token_s[rows], "right")
    last = np.searchsorted(steps.end_s[own], outcome.finished_s[rows], "right")
    # Where results come back whole, the first token is there with the last; one from another
    # pool is there before the first step here.
    behind = (first < last) & (first_decode > 0)
    from_step = np.where(behind, np.maximum(first, begin), begin)
    prompt, generated = recording.requests.prompt_tokens[rows], outcome.generated_tokens[rows]
    decodes = generated - first_decode
    # Tokens of context over all its decodes, the last of which reads all but itself.
    read = decodes * (prompt + generated - (decodes + 1) / 2)
    each_s = [
        _mean(prompts_s, steps.prefill_tokens[own], begin, first),
        _mean(*_shared(decoding_s, steps.decode_seqs[own]), from_step, last),
        _mean(*_shared(context_s, steps.context_tokens[own]), from_step, last),
    ]
    return np.stack((prompt - outcome.cached_tokens[rows], decodes, read)) * np.stack(each_s)


def _shared(seconds: Floats, units: NDArray[Any]) -> tuple[Floats, NDArray[np.bool_]]:
    """(k,) seconds per unit of each step, and whether it has any."""
    some = units > 0
    return np.divide(seconds, units, out=np.zeros(len(seconds)), where=some), some


def _mean(
    amount: Floats, weight: NDArray[Any], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> Floats:
    """Σ amount / Σ weight over the steps from `begin` up to `end`, from running sums."""
    sums = np.concatenate((np.zeros((2, 1)), np.cumsum((amount, weight), axis=1)), axis=1)
    above, below = sums[:, end] - sums[:, begin]
    mean = np.divide(above, below, out=np.zeros(len(begin)), where=below > 0)
    return np.asarray(np.maximum(mean, 0.0))  # differences of sums: rounding may leave -1e-16
