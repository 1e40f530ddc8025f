"""`servecast validate` prints errors by row and group, and what it left out."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from simulator.cli.main import app

ROWS = """engine,engine_version,gpu,tp,model,weight_precision,isl,osl,isl_dist,load_kind,\
load_value,num_requests,ttft_ms_mean,tpot_ms_mean
vllm,0.12,H100-SXM,1,Qwen/Qwen3-8B,bf16,200,100,fixed,concurrency,4,20,20,8
tgi,3.0,H100-SXM,1,Qwen/Qwen3-8B,bf16,200,100,fixed,concurrency,4,20,20,8
"""


def test_text_and_json(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(ROWS, encoding="utf-8")
    result = CliRunner().invoke(app, ["validate", str(path)])
    assert result.exit_code == 0, result.output
    assert "rows simulated: 1, left out: 1" in result.output
    assert "engine tgi is not in the catalogue" in result.output
    result = CliRunner().invoke(app, ["validate", str(path), "--json"])
    facts = json.loads(result.stdout)
    (row,) = facts["rows"]
    predicted, error = row["predicted"]["tpot_ms_mean"], row["error_pct"]["tpot_ms_mean"]
    assert abs(error - 100 * (predicted / 8 - 1)) < 1e-9
    (group,) = facts["groups"]
    assert group["errors"]["tpot_ms_mean"]["bias_pct"] == error
    assert facts["left_out"] == {"engine tgi is not in the catalogue": 1}
