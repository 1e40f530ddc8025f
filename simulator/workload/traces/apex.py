"""Request files of APEX: times in ns from the start."""

from simulator.workload.traces.cells import Count, Elapsed, Label
from simulator.workload.traces.layout import Field, Layout

APEX = Layout(
    name="apex",
    about="APEX, StartTimeOffset in ns",
    kinds=("jsonl", "json", "parquet"),
    fields=(
        Field("id", ("RequestID",), Label(), required=False, default=""),
        Field("arrival", ("StartTimeOffset",), Elapsed(per_second=1e9)),
        Field("prompt_tokens", ("ContextTokens",), Count()),
        Field("output_tokens", ("GeneratedTokens",), Count()),
    ),
)
