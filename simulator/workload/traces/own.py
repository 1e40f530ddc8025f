"""A table with the simulator's own column names: what to write when no format fits.

arrival_s, prompt_tokens, output_tokens and, as far as they are known, max_tokens,
priority and id.
"""

from simulator.workload.requests import LARGEST_COUNT
from simulator.workload.traces.cells import Count, Elapsed, Label
from simulator.workload.traces.layout import Field, Layout

LENGTHS = (
    Field("prompt_tokens", ("prompt_tokens",), Count()),
    Field("output_tokens", ("output_tokens",), Count()),
)
OPTIONS = (
    Field("max_tokens", ("max_tokens",), Count(), required=False, default=0),
    Field("priority", ("priority",), Count(-LARGEST_COUNT), required=False, default=0),
    Field("id", ("id", "request_id"), Label(), required=False, default=""),
)

OWN = Layout(
    name="csv",
    about="own table, times in s",
    kinds=("csv", "jsonl", "json", "parquet"),
    fields=(Field("arrival", ("arrival_s",), Elapsed()), *LENGTHS, *OPTIONS),
)

# Not a trace: what `lengths: {distribution: empirical}` reads.
OWN_LENGTHS = Layout(
    name="lengths",
    about="own table: prompt_tokens, output_tokens",
    kinds=OWN.kinds,
    fields=LENGTHS,
)
