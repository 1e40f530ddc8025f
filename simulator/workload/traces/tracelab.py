"""Sessions of coding agents as TraceLab's session runner replays them."""

from simulator.workload.traces.cells import Count, Elapsed, Label
from simulator.workload.traces.layout import Check, Field, Layout

TRACELAB = Layout(
    name="tracelab",
    about="TraceLab sessions, prefix and new tokens per round, times in ms",
    kinds=("csv", "parquet"),
    fields=(
        Field("session", ("session_id", "id"), Label()),
        Field("round", ("round_idx",), Count(0)),
        Field("arrival", ("arrival_time",), Elapsed(per_second=1000), False, float("nan")),
        Field("prefix_tokens", ("prefix_len",), Count(0)),
        Field("new_tokens", ("input_len",), Count(0)),
        Field("output_tokens", ("output_len",), Count()),
        Field("think_after", ("tool_wait_after_ms",), Elapsed(per_second=1000, least=0)),
    ),
    checks=(
        Check(
            ("prefix_tokens", "new_tokens"),
            lambda prefix, new: prefix + new >= 1,
            "has an empty prompt",
        ),
    ),
)
