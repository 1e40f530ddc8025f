"""How many replicas there are while the load changes, and how long a new one takes."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.scenario.base import NonNegative, NonNegativeCount, Positive, Section

MOST_REPLICAS = 1000
SHORTEST_POLL_S = 0.01  # each look costs simulation time; real ones are seconds apart

Replicas = Annotated[int, Field(ge=1, le=MOST_REPLICAS)]


class _Scaler(Section):
    """What all policies share.

    A new replica serves `engine_start_s` after it was ordered, and the time that reading the
    weights at `load_gb_per_s` takes.  The defaults are of vLLM's own log lines: 34 s from
    loaded weights to a warm engine whose compiled graphs are kept on disk, and 59 s from the
    start of the pod to the first answer, 0.9 s of which read weights (github.com/
    vllm-project/vllm/issues/20264); 21.8 GiB of weights read in 18 s (issues/44881).
    """

    min_replicas: Replicas = 1
    """fewest replicas"""
    max_replicas: Replicas
    """most replicas, those that start or drain included: the GPUs there are"""
    poll_interval_s: Annotated[Positive, Field(ge=SHORTEST_POLL_S)] = 15.0
    """between two looks at the load; 15 s in Kubernetes"""
    engine_start_s: NonNegative = 58.0
    """from the order of a replica to its first request, without reading the weights"""
    load_gb_per_s: Positive = 1.3
    """rate at which a replica's weights are read, 10^9 bytes/s; 1e9 and they are there at once"""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"cluster.autoscaler.min_replicas is {self.min_replicas}, more than max_replicas "
                f"{self.max_replicas}; lower the one or raise the other"
            )
        return self


class TargetScaler(_Scaler):
    """The rule of Kubernetes' HorizontalPodAutoscaler, of KEDA and of Knative.

    desired = ceil(current x metric / target), where `metric` is the mean over the replicas
    that are ordered, those that start counting as 0: ceil(sum / target).  Limits on how many
    come or go at once (Kubernetes: 4 or as many again in 15 s) are not kept.
    """

    policy: Literal["target_tracking"]
    metric: Literal["concurrency", "waiting", "kv_usage", "request_rate"] = "concurrency"
    """per replica: requests running and waiting; those waiting; share of KV blocks in use;
    requests per second since the last look"""
    target: Positive
    """of the metric"""
    tolerance: NonNegative = 0.1
    """nothing changes while metric / target is within 1 plus or minus this"""
    average_s: NonNegative = 0.0
    """the metric is its mean over so many seconds of looks; Knative has 60"""
    scale_up_stabilization_s: NonNegative = 0.0
    """the fewest replicas wanted in so many seconds are the most to go up to"""
    scale_down_stabilization_s: NonNegative = 300.0
    """the most replicas wanted in so many seconds are the fewest to go down to"""
    cooldown_s: NonNegative = 0.0
    """after a change nothing changes for so long"""


class ScheduledScaler(_Scaler):
    """So many replicas from such a time on, again and again."""

    policy: Literal["schedule"]
    points: Annotated[
        tuple[Annotated[tuple[NonNegative, NonNegativeCount], Field(strict=False)], ...],
        Field(strict=False, min_length=1),
    ]
    """[time in s, replicas to have ordered from then on], ...; the first at 0"""
    period_s: Positive = 86400.0
    """after which it starts again"""

    @model_validator(mode="after")
    def _check_points(self) -> Self:
        times = [time_s for time_s, _ in self.points]
        if times[0] != 0 or times != sorted(set(times)):
            raise ValueError(
                "cluster.autoscaler.points: the first time must be 0 and each later than the one "
                "before; sort them"
            )
        if times[-1] >= self.period_s:
            raise ValueError(
                f"cluster.autoscaler.points: {times[-1]:g} s lies beyond period_s "
                f"{self.period_s:g}; lengthen the period"
            )
        for _, count in self.points:
            if not self.min_replicas <= count <= self.max_replicas:
                raise ValueError(
                    f"cluster.autoscaler.points asks for {count} replicas; min_replicas is "
                    f"{self.min_replicas} and max_replicas {self.max_replicas}"
                )
        return self

    def replicas_at(self, time_s: float) -> int:
        """Replicas to have ordered at a time."""
        time_s %= self.period_s
        return next(count for start_s, count in reversed(self.points) if start_s <= time_s)


AutoscalerSpec = Annotated[TargetScaler | ScheduledScaler, Field(discriminator="policy")]
