"""Benchmarks that replay traces against a real engine, and how they are told to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simulator.workload.traces.dynamo import DYNAMO
from simulator.workload.traces.layout import Layout
from simulator.workload.traces.mooncake import MOONCAKE, TIMED_TRACE
from simulator.workload.traces.trace import Trace


@dataclass(frozen=True)
class Tool:
    """A benchmark client.

    Attributes
    ----------
    layout : the format of ours that it replays best, for a trace.
    options : what it has to be told about a file in that format.
    """

    layout: Callable[[Trace], Layout]
    options: str

    def command(self, trace: Trace, out: Path) -> str:
        """How the written file is replayed."""
        return self.options.format(out=out, block=self.layout(trace).block_tokens)


def _mooncake(trace: Trace) -> Layout:
    """aiperf reads sessions in Mooncake's columns too."""
    return DYNAMO if "turn" in trace.extra else MOONCAKE


# vllm builds prompts of its hash_ids only, so blocks of 16 tokens; without --self-timed it
# sends at its own rate.  guidellm takes times in seconds; aiperf in ms, 512 tokens a block.
TOOLS = {
    "vllm": Tool(
        lambda trace: TIMED_TRACE,
        "vllm bench serve --dataset-name timed_trace --dataset-path {out} --self-timed "
        "--timed-trace-sec-multiplier 1 --timed-trace-chunk-hash-size {block}",
    ),
    "guidellm": Tool(
        lambda trace: TIMED_TRACE,
        "guidellm with data {out}, kind=trace_synthetic, profile replay (times in seconds)",
    ),
    "aiperf": Tool(
        _mooncake,
        "aiperf profile --input-file {out} --custom-dataset-type mooncake_trace --fixed-schedule",
    ),
}
