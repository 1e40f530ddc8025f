"""How many replicas an autoscaler wants, from what it sees of the load."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import ceil, inf

from simulator.engine.fleet import Fleet
from simulator.scenario.autoscaler import AutoscalerSpec, ScheduledScaler, TargetScaler

ROUNDING = 1e-9  # of a ratio: 3.0000000001 replicas are 3

Rule = Callable[[float, int, Fleet, list[int]], int]
"""(time, replicas ordered, fleet, those that serve) -> replicas to have ordered."""


def rule_of(spec: AutoscalerSpec, replicas: int) -> Rule:
    """The rule of a scenario that begins with so many replicas."""
    if isinstance(spec, ScheduledScaler):
        return lambda now, ordered, fleet, serving: spec.replicas_at(now)
    return TargetRule(spec, replicas)


def desired_replicas(total: float, current: int, target: float, tolerance: float) -> int:
    """ceil(current x metric / target), or `current` where the metric is near its target.

    `total` is the metric summed over the replicas that serve; over the `current` ones its mean
    is total / current, to which those that only start bring 0.  The rule, its tolerance and its
    treatment of pods that are not ready are those of the HorizontalPodAutoscaler (Kubernetes
    documentation, "Algorithm details").
    """
    if abs(total / (current * target) - 1.0) <= tolerance + ROUNDING:
        return current
    return ceil(total / target - ROUNDING)


class TargetRule:
    """`desired_replicas`, held back by stabilisation windows and a cool-down."""

    def __init__(self, spec: TargetScaler, replicas: int) -> None:
        self._spec = spec
        self._wanted = deque([(0.0, replicas)])
        self._seen: deque[tuple[float, float]] = deque()
        self._changed_s = -inf
        self._looked_s, self._sent = 0.0, 0

    def __call__(self, now: float, ordered: int, fleet: Fleet, serving: list[int]) -> int:
        spec = self._spec
        total = self._average(now, self._measure(now, fleet, serving))
        self._wanted.append((now, desired_replicas(total, ordered, spec.target, spec.tolerance)))
        fewest = min(self._within(now, spec.scale_up_stabilization_s))
        most = max(self._within(now, spec.scale_down_stabilization_s))
        wanted = min(max(ordered, fewest), most)
        wanted = min(max(wanted, spec.min_replicas), spec.max_replicas)
        if wanted == ordered or now - self._changed_s < spec.cooldown_s:
            return ordered
        self._changed_s = now
        return wanted

    def _within(self, now: float, window_s: float) -> list[int]:
        """What was wanted in the last `window_s`, the latest included."""
        longest_s = max(self._spec.scale_up_stabilization_s, self._spec.scale_down_stabilization_s)
        while len(self._wanted) > 1 and self._wanted[0][0] <= now - longest_s:
            self._wanted.popleft()
        latest = self._wanted[-1][1]
        return [count for time_s, count in self._wanted if time_s > now - window_s] or [latest]

    def _average(self, now: float, total: float) -> float:
        self._seen.append((now, total))
        while self._seen[0][0] <= now - self._spec.average_s and len(self._seen) > 1:
            self._seen.popleft()
        return sum(value for _, value in self._seen) / len(self._seen)

    def _measure(self, now: float, fleet: Fleet, serving: list[int]) -> float:
        """The metric, summed over the replicas that serve."""
        outstanding, metric = fleet.outstanding(), self._spec.metric
        if metric == "request_rate":
            sent, since_s = fleet.num_ended + int(outstanding.sum()), self._looked_s
            came, self._sent, self._looked_s = sent - self._sent, sent, now
            return came / (now - since_s)
        if metric == "kv_usage":
            usable = fleet.engine.limits["usable_blocks"][0]
            return float(fleet.held_blocks()[serving].sum() / usable)
        if metric == "waiting":
            outstanding = outstanding - fleet.engine.replicas["running"]
        return float(outstanding[serving].sum())
