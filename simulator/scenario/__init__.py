"""What is simulated: one validated, frozen, hashable description."""

from __future__ import annotations

from simulator.scenario.arrivals import (
    ArrivalsSpec,
    BurstArrivals,
    ClosedLoopArrivals,
    ConstantArrivals,
    GammaArrivals,
    PoissonArrivals,
)
from simulator.scenario.builtin import builtin_scenarios, find_scenario
from simulator.scenario.classes import ClassSpec
from simulator.scenario.cluster import ClusterSpec, ModelSpec
from simulator.scenario.cost_model import CalibratedCost, CostModelSpec, LinearCost
from simulator.scenario.kv_cache import KvCacheSpec
from simulator.scenario.lengths import (
    AzureCodeLengths,
    AzureConversationLengths,
    EmpiricalLengths,
    FixedLengths,
    LengthsSpec,
    LognormalLengths,
    UniformLengths,
)
from simulator.scenario.resolve import resolve
from simulator.scenario.resolved import Resolved
from simulator.scenario.scenario import Scenario
from simulator.scenario.scheduler import ORDERS, POLICIES, SchedulerSpec, StaticSpec
from simulator.scenario.slo import GoodputThreshold, SloSpec, SloTarget
from simulator.scenario.workload import LognormalError, TraceSpec, WorkloadSpec

__all__ = [
    "ORDERS",
    "POLICIES",
    "ArrivalsSpec",
    "AzureCodeLengths",
    "AzureConversationLengths",
    "BurstArrivals",
    "CalibratedCost",
    "ClassSpec",
    "ClosedLoopArrivals",
    "ClusterSpec",
    "ConstantArrivals",
    "CostModelSpec",
    "EmpiricalLengths",
    "FixedLengths",
    "GammaArrivals",
    "GoodputThreshold",
    "KvCacheSpec",
    "LengthsSpec",
    "LinearCost",
    "LognormalError",
    "LognormalLengths",
    "ModelSpec",
    "PoissonArrivals",
    "Resolved",
    "Scenario",
    "SchedulerSpec",
    "SloSpec",
    "SloTarget",
    "StaticSpec",
    "TraceSpec",
    "UniformLengths",
    "WorkloadSpec",
    "builtin_scenarios",
    "find_scenario",
    "resolve",
]
