"""BurstGPT traces, versions 1 to 3: read by name, since version 3 puts columns between."""

from simulator.workload.traces.cells import Count, Elapsed, Label
from simulator.workload.traces.layout import Check, Field, Layout

BURSTGPT = Layout(
    name="burstgpt",
    about="BurstGPT, times in s, failed requests as rows of 0 tokens",
    kinds=("csv", "parquet"),
    fields=(
        Field("session", ("Session ID",), Label(), required=False, default=""),
        Field("arrival", ("Timestamp",), Elapsed()),
        Field("service_s", ("Elapsed time",), Elapsed(least=0), False, float("nan")),
        Field("prompt_tokens", ("Request tokens",), Count()),
        Field("output_tokens", ("Response tokens",), Count()),
        Field("total_tokens", ("Total tokens",), Count(), required=False),
    ),
    checks=(
        Check(
            ("prompt_tokens", "output_tokens", "total_tokens"),
            lambda prompt, output, total: total == prompt + output,
            "has Total tokens other than Request tokens + Response tokens",
        ),
    ),
)
