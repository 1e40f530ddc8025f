"""Recorded traces: one small file per format behind one registry."""

from simulator.workload.traces.read import read_trace
from simulator.workload.traces.registry import FORMATS
from simulator.workload.traces.trace import Trace

__all__ = ["FORMATS", "Trace", "read_trace"]
