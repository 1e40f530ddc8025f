"""The block that ``vllm bench serve`` prints, with the same names and in its order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from simulator.errors import InputError
from simulator.metrics.quantiles import PERCENTILES
from simulator.report.block import header, line

SECTIONS = (
    ("ttft", "TTFT", "Time to First Token"),
    ("tpot", "TPOT", "Time per Output Token (excl. 1st token)"),
    ("itl", "ITL", "Inter-token Latency"),
    ("e2el", "E2EL", "End-to-end Latency"),
)


def benchmark_block(summary: dict[str, Any], percentiles: Sequence[int] = (99,)) -> list[str]:
    """Lines of the block, so that two can be laid side by side.

    Parameters
    ----------
    summary : from `simulator.metrics.summarize`.
    percentiles : those to print in each latency section, of 50, 90, 95 and 99.
    """
    out = [
        header(" Serving Benchmark Result ", "="),
        line("Successful requests:", summary["completed"]),
        line("Failed requests:", summary["failed"]),
    ]
    if summary["max_concurrency"] is not None:
        out.append(line("Maximum request concurrency:", summary["max_concurrency"]))
    if summary["request_rate"] is not None:
        out.append(line("Request rate configured (RPS):", summary["request_rate"]))
    if summary["session_rate"] is not None:
        out.append(line("Session starts configured (1/s):", summary["session_rate"]))
    out += [
        line("Benchmark duration (s):", summary["duration"]),
        line("Total input tokens:", summary["total_input_tokens"]),
        line("Total generated tokens:", summary["total_output_tokens"]),
        line("Request throughput (req/s):", summary["request_throughput"]),
    ]
    if summary["request_goodput"] is not None:
        out.append(line("Request goodput (req/s):", summary["request_goodput"]))
    out += [
        line("Output token throughput (tok/s):", summary["output_throughput"]),
        line("Peak output token throughput (tok/s):", summary["max_output_tokens_per_s"]),
        line("Peak concurrent requests:", float(summary["max_concurrent_requests"])),
        line("Total token throughput (tok/s):", summary["total_token_throughput"]),
    ]
    for key, short, title in SECTIONS:
        out += [
            header(title),
            line(f"Mean {short} (ms):", summary[f"mean_{key}_ms"]),
            line(f"Median {short} (ms):", summary[f"median_{key}_ms"]),
        ]
        out += [line(f"P{p} {short} (ms):", summary[f"p{p}_{key}_ms"]) for p in percentiles]
    return [*out, header("", "=")]


def parse_percentiles(text: str) -> tuple[int, ...]:
    """Read ``"50,99"``.

    Raises
    ------
    InputError : for a percentile that the summary does not hold.
    """
    allowed = [str(p) for p in PERCENTILES]
    wanted = [part for part in re.split(r"[,\s]+", text) if part]
    for part in wanted:
        if part not in allowed:
            raise InputError(
                f"--percentiles: {part} is not available; choose from {', '.join(allowed)}."
            )
    return tuple(int(part) for part in wanted)
