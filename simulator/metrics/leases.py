"""Which replicas were there when: what is paid for, what serves, what still starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.latency import Population
from simulator.recording import Recording

if TYPE_CHECKING:
    from simulator.scenario import Resolved

Floats = NDArray[np.float64]
Spans = tuple[Floats, Floats]  # from, until; (m,) each


def paid(recording: Recording) -> Spans:
    """When each replica was paid for: from its order to its release."""
    leases = recording.leases
    if leases is None:
        return np.zeros(recording.replicas), np.full(recording.replicas, recording.end_s)
    return leases.ordered_s, _or_end(leases.released_s, recording)


def starting(recording: Recording) -> Spans:
    """When each replica was ordered and did not serve yet; given up ones up to then."""
    leases = recording.leases
    if leases is None:
        return np.zeros(0), np.zeros(0)
    until_s = np.where(np.isnan(leases.ready_s), leases.released_s, leases.ready_s)
    return leases.ordered_s, _or_end(until_s, recording)


def serving(recording: Recording) -> Spans:
    """When each replica took new requests."""
    leases = recording.leases
    if leases is None:
        return paid(recording)
    ready = ~np.isnan(leases.ready_s)
    until_s = np.where(np.isnan(leases.drained_s), leases.released_s, leases.drained_s)
    return leases.ready_s[ready], _or_end(until_s, recording)[ready]


def _or_end(times: Floats, recording: Recording) -> Floats:
    return np.where(np.isnan(times), recording.end_s, times)


def overlap_s(spans: Spans, from_s: float, until_s: float) -> float:
    """Seconds of the spans between two times, added up."""
    begin, end = np.maximum(spans[0], from_s), np.minimum(spans[1], until_s)
    return float(np.maximum(end - begin, 0.0).sum())


def replica_s(recording: Recording, who: Population) -> float:
    """Seconds of replicas that were there in the observed time."""
    if recording.leases is None:
        return who.observed_s * recording.replicas
    return overlap_s(paid(recording), who.start_s, who.end_s)


def block_s(recording: Recording, who: Population) -> float:
    """KV blocks that they had, times these seconds."""
    return sum(replica_s(pool, who) * pool.usable_kv_blocks for _, pool, _ in recording.pools())


def count_over_time(spans: Spans) -> tuple[Floats, NDArray[np.int64]]:
    """How many spans cover each moment: times at which that changes, and the number from then."""
    times, place = np.unique(np.concatenate(spans), return_inverse=True)
    change = np.repeat((1, -1), len(spans[0]))
    return times, np.cumsum(np.bincount(place, weights=change, minlength=len(times)).astype(int))


def covered_s(spans: Spans, from_s: Floats, until_s: Floats) -> Floats:
    """(n,) seconds of each stretch in which at least one span holds."""
    times, count = count_over_time(spans)
    if not len(times):
        return np.zeros(len(from_s))
    any_s = np.concatenate(((0.0,), np.cumsum(np.diff(times) * (count[:-1] > 0))))
    return np.asarray(np.interp(until_s, times, any_s) - np.interp(from_s, times, any_s))


def replica_figures(recording: Recording, resolved: Resolved, who: Population) -> dict[str, Any]:
    """How many replicas there were, and how often that changed."""
    figures = {
        "mean_replicas": float(recording.replicas),
        "peak_replicas": recording.replicas,
        "scale_ups": 0,
        "scale_downs": 0,
        "replica_start_s": None,
    }
    if recording.leases is None:
        return figures
    _, count = count_over_time(paid(recording))
    duration = who.duration_s
    mean = overlap_s(paid(recording), who.start_s, who.start_s + duration) / max(duration, 1e-12)
    return {
        "mean_replicas": mean,
        "peak_replicas": int(count.max()),
        "scale_ups": int((recording.leases.ordered_s > 0).sum()),
        "scale_downs": int((~np.isnan(recording.leases.drained_s)).sum()),
        "replica_start_s": resolved.replica_start_s,
    }
