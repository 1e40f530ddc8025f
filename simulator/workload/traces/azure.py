"""Azure LLM inference traces, 2023 and 2024, and the files made in their shape."""

from simulator.workload.traces.cells import Count, Stamp
from simulator.workload.traces.layout import Field, Layout

AZURE = Layout(
    name="azure",
    about="Azure LLM inference trace, dates and times",
    kinds=("csv", "parquet"),
    fields=(
        Field("arrival", ("TIMESTAMP",), Stamp()),
        Field("prompt_tokens", ("ContextTokens",), Count()),
        Field("output_tokens", ("GeneratedTokens",), Count()),
    ),
    unused={"NumImages": "images of a request (NumImages) are not simulated"},
)
