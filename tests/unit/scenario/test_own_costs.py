"""A scenario priced with the user's own coefficients and host time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cost_models import StepCost, calibration
from simulator.errors import InputError
from simulator.scenario import Scenario, resolve

HOST = {"per_step_s": 0.02, "per_seq_s": 0.0, "gap_s": 0.02, "per_request_s": 0.5, "source": "mine"}


def own(mapping: dict[str, Any], folder: Path, **cost: Any) -> Scenario:
    return Scenario.from_mapping({**mapping, "cost_model": {"kind": "calibrated", **cost}}, folder)


def test_the_hosts_time_is_the_files(mapping: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text(json.dumps(HOST))
    theirs, mine = own(mapping, tmp_path), own(mapping, tmp_path, host="host.json")
    price = resolve(mine).cost
    assert price.frontend.wait_s == 0.5
    # The next step may start 20 ms after this one, in place of the release's 0.45 ms.
    longer_s = price.step([128]).host_s - resolve(theirs).cost.step([128]).host_s
    assert longer_s == pytest.approx(0.02 - 0.00045)
    assert mine.hash() != theirs.hash()
    before = mine.hash()
    (tmp_path / "host.json").write_text(json.dumps({**HOST, "gap_s": 0.03}))
    assert mine.hash() != before


def test_coefficients_stand_in_for_the_shipped_of_their_type(
    mapping: dict[str, Any], tmp_path: Path
) -> None:
    shipped = calibration.load("h100_sxm", "vllm", "bf16")
    slower = shipped.gemm.model_copy(
        update={"roofline": {**shipped.gemm.roofline, "weight_bytes_per_s": 1e11}}
    )
    file = tmp_path / "mine.json"
    file.write_text(calibration.dump(shipped.model_copy(update={"gemm": slower})))
    mine = own(mapping, tmp_path, coefficients=["mine.json"])
    theirs = resolve(own(mapping, tmp_path)).cost
    assert resolve(mine).cost.step([128]).gpu_s > 5 * theirs.step([128]).gpu_s


def test_files_of_others_are_refused(mapping: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.json: no such file; give what `servecast calib"):
        resolve(own(mapping, tmp_path, coefficients=["no.json"]))
    with pytest.raises(InputError, match=r"no\.json: no such file"):
        resolve(own(mapping, tmp_path, host="no.json"))
    path = calibration.ROOT / "l40s-vllm-bf16.json"
    with pytest.raises(InputError, match="is of l40s under vllm, not of h100_sxm under vllm"):
        StepCost.load("llama-3.1-8b", "h100_sxm", coefficients=[path])
    same = calibration.ROOT / "h100_sxm-vllm-bf16.json"
    with pytest.raises(InputError, match="is the second file of bf16"):
        StepCost.load("llama-3.1-8b", "h100_sxm", coefficients=[same, same])


def test_an_effect_is_switched_off_by_its_name(mapping: dict[str, Any], tmp_path: Path) -> None:
    on_b300 = {**mapping, "cluster": {"gpu": "b300"}}
    with_it = resolve(own(on_b300, tmp_path)).cost
    without = resolve(own(on_b300, tmp_path, without=["past_of_chunk"])).cost
    assert with_it.step([], [(256, 8192)]).gpu_s > without.step([], [(256, 8192)]).gpu_s
    assert "past_of_chunk" not in without.provenance
    with pytest.raises(InputError, match=r"cost_model\.without"):
        own(mapping, tmp_path, without=["gravity"])
