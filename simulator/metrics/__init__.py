"""What a run's recording says: latencies, batches, utilisation, SLOs, limits, cost."""

from simulator.metrics.frames import requests_frame, steps_frame
from simulator.metrics.summary import missed, summarize

__all__ = ["missed", "requests_frame", "steps_frame", "summarize"]
