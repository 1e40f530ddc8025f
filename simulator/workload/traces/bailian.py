"""Anonymised usage traces of Qwen on Alibaba Cloud Model Studio (Bailian)."""

from simulator.workload.traces.blocks import BLOCKS
from simulator.workload.traces.cells import Count, Elapsed, Label
from simulator.workload.traces.layout import Field, Layout
from simulator.workload.traces.sessions import NO_PARENT

BAILIAN = Layout(
    name="bailian",
    about="Bailian usage traces, timestamp in s",
    kinds=("jsonl", "json", "parquet"),
    fields=(
        Field("id", ("chat_id",), Label()),
        Field("parent", ("parent_chat_id",), Label(), required=False, default=NO_PARENT),
        Field("arrival", ("timestamp",), Elapsed()),
        Field("prompt_tokens", ("input_length",), Count()),
        Field("output_tokens", ("output_length",), Count()),
        BLOCKS,
    ),
    block_tokens=16,
)
