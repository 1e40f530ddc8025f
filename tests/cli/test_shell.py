"""The command line's shell: exit codes, errors without tracebacks, start-up time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from simulator.scenario import Scenario

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def servecast(tmp_path: Path) -> Run:
    """Run the installed command in an empty folder."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [Path(sys.executable).with_name("servecast"), *arguments],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def _is_one_sentence(result: subprocess.CompletedProcess[str]) -> bool:
    lines = result.stderr.strip().splitlines()
    return result.returncode == 2 and len(lines) == 1 and lines[0].startswith("error: ")


def test_help_names_every_command_and_is_quick(servecast: Run) -> None:
    before = os.times()
    result = servecast("--help")
    after = os.times()
    assert result.returncode == 0
    for command in ("run", "compare", "cost", "calibrate", "conformance", "trace", "init"):
        assert f"  {command} " in result.stdout
    # Processor time, which a busy machine does not stretch.
    used_s = after.children_user + after.children_system
    used_s -= before.children_user + before.children_system
    assert used_s < 0.5


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "import simulator.cli.main\n"
        "heavy = {'numpy', 'numba', 'pandas', 'pydantic', 'matplotlib', 'pyarrow', 'scipy', 'rich'}"
        "\nprint(*sorted(heavy & set(sys.modules)))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == []


def test_version(servecast: Run) -> None:
    result = servecast("--version")
    assert (result.returncode, result.stdout) == (0, "servecast 0.1.0\n")


def test_usage_errors_exit_with_2(servecast: Run) -> None:
    for arguments in (["nonsense"], ["run"], ["list", "cars"], ["init", "--nonsense"]):
        result = servecast(*arguments)
        assert result.returncode == 2
        assert "Traceback" not in result.stderr


def test_bad_input_is_one_sentence(servecast: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("model: llama-3.1-8b\nworkload: {arivals: {}}\n")
    result = servecast("run", "bad.yaml")
    assert _is_one_sentence(result)
    assert "bad.yaml line 2: workload.arivals is not a key" in result.stderr
    result = servecast("run", "chat-8b-h100", "--set", "cluster.replicas=0")
    assert _is_one_sentence(result)
    assert "--set: cluster.replicas is 0; it must be at least 1" in result.stderr
    result = servecast("run", "chat-8b-h10")
    assert _is_one_sentence(result)
    assert "did you mean chat-8b-h100?" in result.stderr
    assert _is_one_sentence(servecast("show", "nothing-like-it"))


def test_an_interrupted_command_exits_with_130() -> None:
    code = (
        "from simulator.cli import main\n"
        "@main.app.command('wait')\n"
        "def wait() -> None:\n"
        "    raise KeyboardInterrupt\n"
        "import sys\n"
        "sys.argv = ['servecast', 'wait']\n"
        "main.main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 130
    assert "Traceback" not in result.stderr


def test_init_writes_a_scenario_and_keeps_what_is_there(servecast: Run, tmp_path: Path) -> None:
    assert servecast("init", "mine.yaml").returncode == 0
    assert Scenario.from_yaml(tmp_path / "mine.yaml").model.name == "llama-3.1-8b"
    (tmp_path / "mine.yaml").write_text("kept")
    result = servecast("init", "mine.yaml")
    assert _is_one_sentence(result)
    assert (tmp_path / "mine.yaml").read_text() == "kept"
    assert servecast("init", "mine.yaml", "--force").returncode == 0
    assert _is_one_sentence(servecast("init", "no/such/folder.yaml"))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("models", "llama-3.1-8b"),
        ("models", "qwen3-30b-a3b"),  # has experts
        ("models", "deepseek-v3"),  # has experts and latent attention
        ("gpus", "h100_sxm"),
        ("engines", "vllm"),
        ("schedulers", "chunked_prefill"),
        ("orders", "fair"),
        ("traces", "azure"),
        ("traces", "servegen"),
        ("scenarios", "chat-8b-h100"),
    ],
)
def test_list_and_show(servecast: Run, kind: str, name: str) -> None:
    listed = servecast("list", kind)
    assert listed.returncode == 0
    assert name in listed.stdout
    shown = servecast("show", name)
    assert shown.returncode == 0
    assert name.lower() in shown.stdout.lower()


def test_a_name_of_two_catalogues_is_shown_from_both(servecast: Run) -> None:
    shown = servecast("show", "sglang").stdout
    assert "scheduler.policy: sglang" in shown
    assert "releases:" in shown


def test_show_gives_files_that_work(servecast: Run, tmp_path: Path) -> None:
    (tmp_path / "copy.yaml").write_text(servecast("show", "chat-8b-h100").stdout)
    copy, original = Scenario.from_yaml(tmp_path / "copy.yaml"), Scenario.from_yaml("chat-8b-h100")
    assert copy.hash() == original.hash()
    assert yaml.safe_load(servecast("show", "schema").stdout)["title"] == "servecast scenario"
