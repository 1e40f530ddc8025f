"""A scheduler in a user's own file, compiled or in plain Python, by path or module."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from engine_cases import digest, run, table

from simulator.errors import InputError
from simulator.scenario import Scenario
from simulator.schedulers.loader import load_policy
from simulator.simulation import simulate

HERE = Path(__file__).parent
EXAMPLE = HERE / "my_scheduler.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A user's folder with the example in it; who runs it first compiles it there."""
    folder = tmp_path_factory.mktemp("first")
    shutil.copy(EXAMPLE, folder)
    return folder


def plain(compose):
    """The same policy as plain Python, as if its author had left out the decorator."""
    return getattr(compose, "py_func", compose)


def test_the_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) <= 60


def test_prompts_take_a_quarter_of_the_budget_beside_decodes(folder):
    # Budget 16, so 4 for prompts.  0: r0 is alone, its 8 tokens may exceed them -> 3 s.
    # 3: r0+1; r1 of 4 fits, r2 does not -> 2.25 s; r0:2 ends, r1:1 ends.
    # 5.25: r2 is alone -> 2.25 s.
    compose = load_policy("my_scheduler.py:compose", folder)
    for form in (compose, plain(compose)):
        done = run(table((0.0, 8, 2), (1.0, 4, 1), (1.5, 5, 1)), form)
        assert done.rows("start_s", "end_s", "scheduled_tokens", "waiting") == [
            (0.0, 3.0, 8, 0),
            (3.0, 5.25, 5, 1),
            (5.25, 7.5, 5, 0),
        ]


@pytest.mark.parametrize("router", ["round_robin", "least_outstanding"])
@pytest.mark.parametrize("max_concurrency", [None, 7])
def test_plain_and_compiled_forms_give_the_same_bits(folder, router, max_concurrency):
    random = np.random.default_rng(3)
    arrival_s = np.cumsum(random.exponential(0.7, 60))
    rows = zip(arrival_s, random.integers(1, 12, 60), random.integers(1, 9, 60), strict=True)
    requests = table(*rows, max_concurrency=max_concurrency)
    compose = load_policy("my_scheduler.py:compose", folder)
    tight = {"usable_blocks": 7, "block_size": 3, "max_model_len": 21, "replicas": 2}
    tight["max_num_batched_tokens"] = 64
    runs = [run(requests, form, router=router, **tight) for form in (compose, plain(compose))]
    assert runs[0].recording.outcome.preemptions.sum() > 0
    assert digest(runs[0].recording) == digest(runs[1].recording)


@pytest.mark.parametrize("name", ["static", "continuous", "orca", "chunked_prefill"])
def test_built_in_policies_run_as_plain_python_too(name):
    compose = load_policy(name, HERE)
    requests = table(*[(0.5 * k, 1 + k % 7, 1 + k % 5) for k in range(30)])
    limits = {"usable_blocks": 8, "max_model_len": 32, "batch_size": 3, "max_wait_s": 1.0}
    limits["hold_finished"] = name == "static"
    ours = run(requests, compose, **limits)
    assert digest(ours.recording) == digest(run(requests, plain(compose), **limits).recording)


SCENARIO = {
    "name": "own scheduler",
    "workload": {
        "arrivals": {"process": "constant", "rate": 0.5},
        "lengths": {"distribution": "fixed", "prompt_tokens": 8, "output_tokens": 2},
        "num_requests": 3,
    },
    "model": "llama-3.1-8b",
    "scheduler": {"max_num_seqs": 4, "max_num_batched_tokens": 64},
    "kv_cache": {"num_gpu_blocks": 101, "max_model_len": 64},
    "cost_model": {"kind": "linear", "t_mem_s": 1.0, "t_flop_s_per_token": 0.25},
}


@pytest.mark.parametrize("where", [str(EXAMPLE), "simulator.schedulers.orca"])
def test_a_scenario_names_a_file_or_a_module(where):
    scenario = Scenario.from_mapping(SCENARIO).with_overrides([f"scheduler.policy={where}:compose"])
    steps = simulate(scenario).recording.steps
    assert steps.scheduled_tokens.sum() == 3 * (8 + 2 - 1)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("gone.py:compose", None, "there is no file"),
        ("mine.py:compose", "def other(engine, r, now): ...", "has no function compose"),
        ("mine.py:compose", "compose = 3", "has no function compose"),
        ("mine.py:compose", "import nothing_of_that_name", "fails on import (ModuleNotFoundError"),
        ("mine.py:compose", "def compose(:", "fails on import (SyntaxError"),
        ("no_such_module:compose", None, "the module cannot be imported"),
        ("simulator.schedulers.orca:composes", None, "has no function composes"),
    ],
)
def test_what_is_not_a_policy_is_refused_in_one_sentence(tmp_path, name, text, said):
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(InputError) as refusal:
        load_policy(name, tmp_path)
    message = str(refusal.value)
    assert message.startswith(f"scheduler.policy is {name}, but ")
    assert said in message
    assert "\n" not in message


def test_a_policy_that_fails_while_running_is_its_authors_error():
    def compose(engine, r, now):
        raise RuntimeError("my own mistake")

    with pytest.raises(RuntimeError, match="my own mistake"):
        run(table((0.0, 4, 1)), compose)


def test_two_files_of_one_name_are_two_policies(tmp_path):
    for folder, tokens in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(
            f"def compose(engine, r, now):\n    return {tokens}\n"
        )
    first = load_policy("mine.py:compose", tmp_path / "a")
    second = load_policy("mine.py:compose", tmp_path / "b")
    assert (first(None, 0, 0.0), second(None, 0, 0.0)) == (1, 2)


# Prints when the request ends, and how often something was compiled.
RUN_IT = """
import sys
from pathlib import Path
from numba.core import event
from engine_cases import run, table
from simulator.schedulers.loader import load_policy
compiled = event.RecordingListener()
event.register("numba:compile", compiled)
done = run(table((0.0, 8, 2)), load_policy("my_scheduler.py:compose", Path(sys.argv[1])))
print(done.times("finished_s"), len(compiled.buffer))
"""


def test_a_compiled_policy_runs_again_from_its_cache(folder):
    # Compiled by this process; run again by another one, where Python hashes strings differently.
    run(table((0.0, 8, 2)), load_policy("my_scheduler.py:compose", folder))
    path = os.pathsep.join([str(HERE.parents[1]), *sys.path])
    environment = os.environ | {"PYTHONPATH": path}
    environment.pop("PYTHONHASHSEED", None)
    done = subprocess.run(
        [sys.executable, "-c", RUN_IT, folder],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    # 0: 8 tokens -> 3 s; 3: 1 token -> 1.25 s
    assert (done.stdout, done.stderr) == ("[(4.25,)] 0\n", "")
