"""Where each request's latency went, to the last part of it.

Every step's time is split into what its prefills add, what its decodes take alone and the
engine's own time.  Summed up over a replica's steps these are clocks; a request's share is
the difference of their readings at its first step, its first token and its last.  No event
is looked at again, so that a million requests take a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cost_models.jit import njit
from cost_models.kernel import CostTables, step_time
from cost_models.step_cost import Frontend
from simulator.metrics.handover import attribute_pools
from simulator.metrics.latency import Rows
from simulator.metrics.leases import covered_s, starting
from simulator.recording import FINISHED, Recording, Steps

if TYPE_CHECKING:
    from simulator.scenario import Resolved

Floats = NDArray[np.float64]

PARTS = {
    "queue": "waiting for a seat or for KV blocks, before the first step",
    "cold_start": "the part of that wait in which a replica was ordered and not ready yet",
    "prefill": "its own prompt being computed",
    "interference": "prompts of others computed in the same steps",
    "decode_weights": "decode steps as they are without context: reading the weights",
    "decode_kv": "what the context of all who decode adds to these steps: reading the KV cache",
    "preemption": "without its KV blocks: from the loss to its next token",
    "transfer": "its KV cache on the way from the prefill to the decode replica, or waiting for it",
    "host": "the engine's own code, the API server, and time between steps",
}
TITLES = {
    "queue": "Queue",
    "cold_start": "Cold start",
    "prefill": "Own prompt",
    "interference": "Prompts of others",
    "decode_weights": "Decode, weights",
    "decode_kv": "Decode, KV cache",
    "preemption": "Preempted",
    "transfer": "KV transfer",
    "host": "Host",
}
QUEUE, COLD_START, PREFILL, INTERFERENCE, WEIGHTS, KV, PREEMPTION, TRANSFER, HOST = range(
    len(PARTS)
)

# Clocks of a replica; the last counts prefill tokens instead of seconds.
_PREFILL, _WEIGHTS, _KV, _TOKENS = range(4)


@dataclass(frozen=True, eq=False, slots=True)
class Attribution:
    """Seconds of each request by what they went to, in the order of `PARTS`.

    Attributes
    ----------
    ttft_s : (n, parts) parts of the time to first token; they add up to it.
    decode_s : (n, parts) parts of the time from the first token to the last.

    Rows of requests that did not finish are NaN.
    """

    ttft_s: Floats
    decode_s: Floats

    @property
    def e2el_s(self) -> Floats:
        """(n, parts) parts of the end-to-end latency."""
        return self.ttft_s + self.decode_s


def attribute(recording: Recording, resolved: Resolved) -> Attribution:
    """Split the latency of every finished request.

    - ``queue``: arrival to the first step, less the API server's time for the request.  Of
      it, ``cold_start`` is the time in which some replica had been ordered and was not ready
      yet: as long as that lasts, the fleet is smaller than the autoscaler has found it should
      be.
    - Of a step's GPU time, ``decode_weights`` is what its decodes would take alone at a
      context of one token, ``decode_kv`` what their contexts add to that, and the rest is
      its prefills': the time of the step less that of the same step without prefills.
    - Until its first token, a request's own share of that rest is ``prefill``, by its tokens
      among all that are prefilled in the meantime; what is others' is ``interference``.
      After its first token all of it is.
    - ``preemption``: each stretch from the loss of its KV blocks to its next token.
    - ``transfer``: see `simulator.metrics.handover`.
    - ``host``: what is left: the engine's own time in these steps, and any between them.
    """
    if recording.handovers is not None:
        return attribute_pools(recording, recording.handovers, resolved, attribute)
    outcome = recording.outcome
    done = np.flatnonzero(outcome.status == FINISHED)
    n = len(outcome.status)
    result = Attribution(np.full((n, len(PARTS)), np.nan), np.full((n, len(PARTS)), np.nan))
    clocks = _clocks(recording, resolved)
    losses = recording.losses
    for r in range(recording.replicas):
        rows = done[outcome.replica[done] == r]
        mine = np.isin(losses.request, rows) if len(losses.request) else slice(0, 0)
        lost = _Lost(
            np.searchsorted(rows, losses.request[mine]), losses.from_s[mine], losses.until_s[mine]
        )
        _attribute_replica(result, recording, clocks[r], rows, lost, resolved.cost.frontend)
    return result


@dataclass(frozen=True, eq=False, slots=True)
class _Clock:
    """Readings of a replica's clocks before each of its steps, and after the last."""

    start_s: Floats  # (k,)
    end_s: Floats  # (k,)
    readings: Floats  # (k + 1, 4)

    def at(self, time_s: Floats) -> Floats:
        """(m, 4) readings; within a step they run evenly, between steps they stand."""
        if not len(self.end_s):
            return np.zeros((len(time_s), 4))
        # The step that ends then or next.
        step = np.minimum(np.searchsorted(self.end_s, time_s), len(self.end_s) - 1)
        start = self.start_s[step]
        length = self.end_s[step] - start
        part: Floats = np.divide(time_s - start, length, out=np.zeros(len(start)), where=length > 0)
        part = np.clip(part, 0.0, 1.0)[:, None]
        low, high = self.readings[step], self.readings[step + 1]
        found: Floats = np.where(part == 1.0, high, low + part * (high - low))
        return found


