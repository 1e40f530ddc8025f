"""Executors: every item's answer, whatever happens to items beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from executor_work import Arithmetic

from simulator.planning.executors import Processes, Serial, local

HELPERS = Path(__file__).parents[2]


def squares(done):
    return {one.index: one.value[0] for one in done}


@pytest.mark.parametrize("executor", [Serial(), Processes(2)], ids=["serial", "processes"])
def test_failures_are_sentences_and_stop_nobody(executor):
    work = Arithmetic()
    done = sorted(executor.map(work, [3, "refused", 4, "fails", 5]), key=lambda one: one.index)
    assert work.prepared == isinstance(executor, Processes)
    assert [one.error for one in done] == [
        None, "no, since it is refused.", None,
        "ZeroDivisionError: integer division or modulo by zero", None,
    ]  # fmt: skip
    assert [one.value and one.value[0] for one in done] == [9, None, 16, None, 25]


def test_work_is_sent_once_to_each_worker():
    done = list(Processes(2).map(Arithmetic(), range(20)))
    assert squares(done) == {i: i * i for i in range(20)}
    counted = {}
    for one in done:
        _, seen, worker = one.value
        counted[worker] = max(counted.get(worker, 0), seen)
    # What a worker has seen grows from item to item: it holds one copy of the work.
    assert sum(counted.values()) == 20
    assert os.getpid() not in counted


def test_no_item_is_lost_when_workers_die(tmp_path):
    items = [1, "kills", 2, 3, "kills once", 4, 5, 6]
    done = {one.index: one for one in Processes(2).map(Arithmetic(tmp_path), items)}
    assert "worker process died 3 times" in done[1].error
    assert done[4].value == "at last"
    rest = [one for index, one in done.items() if index not in (1, 4)]
    assert squares(rest) == {0: 1, 2: 4, 3: 9, 5: 16, 6: 25, 7: 36}


def test_workers_end_when_their_parent_is_killed(tmp_path):
    program = (
        "from executor_work import Arithmetic\n"
        "from pathlib import Path\n"
        "from simulator.planning.executors import Processes\n"
        "if __name__ == '__main__':\n"
        f"    list(Processes(2).map(Arithmetic(Path({str(tmp_path)!r})), ['sleeps'] * 4))\n"
    )
    script = tmp_path / "parent.py"
    script.write_text(program)
    parent = subprocess.Popen(
        [sys.executable, script], env=os.environ | {"PYTHONPATH": str(HELPERS)}
    )
    workers = wait_for(lambda: [int(p.stem) for p in tmp_path.glob("*.pid")], 2)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for(lambda: [pid for pid in workers if not alive(pid)], 2)


def test_a_program_without_main_guard_is_told(tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from executor_work import Arithmetic\n"
        "from simulator.planning.executors import Processes\n"
        "list(Processes(2).map(Arithmetic(), [1, 2, 3]))\n"
    )
    ended = subprocess.run(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": str(HELPERS)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode != 0
    assert "InputError: worker processes cannot be started" in ended.stderr


def test_one_job_needs_no_process():
    assert isinstance(local(1), Serial)
    assert local(3).jobs == 3


def wait_for(find, count, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = find()
        if len(found) == count:
            return found
        time.sleep(0.05)
    raise AssertionError(f"found {find()} instead of {count}")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
