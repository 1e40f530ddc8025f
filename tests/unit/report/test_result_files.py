"""Files are whole, the same bytes for the same results, and explain themselves."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from recordings import recording, req, resolved, step

from simulator.metrics.attribution import attribute
from simulator.metrics.glossary import OPTIONAL_COLUMNS, REQUEST_COLUMNS, STEP_COLUMNS
from simulator.report.files import to_json, write_atomically, write_text
from simulator.report.tables import columns_markdown, write_requests, write_steps

ROWS = [
    req(0.0, 10, 3, admitted=0.0, first=1.0, finished=3.0),
    req(0.5, 20, 1, reject="queue_full"),
]


def test_json_has_no_nan_and_keeps_its_order():
    text = to_json({"b": float("nan"), "a": [0.1 + 0.2, 1e-17, float("inf")], "n": 3})
    assert text == '{\n  "b": null,\n  "a": [\n    0.3,\n    1e-17,\n    null\n  ],\n  "n": 3\n}\n'


def test_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "summary.json"
    write_text(path, "old")

    def fail(temporary):
        temporary.write_text("half")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]


def test_requests_parquet(tmp_path):
    path = tmp_path / "requests.parquet"
    write_requests(recording(ROWS), path, attribute(recording(ROWS), resolved()))
    table = pq.read_table(path)
    assert table.column_names == [name for name in REQUEST_COLUMNS if name not in OPTIONAL_COLUMNS]
    assert table["status"].to_pylist() == ["finished", "rejected"]
    assert table["reject_reason"].to_pylist() == ["", "queue_full"]
    assert table["ttft_ms"].to_pylist() == [1000.0, None]
    for field in table.schema:
        assert field.metadata[b"description"].decode() == REQUEST_COLUMNS[field.name]


def test_steps_parquet_is_the_same_bytes_each_time(tmp_path):
    rec = recording(ROWS, [step(0, 1, decode_seqs=3), step(1, 2, kv_tokens=2**40)])
    for name in ("a", "b"):
        write_steps(rec, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    table = pq.read_table(tmp_path / "a")
    assert table.column_names == [name for name in STEP_COLUMNS if name not in OPTIONAL_COLUMNS]
    assert table["kv_tokens"].to_pylist() == [0, 2**40]


def test_names_that_a_source_gives_are_kept(tmp_path):
    rec = recording(ROWS)
    object.__setattr__(rec.requests, "ids", ("first", "second"))
    write_requests(rec, tmp_path / "r.parquet")
    assert pq.read_table(tmp_path / "r.parquet")["id"].to_pylist() == ["first", "second"]


def test_markdown_glossary_lists_every_column():
    page = columns_markdown()
    for name in [*REQUEST_COLUMNS, *STEP_COLUMNS]:
        assert f"| `{name}` |" in page
