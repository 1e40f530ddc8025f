"""Microseconds of one call, on a GPU inside a CUDA graph, on a CPU by the wall clock."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cost_models.profiler.extra import torch_module

Call = Callable[[], Any]

GRAPH_S = 1e-3  # of calls in one graph, so that its own launch weighs under one percent
MEASURE_S = 0.02  # of replays for one figure
MOST_CALLS = 400
ALIKE_CALLS = 20


class Clock(Protocol):
    """Times a call."""

    def microseconds(self, calls: Sequence[Call]) -> float:
        """Median microseconds of one call.

        Parameters
        ----------
        calls : the same operation on different memory, so that none finds its input in the
            cache; they are taken in turn.
        """
        ...


def clock(device: str, *, alike: bool = False) -> Clock:
    """The clock of a device; `alike` makes it call equally often in every process."""
    return GpuClock(alike) if device == "cuda" else CpuClock(alike)


class GpuClock:
    """Times calls as an engine makes them: recorded once in a CUDA graph, then replayed."""

    def __init__(self, alike: bool = False) -> None:
        self.torch, self.alike = torch_module(), alike

    def microseconds(self, calls: Sequence[Call]) -> float:
        """Median over replays of a graph of at least a millisecond."""
        cuda = self.torch.cuda
        stream = cuda.Stream()
        with cuda.stream(stream):
            for call in calls[:3]:  # compiles and warms up
                call()
            eager_s = self._elapsed_s(lambda: [call() for call in calls[:3]]) / len(calls[:3])
        cuda.current_stream().wait_stream(stream)
        number = min(MOST_CALLS, max(3, round(GRAPH_S / eager_s)))
        if self.alike:
            number = ALIKE_CALLS
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            for call in itertools.islice(itertools.cycle(calls), number):
                call()
        graph.replay()
        once_s = self._elapsed_s(graph.replay)
        repeats = ALIKE_CALLS if self.alike else min(20, max(3, round(MEASURE_S / once_s)))
        samples = [self._elapsed_s(graph.replay) for _ in range(repeats)]
        return statistics.median(samples) / number * 1e6

    def _elapsed_s(self, call: Call) -> float:
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3


class CpuClock:
    """Times calls one by one: for trials without a GPU."""

    def __init__(self, alike: bool = False) -> None:
        self.alike = alike

    def microseconds(self, calls: Sequence[Call]) -> float:
        """Median of single calls; the first warms up."""
        calls[0]()
        samples = []
        started = time.perf_counter()
        for call in itertools.islice(itertools.cycle(calls), MOST_CALLS):
            begin = time.perf_counter()
            call()
            samples.append(time.perf_counter() - begin)
            if self.alike:
                enough = len(samples) == ALIKE_CALLS
            else:
                enough = len(samples) >= 3 and time.perf_counter() - started > MEASURE_S
            if enough:
                break
        return statistics.median(samples) * 1e6
