"""Commands as people have them, and the scenario that each of their flags is.

What flags mean is taken from vLLM's documentation of `vllm serve` and `vllm bench serve`.
"""

from __future__ import annotations

import math
import re

import pytest

from simulator.command_lines import from_commands
from simulator.command_lines.told import SERVE_NOT_SIMULATED
from simulator.errors import InputError
from simulator.scenario import Scenario, resolve
from simulator.scenario.overrides import parse_override

SERVE = "vllm serve meta-llama/Llama-3.1-8B-Instruct"
BENCH = "vllm bench serve --model meta-llama/Llama-3.1-8B-Instruct"


def scenario(*commands, extra=()):
    translation = from_commands(commands, extra)
    return Scenario.from_mapping(translation.mapping), translation


def unknown(translation):
    return [told.flag for told in translation.told if "not known" in told.why]


def test_every_key_of_the_engine():
    found, translation = scenario(
        f"{SERVE} --tensor-parallel-size 2 --data-parallel-size=3 --max-num-seqs 96 "
        "--max-num-batched-tokens 4K --gpu-memory-utilization 0.85 --max-model-len 25.6k "
        "--block-size 32 --kv-cache-dtype fp8_e4m3 --quantization fp8 --scheduling-policy "
        "priority --long-prefill-token-threshold 512 --no-enable-prefix-caching "
        "--no-async-scheduling --enable-chunked-prefill --num-gpu-blocks-override 4000"
    )
    assert unknown(translation) == []
    cluster, scheduler, kv_cache = found.cluster, found.scheduler, found.kv_cache
    assert (cluster.tensor_parallel, cluster.data_parallel) == (2, 3)
    assert (scheduler.max_num_seqs, scheduler.max_num_batched_tokens) == (96, 4096)
    assert (scheduler.order, scheduler.long_prefill_token_threshold) == ("priority", 512)
    assert (scheduler.async_scheduling, scheduler.enable_chunked_prefill) == (False, True)
    assert (kv_cache.gpu_memory_utilization, kv_cache.max_model_len) == (0.85, 25_600)
    assert (kv_cache.block_size, kv_cache.num_gpu_blocks) == (32, 4000)
    assert kv_cache.enable_prefix_caching is False
    assert (found.model.weight_dtype, found.model.kv_dtype) == ("fp8", "fp8")


@pytest.mark.parametrize(
    ("command", "key", "value"),
    [
        ("vllm serve --model Qwen/Qwen3-8B -tp 2", "tensor_parallel", 2),
        ("VLLM_USE_V1=1 /opt/bin/vllm serve Qwen/Qwen3-8B -tp=4", "tensor_parallel", 4),
        (
            "python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B -dp 2",
            "data_parallel",
            2,
        ),
        (
            "docker run --gpus all -p 8000:8000 --ipc=host vllm/vllm-openai:v0.11.0 "
            "--model Qwen/Qwen3-8B --tensor_parallel_size 2",
            "engine_version",
            "0.11.0",
        ),
        ("vllm serve Qwen/Qwen3-30B-A3B -tp 2 --enable-expert-parallel", "expert_parallel", True),
        ("vllm serve Qwen/Qwen3-8B \\\n  --tensor-parallel-size 2 \\\n", "tensor_parallel", 2),
    ],
)
def test_ways_to_start_an_engine(command, key, value):
    found, translation = scenario(command)
    assert found.model.name in ("qwen3-8b", "qwen3-30b-a3b")
    assert getattr(found.cluster, key) == value
    assert unknown(translation) == []


@pytest.mark.parametrize(
    ("model", "name", "weights"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b", None),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", None, None),
        ("Qwen/Qwen3-32B-FP8", "qwen3-32b", "fp8_block"),
        ("openai/gpt-oss-120b", "gpt-oss-120b", None),
        ("neuralmagic/Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b", "fp8"),
    ],
)
def test_names_of_checkpoints(model, name, weights):
    if name is None:
        with pytest.raises(InputError, match="--set model=NAME"):
            scenario(f"vllm serve {model}")
        return
    found, _ = scenario(f"vllm serve {model}")
    assert (found.model.name, found.model.weight_dtype) == (name, weights)


def test_weights_that_are_not_priced_are_told():
    _, translation = scenario("vllm serve Qwen/Qwen3-8B --quantization awq")
    told = next(told for told in translation.told if told.flag == "--quantization")
    assert told.matters
    assert "awq weights are not priced" in told.why


