"""The runner of README's commands runs what stands there, and stops at what fails."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("readme", ROOT / "tests" / "readme.py")
assert spec is not None
assert spec.loader is not None
readme = importlib.util.module_from_spec(spec)
sys.modules["readme"] = readme
spec.loader.exec_module(readme)

TEXT = """\
# Title
<!-- file: made.txt -->
```yaml
a: 1
```
<!-- norun: it would fail -->
```sh
exit 3
```
```console
$ cp made.txt \\
  copied.txt
$ cat copied.txt
a: 1
```
<!-- shows: 1-1 3-4 -->
```console
$ seq 5
1
...
3
4
...
```
```python
open("python.txt", "w").write("x")
```
```text
not a command
```
"""


def test_blocks_run_in_order(tmp_path: Path) -> None:
    found = list(readme.blocks(TEXT))
    assert [b.language for b in found] == ["yaml", "sh", "console", "console", "python"]
    assert [b.line for b in found] == [3, 7, 10, 17, 25]
    assert found[1].marks == {"norun": "it would fail"}
    for block in found:
        if "norun" not in block.marks:
            assert readme.run(block, tmp_path) == block.text
    assert (tmp_path / "copied.txt").read_text() == "a: 1\n"
    assert (tmp_path / "python.txt").exists()


def test_a_failing_command_stops_it(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("```sh\nfalse\ntouch after\n```\n")
    with pytest.raises(subprocess.CalledProcessError):
        readme.main(path)


def test_output_that_is_not_what_is_shown_fails_and_can_be_updated(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("One\n```console\n$ echo 1\n2\n```\n```console\n$ echo 3\n```\nTwo\n")
    with pytest.raises(SystemExit, match="--update"):
        readme.main(path)
    readme.main(path, update=True)
    expected = "One\n```console\n$ echo 1\n1\n```\n```console\n$ echo 3\n3\n```\nTwo\n"
    assert path.read_text() == expected
    readme.main(path)


def test_an_unknown_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="norum"):
        list(readme.blocks("<!-- norum: typo -->\n```sh\ntrue\n```\n"))


def test_the_scheduler_of_the_readme_is_the_one_that_is_tested() -> None:
    example = (ROOT / "tests" / "unit" / "engine" / "my_scheduler.py").read_text()
    assert f"```python\n{example}```" in (ROOT / "README.md").read_text()
