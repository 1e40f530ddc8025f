"""Request tables of BLIS TraceV2 (the CSV; its YAML header is not needed).

A prompt is the shared text of its prefix_group, prefix_length long, and input_tokens of its
own; without a group it has the tokens that the server counted, where that is told.
"""

from simulator.workload.requests import LARGEST_COUNT
from simulator.workload.traces.cells import Count, Elapsed, Label
from simulator.workload.traces.layout import Field, Layout
from simulator.workload.traces.sessions import UNKNOWN

BLIS = Layout(
    name="blis",
    about="BLIS TraceV2, arrival_time_us",
    kinds=("csv", "parquet"),
    fields=(
        Field("id", ("request_id",), Label(), required=False, default=""),
        Field("session", ("session_id",), Label(), required=False, default=""),
        Field("round", ("round_index",), Count(0), required=False, default=0),
        Field("arrival", ("arrival_time_us",), Elapsed(per_second=1e6)),
        Field("prompt_tokens", ("input_tokens",), Count()),
        Field("output_tokens", ("output_tokens",), Count()),
        Field("server_tokens", ("server_input_tokens",), Count(0), False, 0),
        Field("group", ("prefix_group",), Label(), required=False, default=""),
        Field("group_tokens", ("prefix_length",), Count(0), required=False, default=0),
        Field("think_before", ("think_time_us",), Elapsed(1e6, least=0), False, UNKNOWN),
        Field("ended", ("last_chunk_time_us",), Elapsed(1e6), False, float("nan")),
        Field("priority", ("vllm_priority",), Count(-LARGEST_COUNT), required=False, default=0),
    ),
    unused={
        "deadline_us": "deadlines (deadline_us) are not used",
    },
)
