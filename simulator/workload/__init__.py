"""Where requests come from: recorded traces, or arrivals and lengths drawn at random."""

from simulator.workload.build import build_requests
from simulator.workload.requests import Requests

__all__ = ["Requests", "build_requests"]
