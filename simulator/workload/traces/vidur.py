"""Request traces that Vidur's replay generator reads."""

from simulator.workload.traces.cells import Count, Elapsed
from simulator.workload.traces.layout import Field, Layout

VIDUR = Layout(
    name="vidur",
    about="Vidur trace replay, times in s",
    kinds=("csv", "parquet"),
    fields=(
        Field("arrival", ("arrived_at", "timestamp"), Elapsed()),
        Field("prompt_tokens", ("num_prefill_tokens",), Count()),
        Field("output_tokens", ("num_decode_tokens",), Count()),
    ),
)
