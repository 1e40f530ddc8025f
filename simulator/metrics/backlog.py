"""Does the system keep up?  The trend of the backlog, and Little's law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.latency import Population, e2el_s
from simulator.metrics.quantiles import weighted_sum
from simulator.recording import FINISHED, REJECTED, Recording

STABLE, BACKLOGGED, OVERLOADED = "STABLE", "BACKLOGGED", "OVERLOADED"

BATCHES = 20
T_975 = 2.093  # Student's t at 97.5 % with BATCHES - 1 degrees of freedom
UNSERVED_SHARE = 0.05
SETTLED_AFTER = 4  # median end-to-end latencies


@dataclass(frozen=True, slots=True)
class Backlog:
    """Verdict on the second half of the time in which requests arrive.

    Attributes
    ----------
    state : STABLE, BACKLOGGED or OVERLOADED.
    slope_per_s : growth of the number of requests in the system (requests per second).
    slope_ci95_per_s : half-width of its 95 % confidence interval.
    empty_share : share of the batches in which the queue was empty at some moment.
    """

    state: str
    slope_per_s: float
    slope_ci95_per_s: float
    empty_share: float


def backlog(recording: Recording, who: Population) -> Backlog:
    """Judge whether the requests in the system grow without bound.

    Only the time of arrivals is looked at: after the last one every queue drains.  Its
    second half is cut into 20 batches.  The growth of the requests in the system (arrived
    and neither finished nor rejected) over each is one observation; their mean is the
    slope, their scatter its confidence interval.  Batch means allow for correlation within
    a batch, and for a queue that neither grows nor shrinks neighbouring batches' growth is
    correlated negatively, so that the interval errs on the wide side.

    - OVERLOADED: the slope is above 0 with 95 % confidence, and it matters: the queue is
      never empty in the last quarter of the arrivals, or 5 % of the second half's arrivals
      add to the backlog though that half is long enough for four typical requests one
      after the other.  (A load that rises by day also has a positive slope, and so has a
      short run that is still filling its batch.)
    - STABLE: not overloaded, and the queue is empty at some moment of most batches.
    - BACKLOGGED: the rest.  Bursts queue and drain, or the queue stays without growing.
    """
    outcome = recording.outcome
    accepted = who.counted & (outcome.status != REJECTED) & ~np.isnan(outcome.arrival_s)
    arrivals = np.sort(outcome.arrival_s[accepted])
    if not len(arrivals):
        return Backlog(STABLE, 0.0, 0.0, 1.0)
    admissions = _sorted_times(outcome.admitted_s[accepted])
    departures = np.sort(outcome.finished_s[accepted & (outcome.status == FINISHED)])
    first, last = float(arrivals[0]), float(arrivals[-1])
    if last <= first:
        waited = bool((outcome.admitted_s[accepted] > first).any()) or len(admissions) < len(
            arrivals
        )
        return Backlog(BACKLOGGED if waited else STABLE, 0.0, 0.0, float(not waited))

    edges = np.linspace((first + last) / 2, last, BATCHES + 1)
    arrived = np.searchsorted(arrivals, edges, side="right")
    in_system = arrived - np.searchsorted(departures, edges, side="right")
    growth = np.diff(in_system)
    batch_s = (last - first) / 2 / BATCHES
    slope = float(growth.mean()) / batch_s
    half_width = T_975 * float(growth.std(ddof=1)) / np.sqrt(BATCHES) / batch_s
    empties = _batches_with_empty_queue(arrivals, admissions, edges)

    grows = slope - half_width > 0
    unserved = growth.sum() / max(int(arrived[-1] - arrived[0]), 1)
    typical_s = float(np.median(e2el_s(outcome)[who.completed])) if who.completed.any() else 0.0
    settled = (last - first) / 2 >= SETTLED_AFTER * typical_s
    matters = not empties[BATCHES // 2 :].any() or (settled and unserved >= UNSERVED_SHARE)
    bounded = STABLE if empties.mean() > 0.5 else BACKLOGGED
    state = OVERLOADED if grows and matters else bounded
    return Backlog(state, slope, float(half_width), float(empties.mean()))


def _sorted_times(times: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sort(times[~np.isnan(times)])


def _batches_with_empty_queue(
    arrivals: NDArray[np.float64], admissions: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Batches in which nobody waits at some moment: at the start, or after an admission."""
    moments = np.concatenate((edges[:-1], admissions[(admissions >= edges[0])]))
    moments = moments[moments <= edges[-1]]
    waiting = np.searchsorted(arrivals, moments, side="right") - np.searchsorted(
        admissions, moments, side="right"
    )
    batch = np.minimum(np.searchsorted(edges, moments, side="right") - 1, BATCHES - 1)
    return np.asarray(np.bincount(batch, weights=waiting == 0, minlength=BATCHES) > 0)


def peak_concurrency(recording: Recording, who: Population) -> int:
    """Most requests in the system at any moment."""
    outcome = recording.outcome
    accepted = who.counted & (outcome.status != REJECTED) & ~np.isnan(outcome.arrival_s)
    arrivals = np.sort(outcome.arrival_s[accepted])
    if not len(arrivals):
        return 0
    departures = np.sort(outcome.finished_s[accepted & (outcome.status == FINISHED)])
    before = np.searchsorted(departures, arrivals, side="right")
    return int((np.arange(1, len(arrivals) + 1) - before).max())


@dataclass(frozen=True, slots=True)
class LittlesLaw:
    """Mean number running and λ·W, each from its own record of the run.

    Attributes
    ----------
    mean_running : L, running requests over time, from the steps.
    arrival_rate : λ, admitted requests per second.
    mean_residence_s : W, first step to last token (or the run's end), from the requests.
    """

    mean_running: float
    arrival_rate: float
    mean_residence_s: float

    @property
    def relative_gap(self) -> float:
        """L / (λ·W) - 1, exactly 0 but for rounding when nobody is preempted."""
        expected = self.arrival_rate * self.mean_residence_s
        return self.mean_running / expected - 1 if expected > 0 else float("nan")


def littles_law(recording: Recording) -> LittlesLaw:
    """L = λ·W for the seats of the whole run, warm-up included.

    A preempted request holds no seat until it is admitted again, and a row of a static
    batch holds one until the batch ends, so the two sides differ by that.
    """
    outcome, steps = recording.outcome, recording.steps
    seated = ~np.isnan(outcome.admitted_s)
    left = outcome.finished_s[seated]
    residence = np.where(np.isnan(left), recording.end_s, left) - outcome.admitted_s[seated]
    seat_s = weighted_sum(steps.running, steps.end_s - steps.start_s)
    if not len(residence) or recording.end_s <= 0:
        return LittlesLaw(0.0, 0.0, float("nan"))
    return LittlesLaw(
        mean_running=seat_s / recording.end_s,
        arrival_rate=len(residence) / recording.end_s,
        mean_residence_s=float(residence.mean()),
    )
