"""Traces of the Splitwise simulator."""

from simulator.workload.traces.cells import Count, Elapsed, Label
from simulator.workload.traces.layout import Check, Field, Layout

SPLITWISE = Layout(
    name="splitwise",
    about="splitwise-sim, times in s",
    kinds=("csv", "parquet"),
    fields=(
        Field("id", ("request_id",), Label(), required=False, default=""),
        Field("arrival", ("arrival_timestamp",), Elapsed()),
        Field("batch_size", ("batch_size",), Count(), required=False),
        Field("prompt_tokens", ("prompt_size",), Count()),
        Field("output_tokens", ("token_size",), Count()),
    ),
    checks=(
        Check(
            ("batch_size",),
            lambda batch_size: batch_size == 1,
            "stands for several requests (batch_size); write one row for each",
        ),
    ),
)
