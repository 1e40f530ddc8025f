"""A worker parses a trace once, and again when it has changed."""

from __future__ import annotations

import os

import pytest

from simulator.errors import InputError
from simulator.workload.traces import kept

HEADER = "arrival_s,prompt_tokens,output_tokens\n"


@pytest.fixture
def reads(monkeypatch):
    """Paths that are really read, in order."""
    seen = []
    original = kept.read_trace

    def counted(path, *arguments, **options):
        seen.append(path.name)
        return original(path, *arguments, **options)

    monkeypatch.setattr(kept, "read_trace", counted)
    monkeypatch.setattr(kept, "_kept", None)
    return seen


def trace(folder, name, rows):
    path = folder / name
    path.write_text(HEADER + rows)
    return path


def test_only_those_who_ask_keep_traces(tmp_path, reads):
    path = trace(tmp_path, "a.csv", "0,5,5\n")
    for _ in range(2):
        kept.read_kept(path, "auto")
    assert reads == ["a.csv"] * 2
    kept.keep_traces()
    for _ in range(3):
        assert len(kept.read_kept(path, "auto")) == 1
    assert reads == ["a.csv"] * 3


def test_a_changed_file_or_other_options_are_read_again(tmp_path, reads):
    kept.keep_traces()
    path = trace(tmp_path, "a.csv", "0,5,5\n")
    kept.read_kept(path, "auto")
    path.write_text(HEADER + "0,5,5\n1,6,6\n")
    os.utime(path, ns=(1, 1))
    assert len(kept.read_kept(path, "auto")) == 2
    kept.read_kept(path, "auto", on_bad_row="skip")
    assert len(reads) == 3


def test_few_are_kept(tmp_path, reads):
    kept.keep_traces()
    paths = [trace(tmp_path, f"{name}.csv", "0,5,5\n") for name in "abc"]
    for path in (*paths, paths[0], paths[2]):
        kept.read_kept(path, "auto")
    assert reads == ["a.csv", "b.csv", "c.csv", "a.csv"]


def test_a_missing_file_is_told(tmp_path, reads):
    kept.keep_traces()
    with pytest.raises(InputError, match="nowhere"):
        kept.read_kept(tmp_path / "nowhere.csv", "auto")