@dataclass(frozen=True, eq=False, slots=True)
class _Lost:
    """Stretches without KV blocks, of the requests of one replica."""

    row: NDArray[np.int64]
    from_s: Floats
    until_s: Floats


def decodes_alone_s(steps: Steps, resolved: Resolved) -> Floats:
    """(k, 2) seconds on the GPU of each step's decodes: without context, and what that adds."""
    seats = resolved.max_num_seqs
    alone_s = np.zeros((len(steps.gpu_s), 2))
    _price_decodes(
        alone_s,
        resolved.cost.tables(seats, seats),
        steps.gpu_s,
        steps.overlapped_s,
        steps.decode_seqs,
        steps.context_tokens,
        steps.prefill_seqs,
        resolved.shares_experts,
    )
    return alone_s


def _clocks(recording: Recording, resolved: Resolved) -> list[_Clock]:
    steps = recording.steps
    alone_s = decodes_alone_s(steps, resolved)
    found = []
    bounds = np.searchsorted(steps.replica, np.arange(recording.replicas + 1))
    for r in range(recording.replicas):
        rows = slice(bounds[r], bounds[r + 1])
        parts = np.empty((bounds[r + 1] - bounds[r], 4))
        parts[:, _WEIGHTS], parts[:, _KV] = alone_s[rows, 0], alone_s[rows, 1]
        parts[:, _PREFILL] = steps.gpu_s[rows] - (alone_s[rows, 0] + alone_s[rows, 1])
        parts[:, _TOKENS] = steps.prefill_tokens[rows]
        readings = np.zeros((len(parts) + 1, 4))
        np.cumsum(parts, axis=0, out=readings[1:])
        found.append(_Clock(steps.start_s[rows], steps.end_s[rows], readings))
    return found


@njit
def _price_decodes(
    alone_s: Floats,
    cost: CostTables,
    gpu_s: Floats,
    overlapped_s: Floats,
    decode_seqs: NDArray[np.int32],
    context_tokens: NDArray[np.int64],
    prefill_seqs: NDArray[np.int32],
    together: bool,
) -> None:
    """GPU seconds of each step's decodes alone: without context, and what that adds.

    Of a pass that is partly beside the step before, the rest is split as the whole.  With
    `together`, engines wait for each other: what a step takes beyond its own decodes is work of
    the others too, mostly prompts.
    """
    for i in range(len(gpu_s)):
        n = int(decode_seqs[i])
        if n == 0 and prefill_seqs[i] > 0:
            continue
        n = max(n, 1)  # a step of finished rows only still reads the weights
        pass_s = gpu_s[i] + overlapped_s[i]
        decode_s = pass_s
        if prefill_seqs[i] > 0 or together:
            # The longest context is not recorded; the mean stands for it.
            priced_s, _ = step_time(
                cost, n, n, context_tokens[i], context_tokens[i] // n, 0, 0, 0.0, 0, n
            )
            decode_s = min(priced_s, pass_s)
        weights_s, _ = step_time(cost, n, n, n, 1, 0, 0, 0.0, 0, n)
        alone_s[i, 0] = min(weights_s, decode_s)
        alone_s[i, 1] = decode_s - alone_s[i, 0]
        if overlapped_s[i] > 0.0:
            alone_s[i, 0] *= gpu_s[i] / pass_s
            alone_s[i, 1] *= gpu_s[i] / pass_s