def test_what_plays_no_part_and_what_is_not_simulated():
    _, translation = scenario(
        f"{SERVE} --host 0.0.0.0 --port 8000 --enforce-eager --trust-remote-code --seed 7 "
        """--speculative-config '{"method": "ngram", "num_speculative_tokens": 3}' """
        "--speculative-config.method eagle --disable-log-requests --frobnicate 3 --swap-space 16 "
        "-O3 --compilation-config.level 2",
        BENCH,
    )
    told = {told.flag: told.matters for told in translation.told}
    assert told == {
        "--host": False, "--port": False, "--enforce-eager": True, "--trust-remote-code": False,
        "--seed": False, "--speculative-config": True, "--speculative-config.method": True,
        "--disable-log-requests": False, "--frobnicate": True, "--swap-space": False, "-O3": True,
        "--compilation-config.level": True,
    }  # fmt: skip
    assert unknown(translation) == ["--frobnicate"]


def test_what_a_scenario_can_say_is_not_told_to_be_left_out():
    """A flag that has the name of a key is told with that key, and each key told exists."""
    sections = ("workload", "cluster", "scheduler", "kv_cache")
    keys = {
        f"{section}.{key}"
        for section in sections
        for key in Scenario.model_fields[section].annotation.model_fields
    }
    for why, flags in SERVE_NOT_SIMULATED.items():
        named = set(re.findall(r"\b(?:{})\.\w+".format("|".join(sections)), why))
        assert named <= keys
        for flag in flags.split():
            name = flag.partition("=")[0].replace("-", "_")
            assert {key for key in keys if key.endswith(f".{name}")} <= named, flag


def test_the_default_load_is_the_clients_own():
    """1,000 random prompts of 1,024 tokens, 128 tokens each, all at once."""
    for commands in ((SERVE,), (SERVE, BENCH)):
        workload = scenario(*commands)[0].workload
        assert workload.arrivals.process == "burst"
        assert workload.num_requests == 1000
        lengths = workload.lengths
        assert (lengths.prompt_tokens, lengths.output_tokens) == (1024, 128)


def test_rate_and_burstiness():
    poisson = scenario(SERVE, f"{BENCH} --request-rate 4")[0].workload.arrivals
    assert (poisson.process, poisson.rate) == ("poisson", 4.0)
    # Gaps are gamma-distributed with shape b, whose coefficient of variation is 1/sqrt(b).
    bursty = scenario(SERVE, f"{BENCH} --request-rate 4 --burstiness 0.25")[0].workload.arrivals
    assert (bursty.process, bursty.rate, bursty.cv) == ("gamma", 4.0, 2.0)


def test_random_lengths_with_a_range_and_a_prefix():
    workload = scenario(
        SERVE,
        f"{BENCH} --dataset-name random --random-input-len 1001 --random-output-len 51 "
        "--random-range-ratio 0.5 --random-prefix-len 100 --max-concurrency 16 --num-prompts 40",
    )[0].workload
    lengths = workload.lengths
    # floor(1001 · 0.5) and ceil(1001 · 1.5), each behind the prefix
    assert (lengths.min_prompt_tokens, lengths.max_prompt_tokens) == (600, 1602)
    assert (lengths.min_output_tokens, lengths.max_output_tokens) == (25, 77)
    assert workload.shared_prefix_tokens == 100
    assert (workload.max_concurrency, workload.num_requests) == (16, 40)


def test_a_ratio_for_each_side():
    ratio = """--random-range-ratio '{"input": 0.5, "output": 0.0}'"""
    lengths = scenario(SERVE, f"{BENCH} {ratio} --input-len 100 --output-len 10")[0]
    lengths = lengths.workload.lengths
    assert (lengths.min_prompt_tokens, lengths.max_prompt_tokens) == (50, 150)
    assert (lengths.min_output_tokens, lengths.max_output_tokens) == (10, 10)


