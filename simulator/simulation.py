"""Scenario -> SimPy environment -> Result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy
from numpy.typing import NDArray

from simulator.cluster.autoscaler import Autoscaler
from simulator.cluster.build import Servers, build_fleet, front
from simulator.cluster.clients import sender
from simulator.cluster.interruption import Stop, run_until_stopped
from simulator.cluster.routers import ROUTERS
from simulator.engine.fleet import Fleet
from simulator.engine_limits import engine_limits
from simulator.recording import UNFINISHED, Recording
from simulator.scenario import Resolved, Scenario, resolve
from simulator.scenario.overrides import Override
from simulator.scenario.step_options import entry_of
from simulator.workload import build_requests
from simulator.workload.requests import Requests
from simulator.workload.streams import Purpose, Streams

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from simulator.metrics.attribution import Attribution
    from simulator.report.plots.series import Window

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run.

    Attributes
    ----------
    resolved : the scenario with all defaults filled in, and the facts behind it.
    recording : what happened.
    interrupted : it was stopped early; the scenario's horizon is then where it was stopped.
    """

    resolved: Resolved
    recording: Recording
    interrupted: bool = False

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Figures of the run; keys as in summary.json."""
        from simulator.metrics import summarize

        return summarize(self.recording, self.resolved, self.attribution)

    @cached_property
    def attribution(self) -> Attribution:
        """What the latency of each request went to."""
        from simulator.metrics.attribution import attribute

        return attribute(self.recording, self.resolved)

    @cached_property
    def requests(self) -> pd.DataFrame:
        """One row per request."""
        from simulator.metrics import requests_frame

        return requests_frame(self.recording, self.attribution)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row per engine step."""
        from simulator.metrics import steps_frame

        return steps_frame(self.recording)

    @cached_property
    def preemption_reasons(self) -> list[str]:
        """Why requests were preempted, what that cost and what would end it; empty if none."""
        from simulator.planning.preemption import preemption_reasons

        return preemption_reasons(self)

    def check_integrity(self) -> list[str]:
        """What is wrong with the run, in sentences; empty if it is sound.

        The run is made again with an event log, from which blocks, seats, tokens and times
        are counted anew; see `simulator.engine.integrity`.
        """
        from simulator.engine.integrity import violations

        plain = entry_of(self.resolved.scenario) == "chunked_prefill"
        handovers = self.recording.handovers
        pools = (handovers.prefill, handovers.decode) if handovers else (self.recording,)
        wrong = []
        for fleet, recording in zip(_logged(self).fleets, pools, strict=True):
            limits = fleet.engine.limits[0]
            all_run = plain and limits["depth"] == 1 and not limits["self_preemption_ends_scan"]
            events = fleet.log_book.events(fleet.engine)
            wrong += violations(
                fleet,
                recording,
                events,
                every_member_scheduled=bool(all_run),
                loans_open=bool((self.recording.outcome.status == UNFINISHED).any()),
            )
        return wrong

    def plot_timeline(self, window: Window | None = None, replica: int = 0) -> Figure:
        """Who holds the seats of a replica, step by step, and the queue below; see
        `simulator.report.plots.plot_timeline`."""
        from simulator.report.plots import plot_timeline

        return plot_timeline(self, window, replica)

    def plot_load(self) -> Figure:
        """Running and waiting requests and KV cache usage over the whole run."""
        from simulator.report.plots import plot_load

        return plot_load(self)

    def plot_itl(self) -> Figure:
        """Share of inter-token gaps longer than a time."""
        from simulator.report.plots import plot_itl

        return plot_itl(self)

    def plot_latency(self) -> Figure:
        """Distribution of TTFT and of end-to-end latency over completed requests."""
        from simulator.report.plots import plot_latency

        return plot_latency(self)

    def plot_attribution(self) -> Figure:
        """Where latency went, for all requests that finished and for the slowest; see
        `simulator.report.plots.plot_attribution`."""
        from simulator.report.plots import plot_attribution

        return plot_attribution(self)

    def plot_memory_map(self, window: Window | None = None, replica: int = 0) -> Figure:
        """Which request has which KV blocks, for contiguous allocators; see
        `simulator.report.plots.plot_memory_map`."""
        from simulator.report.plots import plot_memory_map

        return plot_memory_map(self, window, replica)

    def write_perfetto(self, path: str | Path, window: Window) -> None:
        """Write a window of the run, (from, to) in simulated seconds, as a Chrome trace for
        Perfetto; see `simulator.report.perfetto`."""
        from simulator.report.perfetto import write_trace

        write_trace(self, Path(path), window)