def _attribute_replica(
    result: Attribution,
    recording: Recording,
    clock: _Clock,
    rows: NDArray[np.int64],
    lost: _Lost,
    frontend: Frontend,
) -> None:
    outcome, requests = recording.outcome, recording.requests
    if not len(rows):
        return
    arrival, admitted = outcome.arrival_s[rows], outcome.admitted_s[rows]
    first, last = outcome.first_token_s[rows], outcome.finished_s[rows]
    ttft, decode = np.zeros((len(rows), len(PARTS))), np.zeros((len(rows), len(PARTS)))
    before = np.minimum(frontend.alone_s(requests.prompt_tokens[rows]), admitted - arrival)
    ttft[:, QUEUE] = admitted - arrival - before
    if recording.leases is not None:
        cold_s = covered_s(starting(recording), arrival + before, admitted)
        ttft[:, COLD_START] = np.minimum(cold_s, ttft[:, QUEUE])
        ttft[:, QUEUE] -= ttft[:, COLD_START]
    at_first = clock.at(first)
    prefilling = at_first - clock.at(admitted)
    decoding = clock.at(last) - at_first
    if len(lost.row):
        spent = clock.at(lost.until_s) - clock.at(lost.from_s)
        early = lost.until_s <= first[lost.row]
        for part, phase, rows_of in ((ttft, prefilling, early), (decode, decoding, ~early)):
            np.subtract.at(phase, lost.row[rows_of], spent[rows_of])
            length_s = (lost.until_s - lost.from_s)[rows_of]
            np.add.at(part[:, PREEMPTION], lost.row[rows_of], length_s)
    own_tokens = requests.prompt_tokens[rows] - outcome.cached_tokens[rows]
    all_tokens = np.maximum(prefilling[:, _TOKENS], 1.0)
    share = np.minimum(own_tokens / all_tokens, 1.0)
    ttft[:, PREFILL] = share * prefilling[:, _PREFILL]
    ttft[:, INTERFERENCE] = prefilling[:, _PREFILL] - ttft[:, PREFILL]
    decode[:, INTERFERENCE] = decoding[:, _PREFILL]
    for part, phase, length_s in (
        (ttft, prefilling, first - arrival),
        (decode, decoding, last - first),
    ):
        part[:, WEIGHTS], part[:, KV] = phase[:, _WEIGHTS], phase[:, _KV]
        np.maximum(part, 0.0, out=part)  # differences of sums: rounding may leave -1e-16
        part[:, HOST] = length_s - part.sum(axis=1)
    result.ttft_s[rows], result.decode_s[rows] = ttft, decode


def shares(parts_s: Floats, rows: Rows) -> dict[str, float]:
    """Parts as shares of the whole over `rows` together, largest first; {} for no time."""
    total = parts_s[rows].sum(axis=0)
    if not total.sum() > 0:
        return {}
    found = {name: float(s / total.sum()) for name, s in zip(PARTS, total, strict=True)}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def parts_of(attribution: Attribution, metric: str) -> Floats:
    """(n, parts) parts of what a metric measures: ttft, queue, tpot, itl or e2el."""
    if metric in ("ttft", "queue"):
        return attribution.ttft_s
    return attribution.decode_s if metric in ("tpot", "itl") else attribution.e2el_s
