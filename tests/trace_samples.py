"""The same requests in every trace format, written by hand from the formats' descriptions."""

from __future__ import annotations

import json

# The same three requests, 250 ms and 1.5 s after the first, as each tool writes them.
ARRIVALS = [0.0, 0.25, 1.5]
PROMPTS = [600, 10, 1024]
OUTPUTS = [5, 70, 1]

TWINS = {
    "azure": (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.2500000,600,5\n"
        "2023-11-16 18:15:46.5000000,10,70\n"
        "2023-11-16 18:15:47.7500000,1024,1\n"
    ),
    "burstgpt": (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,600,5,605,Conversation log\n"
        "5.25,GPT-4,10,70,80,API log\n"
        "6.5,GPT-4,1024,1,1025,API log\n"
    ),
    "vidur": (
        "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,600,5\n0.75,10,70\n2.0,1024,1\n"
    ),
    "splitwise": (
        "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,"
        "token_size\n0,2,0,1.0,1,600,5\n1,2,0,1.25,1,10,70\n2,2,0,2.5,1,1024,1\n"
    ),
    "mooncake": (
        '{"timestamp": 1000, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n'
        '{"timestamp": 1250, "input_length": 10, "output_length": 70, "hash_ids": [2]}\n'
        '{"timestamp": 2500, "input_length": 1024, "output_length": 1, "hash_ids": [0, 3]}\n'
    ),
    "bailian": "".join(
        json.dumps(
            {
                "chat_id": 100 + i,
                "parent_chat_id": -1,
                "timestamp": 60.0 + ARRIVALS[i],
                "input_length": PROMPTS[i],
                "output_length": OUTPUTS[i],
                "type": "text",
                "turn": 1,
                "hash_ids": list(range((PROMPTS[i] + 15) // 16)),
            }
        )
        + "\n"
        for i in range(3)
    ),
    "llmservingsim": (
        '{"input_toks": 600, "output_toks": 5, "arrival_time_ns": 1000000000}\n'
        '{"input_toks": 10, "output_toks": 70, "arrival_time_ns": 1250000000}\n'
        '{"input_toks": 1024, "output_toks": 1, "arrival_time_ns": 2500000000}\n'
    ),
    "blis": (
        "request_id,tenant_id,slo_class,session_id,arrival_time_us,input_tokens,output_tokens,"
        "status,vllm_priority\n0,t,gold,,1000000,600,5,ok,1\n1,t,gold,,1250000,10,70,ok,0\n"
        "2,t,free,,2500000,1024,1,ok,-1\n"
    ),
    "dynamo": "".join(
        json.dumps(
            {
                "session_id": f"s{i}",
                "timestamp": 1000 * (5 + ARRIVALS[i]),
                "input_length": PROMPTS[i],
                "output_length": OUTPUTS[i],
            }
        )
        + "\n"
        for i in range(3)
    ),
    "weka": "".join(
        json.dumps(
            {"session": f"s{i}", "i": 0, "t": ARRIVALS[i], "in": PROMPTS[i], "out": OUTPUTS[i]}
        )
        + "\n"
        for i in range(3)
    ),
    "tracelab": (
        "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n"
        "0,1000,0,0,600,5,0\n1,1250,0,0,10,70,0\n2,2500,0,24,1000,1,0\n"
    ),
    "tracelab_rounds": "".join(
        json.dumps(
            {
                "session_id": f"s{i}",
                "round_index": 0,
                "input_tokens_total": PROMPTS[i],
                "prefix_tokens": 3,
                "output_tokens": OUTPUTS[i],
                "timing_events": [
                    {"timestamp": f"2026-06-01T05:40:{20 + ARRIVALS[i]:06.3f}Z"},
                    {"timestamp": "2026-06-01T05:41:00.000Z"},
                ],
            }
        )
        + "\n"
        for i in range(3)
    ),
    "apex": "".join(
        json.dumps(
            {
                "RequestID": i,
                "StartTimeOffset": int(1e9 * ARRIVALS[i]),
                "ContextTokens": PROMPTS[i],
                "GeneratedTokens": OUTPUTS[i],
                "TotalTokens": PROMPTS[i] + OUTPUTS[i],
            }
        )
        + "\n"
        for i in range(3)
    ),
    "csv": ("arrival_s,prompt_tokens,output_tokens\n100.0,600,5\n100.25,10,70\n101.5,1024,1\n"),
}
TIMED = (
    '{"timestamp": 1.0, "input_length": 600, "output_length": 5}\n'
    '{"timestamp": 1.25, "input_length": 10, "output_length": 70}\n'
    '{"timestamp": 2.5, "input_length": 1024, "output_length": 1}\n'
)
