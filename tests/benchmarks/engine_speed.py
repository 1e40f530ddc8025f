"""Speed of the engine itself, without reading, reporting or start-up."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator

import numpy as np
import reference
import work
from numpy.typing import NDArray

from simulator.cluster.build import build_fleet
from simulator.engine.fleet import Fleet
from simulator.engine.state import NUM_STEPS
from simulator.scenario import Resolved
from simulator.workload import build_requests
from simulator.workload.requests import Requests

REPEATS = 5
PAIRS = 9
REQUESTS = 50_000
REFERENCE_REQUESTS = 3_000
WAITING = (10, 100_000)


def cpu_s(task: Callable[[float], object], until: float = np.inf) -> float:
    """Processor seconds of `task`, a fleet's `advance` or the like."""
    started_s = time.process_time()
    task(until)
    return time.process_time() - started_s


def fastest_s(make: Callable[[], Fleet]) -> float:
    """Processor seconds that a fleet takes to serve everything; the least of several."""
    return min(cpu_s(make().advance) for _ in range(REPEATS))


def requests_of(resolved: Resolved) -> Requests:
    """The scenario's requests."""
    return build_requests(
        resolved.scenario.workload,
        base_dir=resolved.scenario.base_dir,
        max_model_len=resolved.max_model_len,
        seed=0,
    )


def ready(resolved: Resolved, requests: Requests, *, coast: bool = True) -> Fleet:
    """A fleet that has been handed all requests."""
    fleet = build_fleet(resolved, requests)
    if not coast:
        fleet.engine.limits["coast"] = 0
    rows = np.arange(len(requests))
    fleet.deliver(rows, np.zeros_like(rows))
    return fleet


def full_run(
    *, prefix_caching: bool = False, async_scheduling: bool = False, coast: bool = True
) -> tuple[float, Fleet]:
    """Seconds of the fastest of several runs of the frozen work, and its fleet."""
    resolved = work.resolved(
        work.mapping(REQUESTS, prefix_caching=prefix_caching, async_scheduling=async_scheduling)
    )
    requests = requests_of(resolved)
    seconds = fastest_s(lambda: ready(resolved, requests, coast=coast))
    fleet = ready(resolved, requests)
    fleet.advance(np.inf)
    assert fleet.num_ended == len(requests)
    return seconds, fleet


def steps_of(fleet: Fleet) -> int:
    """Engine steps so far."""
    return len(fleet.recording(0.0).steps.start_s)


def throughput() -> Iterator[tuple[str, str, str]]:
    """Requests per second of each form of the engine: (what, figure, floor)."""
    forms = {
        "no prefix caching": ({}, "150,000"),
        "no prefix caching, every step by itself": ({"coast": False}, ""),
        "prefix caching, all blocks identified": ({"prefix_caching": True}, "100,000"),
        "asynchronous scheduling": ({"async_scheduling": True}, ""),
        "prefix caching and asynchronous": (
            {"prefix_caching": True, "async_scheduling": True},
            "",
        ),
    }
    first_s = 0.0
    for name, (switches, floor) in forms.items():
        seconds, fleet = full_run(**switches)
        first_s = first_s or seconds
        steps = steps_of(fleet)
        yield (
            f"requests/s, {name}",
            f"{REQUESTS / seconds:,.0f} ({1e9 * seconds / steps:.0f} ns a step, "
            f"{first_s / seconds:.2f}x the first)",
            floor,
        )


def against_reference() -> Iterator[tuple[str, str, str]]:
    """A plain SimPy simulation of the same work, checked to give the same times."""
    resolved = work.resolved(work.mapping(REFERENCE_REQUESTS))
    requests = requests_of(resolved)
    started_s = time.process_time()
    served, steps = reference.run(requests.arrival_s.tolist())
    plain_s = time.process_time() - started_s
    ours_s = fastest_s(lambda: ready(resolved, requests))
    fleet = ready(resolved, requests)
    fleet.advance(np.inf)
    outcome = fleet.recording(0.0).outcome
    np.testing.assert_allclose(outcome.finished_s, [r.finished_s for r in served], rtol=1e-9)
    np.testing.assert_allclose(outcome.first_token_s, [r.first_token_s for r in served], rtol=1e-9)
    assert steps_of(fleet) == steps
    yield (
        "requests/s, plain SimPy loop, same times",
        f"{REFERENCE_REQUESTS / plain_s:,.0f} (this engine {plain_s / ours_s:,.0f}x)",
        "",
    )


