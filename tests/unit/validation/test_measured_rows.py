"""Measured rows become the conditions that they name, or a reason to leave them out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.validation import names, score
from simulator.validation.conditions import scenario
from simulator.validation.measured import CannotSimulateError, Measured
from simulator.validation.read import read

COLUMNS = (
    "engine,engine_version,gpu,tp,pp,model,weight_precision,kv_precision,isl,osl,isl_dist,"
    "load_kind,load_value,num_requests,max_num_seqs,ttft_ms_mean,tpot_ms_mean,notes"
)


def table(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text("\n".join([COLUMNS, *rows]) + "\n", encoding="utf-8")
    return path


def one(path: Path, **given: object) -> Measured:
    (row,) = read(path, given)
    assert isinstance(row, Measured), row
    return row


def test_a_closed_loop_row_becomes_its_scenario(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        "vllm,0.10.2,H200-SXM-141GB,4,1,nvidia/Llama-3.3-70B-Instruct-FP8,fp8,fp8,1024,8192,"
        "random uniform 0.8-1.0,concurrency,16,160,16,120,11,flags: async-scheduling",
    )
    row = one(path)
    assert (row.model, row.gpu, row.weight_dtype, row.kv_dtype) == (
        "llama-3.3-70b", "h200_sxm", "fp8", "fp8",
    )  # fmt: skip
    assert row.prompt_tokens == (819, 1024)
    assert row.output_tokens == (6554, 8192)
    made = scenario(row, tmp_path)
    assert made.workload.arrivals.concurrency == 16
    assert made.workload.num_requests == 160
    assert made.scheduler.max_num_seqs == 16
    assert made.scheduler.async_scheduling is True
    assert made.cluster.tensor_parallel == 4


def test_prefix_caching_is_the_releases_unless_a_row_says_no(tmp_path: Path) -> None:
    row = "vllm,0.12,H100,1,1,qwen3-8b,bf16,,900,900,fixed,concurrency,4,,,1,1,"
    path = table(tmp_path, row)
    assert scenario(one(path), tmp_path).kv_cache.enable_prefix_caching is None
    head, body = path.read_text(encoding="utf-8").splitlines()
    path.write_text(f"{head},prefix_caching\n{body},False\n", encoding="utf-8")
    assert scenario(one(path), tmp_path).kv_cache.enable_prefix_caching is False


def test_a_mean_length_stands_for_ten_ninths_of_it(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        "vllm,0.12,H100,1,1,qwen3-8b,bf16,,920.7,900,uniform 0.8-1.0,concurrency,4,,,1,1,",
    )
    assert one(path).prompt_tokens == (818, 1023)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("sgl,1,H100,1,1,qwen3-8b,bf16,,9,9,fixed,concurrency,4,,,1,1,", "engine sgl"),
        ("vllm,x,H100,1,1,qwen3-8b,bf16,,9,9,fixed,concurrency,4,,,1,1,", "release"),
        ("vllm,0.12,TPU,1,1,qwen3-8b,bf16,,9,9,fixed,concurrency,4,,,1,1,", "GPU TPU"),
        ("vllm,0.12,H100-40GB,1,1,qwen3-8b,bf16,,9,9,fixed,concurrency,4,,,1,1,", "GPU"),
        ("vllm,0.12,H100,1,2,qwen3-8b,bf16,,9,9,fixed,concurrency,4,,,1,1,", "pipeline"),
        ("vllm,0.12,H100,1,1,gpt-2,bf16,,9,9,fixed,concurrency,4,,,1,1,", "model gpt-2"),
        ("vllm,0.12,H100,1,1,qwen3-8b,int3,,9,9,fixed,concurrency,4,,,1,1,", "int3"),
        ("vllm,0.12,H100,1,1,qwen3-8b,bf16,,9,9,sharegpt,concurrency,4,,,1,1,", "spread"),
        ("vllm,0.12,H100,1,1,qwen3-8b,bf16,,9,9,fixed,waves,4,,,1,1,", "load waves"),
        ("vllm,0.12,H100,1,1,qwen3-8b,bf16,,9,9,fixed,concurrency,4,,,,,", "no result"),
    ],
)
def test_what_cannot_be_simulated_says_why(tmp_path: Path, row: str, reason: str) -> None:
    (found,) = read(table(tmp_path, row), {})
    assert isinstance(found, CannotSimulateError)
    assert reason in str(found)


def test_a_refusal_of_the_simulator_is_counted(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        "vllm,0.12,L40S,1,1,llama-3.1-70b,bf16,,9,9,fixed,concurrency,4,,,1,1,",
    )
    scores = score.validate(read(path, {}))
    assert scores.predictions == ()
    ((reason, rows),) = scores.left_out.items()
    assert "does not fit" in reason
    assert rows == 1


def test_a_trace_takes_the_requests_beside_the_file(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        "vllm,0.19,H100,1,1,llama-3.1-8b,bf16,,9,9,a trace,rate(trace),10,3,,5,5,makespan 2.5s",
    )
    (tmp_path / "runs_requests.csv").write_text(
        "gpu,isl,osl,arrival_s,queue_ms\nH100,100,5,0.0,1\nTPU,9,9,0,9\nH100,200,6,0.5,3\n",
        encoding="utf-8",
    )
    row = one(path)
    assert row.requests == ((0.0, 100, 5), (0.5, 200, 6))
    assert row.results["queue_ms_mean"] == 2.0
    assert row.results["makespan_s"] == 2.5
    prediction = score.predict(row)
    # Two short prompts on an idle engine: the second arrives at 0.5 s and ends the run.
    assert 0.5 < prediction.predicted["makespan_s"] < 0.7
    assert prediction.predicted["queue_ms_mean"] < 10.0  # in the API server, not in a queue


def test_the_result_of_a_benchmark(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result = {
        "model_id": "Qwen/Qwen3-14B",
        "num_prompts": 20,
        "completed": 20,
        "request_rate": 2.0,
        "burstiness": 1.0,
        "max_concurrency": None,
        "total_input_tokens": 20 * 986,
        "total_output_tokens": 20 * 128,
        "mean_tpot_ms": 12.4,
        "mean_ttft_ms": 66.0,
    }
    path.write_text(json.dumps(result), encoding="utf-8")
    with pytest.raises(InputError, match="on which GPU"):
        list(read(path, {}))
    row = one(path, gpu="h100_sxm", engine_version="0.23")
    assert (row.load, row.load_value) == ("poisson", 2.0)
    assert row.prompt_tokens == (986, 986)
    assert row.output_tokens == (128, 128)
    assert row.results == {"tpot_ms_mean": 12.4, "ttft_ms_mean": 66.0}
    # The saved lengths of the requests say more than their mean.
    path.write_text(
        json.dumps(result | {"input_lens": [900, 1000], "output_lens": [128, 128], "gpu": "H100"}),
        encoding="utf-8",
    )
    assert one(path).prompt_tokens == (900, 1000)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.txt", "", "give a .csv table"),
        ("a.csv", "x,y\n1,2\n", "has no column engine"),
        ("a.json", "{}", "has no num_prompts"),
    ],
)
def test_files_of_another_kind_are_refused(
    tmp_path: Path, name: str, content: str, sentence: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=sentence):
        list(read(tmp_path / name, {}))


def test_fp8_checkpoints_of_some_publishers_have_scales_per_block() -> None:
    assert names.weight_dtype("fp8", "Qwen/Qwen3-32B-FP8") == "fp8_block"
    assert names.weight_dtype("fp8", "nvidia/Llama-3.3-70B-Instruct-FP8") == "fp8"
    assert names.weight_dtype("bf16?", "Qwen/Qwen3-32B") == "bf16"


def test_summary_of_errors_by_hand() -> None:
    # Sizes 1, 2, 3, 4, 10: median 3, p90 = 4 + 0.6 * 6 by linear interpolation.
    found = score.summary(np.array([1.0, -2.0, 3.0, -4.0, -10.0]))
    assert found["bias_pct"] == pytest.approx(-2.4)
    assert found["mape_pct"] == pytest.approx(4.0)
    assert found["median_pct"] == pytest.approx(3.0)
    assert found["p90_pct"] == pytest.approx(7.6)
    assert found["worst_pct"] == -10.0


def test_clients_of_equal_requests_do_not_start_in_step(tmp_path: Path) -> None:
    path = table(tmp_path, "vllm,0.12,H100,1,1,qwen3-8b,bf16,,200,101,fixed,concurrency,4,,,500,5,")
    made = scenario(one(path), tmp_path).workload
    # A request takes 0.5 + 100 * 0.005 = 1 s: four start within half a second.
    assert made.arrivals.rate == pytest.approx(8.0)
    assert made.max_concurrency == 4
    assert made.num_requests == 40