def simulate(
    scenario: Scenario,
    *,
    seed: int | None = None,
    replicate: int = 0,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Result:
    """Run a scenario.

    Parameters
    ----------
    scenario : what to simulate.
    seed : takes the place of the scenario's seed.
    replicate : number of the random sample; same seed and replicate, same bytes.
    progress : called now and then with (requests ended, requests in all).
    stop : asked now and then; where it says True the run ends there, and its result is that of
        the scenario with this horizon.

    Raises
    ------
    InputError
        The scenario cannot be simulated; the message says why.
    """
    if seed is not None:
        scenario = scenario.with_overrides([Override(("seed",), seed, "seed")])
    resolved = resolve(scenario, replicate=replicate)
    scenario = resolved.scenario
    requests = build_requests(
        scenario.workload,
        base_dir=scenario.base_dir,
        max_model_len=resolved.max_model_len,
        seed=scenario.seed,
        replicate=replicate,
    )
    return simulate_requests(resolved, requests, progress=progress, stop=stop)


def simulate_requests(
    resolved: Resolved,
    requests: Requests,
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Result:
    """Run the machines of a resolved scenario on a table of requests.

    `simulate` without the reading and drawing, for those who run many loads.
    """
    scenario = resolved.scenario
    fleet = build_fleet(resolved, requests)
    resolved = replace(resolved, notes=[*resolved.notes, *requests.notes, *fleet.explain_limits()])
    if front(resolved).scenario.kv_cache.enable_prefix_caching and not len(requests.segments):
        resolved.notes.append(
            "the workload does not say which prompts are alike, so that prefix caching finds "
            "nothing but a preempted request's own blocks"
        )
    if scenario.scheduler.lora is not None:
        limits = engine_limits(resolved)
        resolved.notes.append(
            "scheduler.lora: an estimate, with no measurement behind it: loading an adapter takes "
            f"{limits['lora_load_s'] * 1e3:.3g} ms; a step with adapters takes "
            f"{limits['lora_step_s'] * 1e3:.3g} ms longer (the kernels of Punica, 2024) and "
            f"{limits['lora_adapter_s'] * 1e3:.2g} ms for each of them"
        )
    horizon_s = scenario.workload.horizon_s or np.inf
    end_s, stopped = _run(fleet, resolved, horizon_s, progress, stop)
    if stopped:
        resolved = replace(resolved, scenario=_with_horizon(scenario, end_s))
        resolved.notes.append(
            f"interrupted at {end_s:.6g} s of simulated time, after {fleet.num_ended} of "
            f"{len(requests)} requests; this is the run with workload.horizon_s {end_s!r}"
        )
    recording = fleet.recording(end_s)
    if scenario.warmup_s == "auto":
        resolved = _without_warm_up(resolved, recording)
    return Result(resolved, recording, interrupted=stopped)


def _without_warm_up(resolved: Resolved, recording: Recording) -> Resolved:
    """The same with the warm-up that the run shows."""
    from simulator.planning.stationarity import warm_up_s

    cut_s = warm_up_s(recording)
    note = f"warmup_s: {cut_s:.6g}, by MSER-5 on the end-to-end latencies"
    scenario = resolved.scenario.model_copy(update={"warmup_s": cut_s})
    return replace(resolved, scenario=scenario, notes=[*resolved.notes, note])


def _with_horizon(scenario: Scenario, horizon_s: float) -> Scenario:
    workload = scenario.workload.model_copy(update={"horizon_s": horizon_s})
    return scenario.model_copy(update={"workload": workload})


def event_log(
    result: Result, *, until: float, keep: Callable[[NDArray[Any]], NDArray[Any]] | None = None
) -> NDArray[Any]:
    """Run a result's scenario again, up to `until` seconds, and log what happens inside steps.

    Parameters
    ----------
    keep : picks the events to keep, of those that it is given; None keeps all.

    Returns
    -------
    `simulator.engine.log.EVENT` records in order.  The same bits as the result's own run,
    which kept no log to be fast.
    """
    found, replicas = [], 0
    for fleet in _logged(result, until, keep).fleets:
        events = fleet.log_book.events(fleet.engine)
        events["replica"] += replicas
        replicas += len(fleet.engine.replicas)
        found.append(events)
    together = np.concatenate(found)
    return together[np.argsort(together["time_s"], kind="stable")] if len(found) > 1 else together


def _logged(
    result: Result,
    until: float = np.inf,
    keep: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
) -> Servers:
    """The fleet of a result after the same run up to `until` seconds, with an event log."""
    resolved = result.resolved
    fleet = build_fleet(resolved, result.recording.requests, events=True)
    for one in fleet.fleets:
        one.log_book.keep = keep
    _run(fleet, resolved, min(until, resolved.scenario.workload.horizon_s or np.inf))
    return fleet


def rerun(
    result: Result, *, num_gpu_blocks: int | None = None, max_num_seqs: int | None = None
) -> Result:
    """The same requests under other limits, which need not be possible on this GPU."""
    before = result.resolved
    resolved = replace(
        before,
        num_gpu_blocks=num_gpu_blocks or before.num_gpu_blocks,
        max_num_seqs=max_num_seqs or before.max_num_seqs,
    )
    fleet = build_fleet(resolved, result.recording.requests)
    horizon_s = resolved.scenario.workload.horizon_s or np.inf
    end_s, _ = _run(fleet, resolved, horizon_s)
    return Result(resolved, fleet.recording(end_s))


def _run(
    fleet: Servers,
    resolved: Resolved,
    horizon_s: float,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> tuple[float, bool]:
    """Send all requests and let the fleet finish; when it ended, and whether it was stopped."""
    if progress is not None:
        sent = int(np.count_nonzero(~fleet.is_rejected() & (fleet.requests.arrival_s < horizon_s)))
        fleet.on_progress = lambda: progress(fleet.num_ended, sent)
    env = simpy.Environment()
    random = Streams(resolved.scenario.seed, resolved.replicate).generator(Purpose.ROUTING)
    router = ROUTERS[front(resolved).scenario.cluster.router](random)
    sending = env.process(sender(env, fleet, router, horizon_s))
    cluster = resolved.scenario.cluster
    if cluster.autoscaler is not None and isinstance(fleet, Fleet):
        autoscaler = Autoscaler(
            env,
            fleet,
            router,
            cluster.autoscaler,
            replicas=cluster.replicas,
            start_s=resolved.replica_start_s,
        )
        env.process(autoscaler.run(sending))
    stopped_s = None
    if stop is None:
        env.run(until=None if horizon_s == np.inf else horizon_s)
        fleet.advance(horizon_s)
    else:
        stopped_s = run_until_stopped(env, fleet, horizon_s, stop)
    fleet.on_progress = None  # it holds the fleet, whose memory would outlive the run
    if stopped_s is not None:
        return stopped_s, True
    if horizon_s < np.inf:
        return float(horizon_s), False
    return fleet.clock_s, False
