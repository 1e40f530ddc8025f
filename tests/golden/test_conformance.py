"""Our schedule is the engine's own: step for step, block for block."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from pathlib import Path

import pytest

from simulator.cli.main import main
from simulator.conformance.compare import first_difference
from simulator.conformance.workload import find_cases, load_case

HERE = Path(__file__).parent
FOLDERS = {"minimal": 25, "dev": 30, "async": 6, "eos": 36, "lora": 16}
CASES = [path for name in FOLDERS for path in find_cases(HERE / name)]


def name_of(path):
    return f"{path.parent.name}/{path.name.split('.')[0]}"


def test_all_recordings_are_here():
    assert {name: len(find_cases(HERE / name)) for name in FOLDERS} == FOLDERS


@pytest.mark.parametrize("path", CASES, ids=name_of)
def test_identical_to_the_recording(path):
    assert first_difference(load_case(path)) is None


@pytest.fixture
def conformance(monkeypatch, capsys):
    """Run the command as the shell would: (exit code, stdout, stderr)."""

    def command(folder):
        monkeypatch.setattr(sys, "argv", ["servecast", "conformance", str(folder)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out, captured.err

    return command


def answer_of(path):
    return path.with_name(path.name.split(".")[0] + ".oracle.jsonl.gz")


@pytest.fixture
def folder(tmp_path):
    """A folder with two recordings that must be identical."""
    for path in CASES[:2]:
        shutil.copy(path, tmp_path)
        shutil.copy(answer_of(path), tmp_path)
    return tmp_path


def rewrite(path, change):
    """Change the records of an answer in place."""
    records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    change(records)
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, records)).encode()))


def test_command_counts_the_identical(folder, conformance):
    assert conformance(folder) == (0, "2 of 2 identical\n", "")


def set_step(field, value):
    def change(records):
        steps = [record for record in records if record["type"] == "step"]
        steps[3][field] = value

    return change


def set_end(records):
    records[-1]["tokens"] += 1


def drop_step(records):
    del records[[record["type"] for record in records].index("step") + 3]


def set_request(records):
    next(record for record in records if record["type"] == "req")["preemptions"] += 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (set_step("free", 3), "step 3: free is 3 in the recording"),
        (set_step("wait", 77), "step 3: wait is 77 in the recording"),
        (set_step("s", {"nobody": 1}), "step 3: s is [('nobody', 1)] in the recording"),
        (set_step("pre", ["r000"]), "step 3: pre is ['r000'] in the recording, [] here"),
        (drop_step, "step 4: "),
        (set_request, ": preemptions is 1 in the recording, 0 here"),
        (set_end, "end: tokens is "),
    ],
)
def test_command_names_the_first_difference(folder, conformance, change, named):
    tampered = sorted(folder.glob("*.oracle.jsonl.gz"))[0]
    rewrite(tampered, change)
    code, out, err = conformance(folder)
    assert (code, err) == (1, "")
    first, last = out.splitlines()
    assert first.startswith(tampered.name.split(".")[0] + ": ")
    assert named in first
    assert last == "1 of 2 identical"


def test_the_order_of_the_batch_counts(folder, conformance):
    def swap(records):
        step = next(r for r in records if r["type"] == "step" and len(r["s"]) > 1)
        step["s"] = dict(reversed(step["s"].items()))

    rewrite(sorted(folder.glob("*.oracle.jsonl.gz"))[0], swap)
    assert conformance(folder)[0] == 1


def remove_answer(folder):
    sorted(folder.glob("*.oracle.jsonl.gz"))[0].unlink()


def cut_answer(folder):
    answer = sorted(folder.glob("*.oracle.jsonl.gz"))[0]
    answer.write_bytes(answer.read_bytes()[:100])


def break_workload(folder):
    next(path for path in folder.iterdir() if "oracle" not in path.name).write_text("{")


def empty(folder):
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (remove_answer, "has no recorded answer; expected"),
        (cut_answer, "is not a recorded schedule"),
        (break_workload, "is not a recorded schedule"),
        (empty, "holds no recorded schedule; expected X.json"),
        (shutil.rmtree, "is not a folder"),
    ],
)
def test_command_refuses_what_it_cannot_read_in_one_sentence(folder, conformance, change, said):
    change(folder)
    code, out, err = conformance(folder)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1
