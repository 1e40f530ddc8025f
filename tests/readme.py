"""Run what README.md shows: ``python tests/readme.py README.md``.

Blocks fenced as ``sh``, ``console`` (lines that start with ``$``) and ``python`` run in
order in one empty folder.  A comment on the line before a fence changes that:
``<!-- file: NAME -->`` writes the block to a file, ``<!-- norun: reason -->`` skips it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>file|norun): (?P<about>.+?) -->\n)?"
    r"^```(?P<language>sh|console|python|yaml)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A fenced block of the README."""

    line: int
    language: str
    text: str
    file: str | None
    skipped: str | None  # why it is not run


def blocks(readme: str) -> Iterator[Block]:
    """Fenced blocks in order."""
    for match in _BLOCK.finditer(readme):
        mark = match["mark"]
        yield Block(
            line=readme.count("\n", 0, match.start("text")),
            language=match["language"],
            text=match["text"],
            file=match["about"] if mark == "file" else None,
            skipped=match["about"] if mark == "norun" else None,
        )


def run(block: Block, folder: Path) -> None:
    """Run a block, or write its file; raises CalledProcessError when a command fails."""
    if block.file is not None:
        (folder / block.file).write_text(block.text, encoding="utf-8")
    elif block.language == "python":
        subprocess.run([sys.executable, "-c", block.text], cwd=folder, check=True)
    elif block.language in ("sh", "console"):
        commands = block.text
        if block.language == "console":
            lines = [line for line in commands.splitlines() if line.startswith("$ ")]
            commands = "\n".join(line.removeprefix("$ ") for line in lines)
        subprocess.run(["bash", "-euxo", "pipefail", "-c", commands], cwd=folder, check=True)


def main(readme: Path) -> None:
    """Run all blocks of a README with this interpreter's environment first on the path."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        for block in blocks(readme.read_text(encoding="utf-8")):
            if block.skipped is not None:
                print(f"{readme}:{block.line}: not run: {block.skipped}", flush=True)
                continue
            print(f"{readme}:{block.line}: {block.language}", flush=True)
            run(block, Path(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
