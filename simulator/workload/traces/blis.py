"""Request tables of BLIS TraceV2 (the CSV; its YAML header is not needed)."""

from simulator.workload.requests import LARGEST_COUNT
from simulator.workload.traces.cells import Count, Elapsed, Label
from simulator.workload.traces.layout import Field, Layout

BLIS = Layout(
    name="blis",
    about="BLIS TraceV2, arrival_time_us",
    kinds=("csv", "parquet"),
    fields=(
        Field("id", ("request_id",), Label(), required=False, default=""),
        Field("arrival", ("arrival_time_us",), Elapsed(per_second=1e6)),
        Field("prompt_tokens", ("input_tokens",), Count()),
        Field("output_tokens", ("output_tokens",), Count()),
        Field("priority", ("vllm_priority",), Count(-LARGEST_COUNT), required=False, default=0),
    ),
    unused={
        "session_id": "sessions (session_id) are not kept; rounds arrive as recorded",
        "prefix_group": "prefixes that prompts share (prefix_group) are not simulated",
        "deadline_us": "deadlines (deadline_us) are not used",
    },
)
