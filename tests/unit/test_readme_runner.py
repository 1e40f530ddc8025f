"""The runner of README's commands runs what stands there, and stops at what fails."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("readme", Path(__file__).parents[1] / "readme.py")
assert spec is not None
assert spec.loader is not None
readme = importlib.util.module_from_spec(spec)
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
$ cp made.txt copied.txt
this line is output
```
```python
open("python.txt", "w").write("x")
```
```text
not a command
```
"""


def test_blocks_run_in_order(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(TEXT)
    found = list(readme.blocks(TEXT))
    assert [b.language for b in found] == ["yaml", "sh", "console", "python"]
    assert [b.line for b in found] == [3, 7, 10, 14]
    assert found[1].skipped == "it would fail"
    for block in found:
        if block.skipped is None:
            readme.run(block, tmp_path)
    assert (tmp_path / "copied.txt").read_text() == "a: 1\n"
    assert (tmp_path / "python.txt").exists()


def test_a_failing_command_stops_it(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("```sh\nfalse\ntouch after\n```\n")
    with pytest.raises(subprocess.CalledProcessError):
        readme.main(path)