def step_under_queue() -> Iterator[tuple[str, str, str]]:
    """Price of a step and of an admission, by what waits behind."""
    few, many = WAITING
    for order in ("fcfs", "sjf", "srpt", "priority", "edf", "fair"):
        for kind, outputs in {
            "nobody joins": (HOLDING_TOKENS, HOLDING_TOKENS),
            "some join": (1, 127),
        }.items():
            ratio = _paired(_steps_of_a_full_batch(order, *outputs))
            what = f"step of {SEATS} seats, {kind}, {order}: {many:,} waiting / {few}"
            yield what, ratio, "< 1.10x"
        admitted = _paired([_admission(order, waiting) for waiting in WAITING])
        yield f"admission, {order}: {many:,} waiting / {few}", admitted, ""


def _paired(tasks: list[Callable[[], float]]) -> str:
    """Ratio of two tasks' seconds: the median over pairs run one after the other, and the
    middle half of the pairs, for other work on the machine slows both of a pair."""
    pairs = np.array([[task() for task in tasks] for _ in range(PAIRS)])
    low, ratio, high = np.quantile(pairs[:, 1] / pairs[:, 0], [0.25, 0.5, 0.75])
    least = pairs.min(axis=0) * 1e9
    return f"{ratio:.2f}x ({low:.2f} to {high:.2f}; {least[0]:.0f} and {least[1]:.0f} ns)"


SEATS = 64
HOLDING_TOKENS = 8_000
MEASURE_S = (1.0, 30.0)
TENANTS = ("a", "b", "c", "d")


def _queue(order: str, outputs: tuple[int, int], num_requests: int) -> Resolved:
    data = work.mapping(num_requests)
    data["workload"] |= {
        "arrivals": {"process": "burst"},
        "lengths": {
            "distribution": "uniform",
            "min_prompt_tokens": 16,
            "max_prompt_tokens": 16,
            "min_output_tokens": outputs[0],
            "max_output_tokens": outputs[1],
        },
    }
    if order in ("sjf", "srpt"):
        data["workload"]["predictor"] = {"lognormal_error": 0.5}
    if order == "fair":
        data["workload"]["classes"] = [{"name": name, "share": 0.25} for name in TENANTS]
    data["slo"] = {"ttft_ms": 1000}
    data["scheduler"] |= {"order": order, "max_num_seqs": SEATS}
    return work.resolved(data)


def _requests_of_many(resolved: Resolved) -> Requests:
    """The scenario's requests with a priority, a tenant and a moment of arrival of their own."""
    requests = requests_of(resolved)
    rng = np.random.default_rng(0)
    return dataclasses.replace(
        requests,
        arrival_s=np.sort(rng.uniform(0.0, 0.5, len(requests))),
        priority=rng.integers(0, 1000, len(requests)),
        class_id=rng.integers(0, len(TENANTS), len(requests)),
        class_names=TENANTS,
    )


def _steps_of_a_full_batch(order: str, *outputs: int) -> list[Callable[[], float]]:
    """Seconds of the same steps with few and with many who wait behind them.

    Both fleets have the same table of requests and serve the same ones: the one with few has
    been handed only those whom the other one serves, and `few` more.
    """
    few, many = WAITING
    resolved = _queue(order, outputs, SEATS + many)
    requests = _requests_of_many(resolved)

    def fleet_of(rows: NDArray[np.int64]) -> Fleet:
        fleet = build_fleet(resolved, requests)
        fleet.engine.limits["coast"] = 0
        fleet.deliver(rows, np.zeros_like(rows))
        return fleet

    everybody = np.arange(len(requests))
    first = fleet_of(everybody)
    first.advance(MEASURE_S[1])
    served = ~np.isnan(first.engine.requests["admitted_s"])
    waiting = np.flatnonzero(~served)
    served[waiting[:few]] = True
    steps = first.engine.counters[NUM_STEPS]

    def seconds(rows: NDArray[np.int64]) -> float:
        fleet = fleet_of(rows)
        fleet.advance(MEASURE_S[0])  # all seats are taken, and everybody is in the queue
        before = int(fleet.engine.counters[NUM_STEPS])
        took_s = cpu_s(fleet.advance, MEASURE_S[1])
        assert fleet.engine.counters[NUM_STEPS] == steps
        return took_s / (steps - before)

    return [lambda: seconds(np.flatnonzero(served)), lambda: seconds(everybody)]


def _admission(order: str, waiting: int) -> Callable[[], float]:
    """Seconds per request of one token that queues, is admitted and ends."""
    total = 200_000
    resolved = _queue(order, (1, 1), total)
    requests = _requests_of_many(resolved)
    if waiting < total // 2:  # else all come at once, and half of them wait in the mean
        apart_s = 1.0  # longer than it takes to serve a group
        arrival_s = apart_s * (np.arange(total) // (SEATS + waiting)).astype(np.float64)
        requests = dataclasses.replace(requests, arrival_s=arrival_s)
    return lambda: cpu_s(ready(resolved, requests).advance) / total