def test_other_data_sets(tmp_path):
    share = scenario(SERVE, f"{BENCH} --dataset-name sharegpt --dataset-path x.json")
    assert share[0].workload.lengths.mean_prompt_tokens == 219
    assert any("an assumed spread" in told.why for told in share[1].told)
    sonnet = scenario(SERVE, f"{BENCH} --dataset-name sonnet")[0].workload
    assert sonnet.shared_prefix_tokens == 200
    repeated = scenario(SERVE, f"{BENCH} --dataset-name prefix_repetition")[0].workload
    assert len(repeated.classes) == 10
    assert repeated.classes[3].shared_prefix_tokens == 256
    assert math.isclose(sum(one.share for one in repeated.classes), 1.0)
    assert repeated.lengths.prompt_tokens == 512


def test_a_timed_trace():
    trace = (
        f"{BENCH} --dataset-name timed_trace --dataset-path t.jsonl --self-timed "
        "--timed-trace-chunk-hash-size 512 --num-prompts 60"
    )
    own = scenario(SERVE, trace)[0].workload.trace
    assert (own.path, own.format, own.block_tokens, own.limit) == (
        "t.jsonl",
        "timed_trace",
        512,
        60,
    )
    ms = scenario(SERVE, f"{trace} --timed-trace-sec-multiplier 0.001")[0].workload.trace
    assert (ms.format, ms.rate_scale) == ("mooncake", 1.0)
    slow = scenario(SERVE, f"{trace} --timed-trace-sec-multiplier 4")[0].workload.trace
    assert slow.rate_scale == 0.25  # four times as slow


def test_goodput_becomes_limits_of_each_request():
    found, _ = scenario(SERVE, f"{BENCH} --goodput ttft:500 tpot:50 e2el:9000 --seed 3")
    assert found.slo.root == {"ttft_ms": 500.0, "tpot_ms": 50.0, "e2el_ms": 9000.0}
    assert found.seed == 3


def test_commands_of_a_client_that_change_nothing():
    _, translation = scenario(
        SERVE,
        f"{BENCH} --backend vllm --base-url http://x --endpoint /v1/completions --save-result "
        "--result-dir out --percentile-metrics ttft,tpot --metric-percentiles 50,99 --ignore-eos "
        "--header a=b c=d --temperature 0 --trust-remote-code --disable-tqdm --num-warmups 5",
    )
    assert unknown(translation) == []
    assert not any(told.matters for told in translation.told)


def test_what_is_set_beside_the_commands():
    found, _ = scenario(SERVE, extra=[parse_override("cluster.gpu=a100_sxm")])
    assert found.cluster.gpu == "a100_sxm"
    assert resolve(found).gpu.name == "a100_sxm"


@pytest.mark.parametrize(
    ("commands", "sentence"),
    [
        ((BENCH,), "no engine is given"),
        ((SERVE, SERVE), "two commands of the kind vllm serve"),
        (("ls -l",), "is neither `vllm serve` nor `vllm bench serve`"),
        ((f"{SERVE} --host 'x",), "check its quotes"),
        (("vllm serve --port 1",), "no model is named"),
        ((f"{SERVE} --max-num-seqs many",), "--max-num-seqs many: must be a whole number"),
        ((f"{SERVE} --max-num-seqs",), "--max-num-seqs stands without a value"),
        ((f"{SERVE} --max-num-seqs -1",), "--max-num-seqs: scheduler.max_num_seqs is -1"),
        ((f"{SERVE} --gpu-memory-utilization 1.5",), "--gpu-memory-utilization: kv_cache"),
        ((f"{SERVE} --enable-prefix-caching=maybe",), "must be true or false"),
        ((SERVE, f"{BENCH} --dataset-name custom"), "write prompt_tokens,output_tokens"),
        ((SERVE, f"{BENCH} --dataset-name timed_trace"), "needs --dataset-path"),
        ((SERVE, f"{BENCH} --goodput itl:5"), "must be ttft:MS, tpot:MS or e2el:MS"),
        ((SERVE, f"{BENCH} --random-range-ratio 1"), "at least 0 and less than 1"),
        ((SERVE, f"{BENCH} --request-rate 1 --burstiness 0"), "must be above 0"),
        ((SERVE, f"{BENCH} --ramp-up-strategy linear"), "rising rates are not taken"),
    ],
)
def test_commands_that_make_no_scenario(commands, sentence):
    with pytest.raises(InputError) as refused:
        from_commands(commands)
    assert sentence in str(refused.value)


def test_nothing_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scenario(f"{SERVE} --host $(touch made) --api-key `touch made`; touch made", BENCH)
    assert list(tmp_path.iterdir()) == []
