"""Anonymised usage traces of Qwen on Alibaba Cloud Model Studio (Bailian)."""

from simulator.workload.traces.cells import Count, Elapsed, Items, Label
from simulator.workload.traces.layout import Check, Field, Layout

BLOCK_TOKENS = 16

BAILIAN = Layout(
    name="bailian",
    about="Bailian usage traces, timestamp in s",
    kinds=("jsonl", "json", "parquet"),
    fields=(
        Field("id", ("chat_id",), Label()),
        Field("arrival", ("timestamp",), Elapsed()),
        Field("prompt_tokens", ("input_length",), Count()),
        Field("output_tokens", ("output_length",), Count()),
        Field("blocks", ("hash_ids",), Items(BLOCK_TOKENS), required=False),
    ),
    unused={
        "hash_ids": "prefixes that prompts share (hash_ids) are not simulated",
        "parent_chat_id": "turns of a session (parent_chat_id) arrive as recorded",
    },
    checks=(
        Check(
            ("prompt_tokens", "blocks"),
            lambda prompt, blocks: blocks == -(-prompt // BLOCK_TOKENS),
            f"has another number of hash_ids than its prompt has blocks of {BLOCK_TOKENS} tokens",
        ),
    ),
)
