"""Traces of Mooncake, and the same columns with times in seconds.

Source: R. Qin et al., "Mooncake: A KVCache-centric Disaggregated Architecture for LLM
Serving", FAST 2025; its hash_ids name the 512-token blocks of a prompt, the last one
possibly in part.
"""

from dataclasses import replace

from simulator.workload.requests import LARGEST_COUNT
from simulator.workload.traces.blocks import BLOCKS
from simulator.workload.traces.cells import Count, Elapsed
from simulator.workload.traces.layout import Field, Layout

# A higher number is more urgent in Dynamo, a smaller one in vLLM and here.
URGENCY = Field(
    "urgency", ("priority",), Count(-LARGEST_COUNT), required=False, default=0, tells=False
)
PROMPT = Field("prompt_tokens", ("input_length", "input_tokens"), Count())
OUTPUT = Field("output_tokens", ("output_length", "output_tokens"), Count())
_SESSIONS = {
    "session_id": "sessions (session_id) are not kept; turns arrive as recorded (format dynamo "
    "keeps them)",
    "delay": "delay after the turn before is not kept; turns arrive as recorded",
}

MOONCAKE = Layout(
    name="mooncake",
    about="Mooncake, Dynamo or aiperf, timestamp in ms",
    kinds=("jsonl", "json", "parquet"),
    fields=(
        Field("arrival", ("timestamp", "created_time"), Elapsed(per_second=1000)),
        PROMPT,
        OUTPUT,
        URGENCY,
        BLOCKS,
    ),
    unused=_SESSIONS,
    block_tokens=512,
)

TIMED_TRACE = Layout(
    name="timed_trace",
    about="vllm bench serve timed_trace or guidellm, timestamp in s",
    kinds=("jsonl", "json", "parquet"),
    fields=(
        Field("arrival", ("timestamp",), Elapsed()),
        PROMPT,
        OUTPUT,
        URGENCY,
        replace(BLOCKS, tells=False),  # Mooncake's, in ms, have them as a rule
    ),
    unused=_SESSIONS,
    block_tokens=16,
)
