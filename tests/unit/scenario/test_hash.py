"""Equal hashes mean equal results: what counts, and what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cost_models import calibration
from simulator.scenario import Scenario, hashing, resolve


def _hash(mapping: dict[str, Any], *overrides: str) -> str:
    return Scenario.from_mapping(mapping).with_overrides(overrides).hash()


def test_what_does_not_count(mapping: dict[str, Any]) -> None:
    plain = _hash(mapping)
    assert len(plain) == 64
    assert _hash(mapping, "name=other") == plain
    assert _hash(mapping, "cluster.replicas=1", "seed=0", "slo={}") == plain, "defaults"
    assert _hash(mapping, "workload.arrivals.rate=8") == plain, "8 and 8.0"
    reordered = {key: mapping[key] for key in reversed(mapping)}
    assert _hash(reordered) == plain, "order of keys"
    assert _hash({**mapping, "cluster": {"pipeline_parallel": 1}}) == plain, "switched off"


@pytest.mark.parametrize(
    "change",
    [
        "seed=1",
        "workload.arrivals.rate=8.000000001",
        "model=qwen3-8b",
        "model.kv_dtype=fp8",
        "cluster.gpu=a100_sxm",
        "scheduler.max_num_seqs=7",
        "slo.p99_ttft_ms=500",
        "cost_model.t_mem_s=5.1e-3",
        "warmup_s=1",
    ],
)
def test_what_counts(mapping: dict[str, Any], change: str) -> None:
    assert _hash(mapping, change) != _hash(mapping)


def test_a_trace_counts_by_its_bytes(mapping: dict[str, Any], tmp_path: Path) -> None:
    rows = "arrival_s,prompt_tokens,output_tokens\n0,10,5\n"
    for name in ("here/a.csv", "there/b.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(rows)

    def hash_of(folder: str, file: str) -> str:
        workload = {"trace": {"path": file}}
        return Scenario.from_mapping({**mapping, "workload": workload}, tmp_path / folder).hash()

    before = hash_of("here", "a.csv")
    assert hash_of("there", "b.csv") == before
    assert hash_of("there", "../here/a.csv") == before
    (tmp_path / "there/b.csv").write_text(rows + "1,10,5\n")
    assert hash_of("there", "b.csv") != before


def test_the_coefficients_count(
    mapping: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrated = "cost_model={kind: calibrated}"
    before = _hash(mapping, calibrated)
    name = calibration.file_name("h100_sxm", "vllm", "bf16")
    (tmp_path / name).write_text((calibration.ROOT / name).read_text() + "\n")
    linear = _hash(mapping)
    monkeypatch.setattr(calibration, "ROOT", tmp_path)
    assert _hash(mapping, calibrated) != before
    assert _hash(mapping) == linear


def test_the_semantics_version_counts(
    mapping: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _hash(mapping)
    monkeypatch.setattr(hashing, "SEMANTICS_VERSION", hashing.SEMANTICS_VERSION + 1)
    assert _hash(mapping) != before


def test_stating_the_defaults_is_resolving_to_the_same(mapping: dict[str, Any]) -> None:
    resolved = resolve(Scenario.from_mapping(mapping)).scenario
    assert resolve(resolved).scenario.hash() == resolved.hash()
    assert resolved.scheduler.max_num_seqs is not None
    stated = Scenario.from_mapping(mapping).with_overrides(
        [f"scheduler.max_num_seqs={resolved.scheduler.max_num_seqs}"]
    )
    assert resolve(stated).scenario.hash() == resolved.hash()
