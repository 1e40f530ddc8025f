"""Request files of LLMServingSim, those of independent requests."""

from simulator.workload.traces.cells import Count, Elapsed
from simulator.workload.traces.layout import Field, Layout

LLMSERVINGSIM = Layout(
    name="llmservingsim",
    about="LLMServingSim, arrival_time_ns",
    kinds=("jsonl", "json"),
    fields=(
        Field("arrival", ("arrival_time_ns",), Elapsed(per_second=1e9)),
        Field("prompt_tokens", ("input_toks",), Count()),
        Field("output_tokens", ("output_toks",), Count()),
    ),
)
