"""What prompts share, from block ids and as system prompts, up to hits in the prefix cache."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from simulator import Scenario, simulate
from simulator.errors import InputError
from simulator.workload import build_requests
from simulator.workload.traces import FORMATS, read_trace
from simulator.workload.traces.statistics import describe
from simulator.workload.traces.write import write_trace

ROWS = (
    '{"timestamp": 0, "input_length": 1300, "output_length": 5, "hash_ids": [7, 8, 9]}\n'
    '{"timestamp": 1, "input_length": 600, "output_length": 5, "hash_ids": [7, -9]}\n'
    '{"timestamp": 2, "input_length": 10, "output_length": 5}\n'
)  # fmt: skip
BASE = {
    "model": "llama-3.1-8b",
    "scheduler": {"async_scheduling": False},
    "kv_cache": {"enable_prefix_caching": True, "max_model_len": 131072},
    "cost_model": {"kind": "linear", "t_mem_s": 1e-3, "t_flop_s_per_token": 1e-6},
}


def made(workload, base_dir=".", **sections):
    scenario = Scenario.from_mapping({**BASE, "workload": workload, **sections}, base_dir)
    return build_requests(
        scenario.workload, base_dir=scenario.base_dir, max_model_len=8192, seed=scenario.seed
    )


def pieces(requests):
    ends = requests.segment_offsets.tolist()
    rows = requests.segments.tolist()
    return [
        [tuple(p) for p in rows[a:b]] for a, b in pairwise(ends)
    ]  # fmt: skip


def test_block_ids_are_pieces(tmp_path):
    (tmp_path / "t.jsonl").write_text(ROWS)
    requests = made({"trace": {"path": "t.jsonl"}}, tmp_path)
    assert pieces(requests) == [
        [(0, 512), (1, 512), (2, 1300 - 1024)], [(0, 512), (3, 88)], []
    ]  # fmt: skip


def test_size_of_the_blocks_can_be_given(tmp_path):
    (tmp_path / "t.jsonl").write_text(ROWS)
    with pytest.raises(InputError, match=r"another size can be given as workload\.trace\.block"):
        made({"trace": {"path": "t.jsonl", "block_tokens": 256}}, tmp_path)
    timed = {"path": "t.jsonl", "format": "timed_trace", "block_tokens": 512}
    requests = made({"trace": timed}, tmp_path)
    assert pieces(requests)[1] == [(0, 512), (3, 88)]
    assert requests.arrival_s.tolist() == [0, 1, 2]
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,5,5\n")
    with pytest.raises(InputError, match="format csv has no block ids; remove it"):
        made({"trace": {"path": "t.csv", "block_tokens": 256}}, tmp_path)


def test_bootstrapped_rows_keep_their_content(tmp_path):
    rows = [
        {"timestamp": i, "input_length": 512, "output_length": 1, "hash_ids": [i]}
        for i in range(90)
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trace = read_trace(tmp_path / "t.jsonl")
    taken = trace.take(np.array([5, 5, 80]), np.zeros(3))
    assert [np.frombuffer(b, np.uint64).tolist() for b in taken.extra["blocks"]] == [[5], [5], [80]]


def counted_hits(path, block=16):
    """Prompt tokens that an endless cache of 16-token blocks finds, one prompt at a time.

    vLLM computes the last token of every prompt, so a prompt never hits as a whole.
    """
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows.sort(key=lambda row: row["timestamp"])
    seen, hits = set(), 0
    for row in rows:
        prompt = row["input_length"]
        state, found, keys = (), 0, []
        for k in range(prompt // block):
            first = k * block // 512
            state = hash((state, row["hash_ids"][first], k))
            keys.append(state)
        while found < min(len(keys), (prompt - 1) // block) and keys[found] in seen:
            found += 1
        hits += found * block
        seen.update(keys)
    return hits, sum(row["input_length"] for row in rows)


@pytest.mark.parametrize("name", ["mooncake_conversation_first1000", "mooncake_synthetic_first500"])
def test_hits_of_mooncake_traces_are_what_is_counted(shared, name):
    path = shared / "traces/mooncake" / f"{name}.jsonl"
    hits, prompts = counted_hits(path)
    workload = {"trace": {"path": str(path), "rate_scale": 1e-6}, "max_tokens": 1}
    kv_cache = {**BASE["kv_cache"], "num_gpu_blocks": 2_000_000}
    result = simulate(Scenario.from_mapping({**BASE, "workload": workload, "kv_cache": kv_cache}))
    assert int(result.recording.outcome.cached_tokens.sum()) == hits
    assert 0.05 < hits / prompts < 0.9
    # Whole blocks of 512 tokens are a little less.
    reuse = describe(read_trace(path))["prefix_reuse"]
    assert hits / prompts - 0.05 < reuse <= hits / prompts


def test_system_prompts_by_class():
    workload = {
        "arrivals": {"process": "constant", "rate": 0.01},
        "lengths": {"distribution": "uniform", "min_prompt_tokens": 50, "max_prompt_tokens": 400,
                    "min_output_tokens": 2, "max_output_tokens": 2},
        "num_requests": 60,
        "shared_prefix_tokens": 100,
        "classes": [
            {"name": "a", "share": 0.3}, {"name": "b", "share": 0.3},
            {"name": "c", "share": 0.4, "shared_prefix_tokens": 200},
        ],
    }  # fmt: skip
    requests = made(workload)
    for row, content in enumerate(pieces(requests)):
        tag, tokens = (3, 200) if requests.class_id[row] == 2 else (0, 100)
        assert content == [(tag, min(tokens, int(requests.prompt_tokens[row])))]
    # One at a time, everything but the first prompt with a text finds all whole blocks of it
    # that come before a prompt's last token and that an earlier prompt was long enough for.
    result = simulate(Scenario.from_mapping({**BASE, "workload": workload}))
    longest = {False: 0, True: 0}
    for row, prompt in enumerate(requests.prompt_tokens.tolist()):
        is_c = bool(requests.class_id[row] == 2)
        shared = min(200 if is_c else 100, prompt)
        hit = min(shared, longest[is_c], prompt - 1) // 16 * 16
        assert result.recording.outcome.cached_tokens[row] == hit
        longest[is_c] = max(longest[is_c], shared)


def test_a_system_prompt_of_its_own_off():
    workload = {
        "arrivals": {"process": "burst"},
        "lengths": {"distribution": "fixed", "prompt_tokens": 50, "output_tokens": 2},
        "num_requests": 4,
        "shared_prefix_tokens": 100,
        "classes": [{"name": "a", "share": 1.0, "shared_prefix_tokens": 0}],
    }
    assert pieces(made(workload)) == [[], [], [], []]


def test_block_ids_and_a_system_prompt_exclude_each_other(tmp_path):
    (tmp_path / "t.jsonl").write_text(ROWS)
    with pytest.raises(InputError, match="block ids tell what prompts share; remove it"):
        made({"trace": {"path": "t.jsonl"}, "shared_prefix_tokens": 10}, tmp_path)


def test_converted_blocks_share_what_they_did(tmp_path):
    rows = [
        (1024 + 40, [1, 2, 3]), (1024 + 40, [1, 2, 3]), (1024, [1, 2]), (600, [1, 4]), (600, [5, 4])
    ]  # fmt: skip
    (tmp_path / "t.jsonl").write_text(
        "".join(
            json.dumps({"timestamp": i, "input_length": n, "output_length": 1, "hash_ids": ids})
            + "\n"
            for i, (n, ids) in enumerate(rows)
        )
    )
    trace = read_trace(tmp_path / "t.jsonl")
    write_trace(trace, tmp_path / "small.jsonl", FORMATS["bailian"])
    small = read_trace(tmp_path / "small.jsonl", "bailian")
    ids = [np.frombuffer(b, np.uint64).tolist() for b in small.extra["blocks"]]
    assert [len(i) for i in ids] == [67, 67, 64, 38, 38]
    assert ids[1] == ids[0]
    assert ids[2] == ids[0][:64]
    assert ids[3][:32] == ids[0][:32]
    assert not set(ids[3][32:]) & set(ids[0])
    assert not set(ids[4]) & set(ids[3])
    write_trace(small, tmp_path / "back.jsonl", FORMATS["mooncake"])
    back = read_trace(tmp_path / "back.jsonl", "mooncake")
    again = [np.frombuffer(b, np.uint64).tolist() for b in back.extra["blocks"]]
    assert again[0] == again[1]
    assert again[2] == again[0][:2]
    assert again[3][0] == again[0][0]
    assert len({*again[3], *again[4], *again[0]}) == 3 + 1 + 2
