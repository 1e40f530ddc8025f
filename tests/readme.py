"""Run what README.md shows: ``python tests/readme.py README.md [--update]``.

Blocks fenced as ``sh``, ``console`` and ``python`` run in order in one empty folder.  In a
``console`` block, lines that start with ``$ `` are commands, and what follows one must be what
it prints; ``--update`` writes what it prints into the README instead.  A comment on the line
before a fence says more, as ``key: value`` pairs with a semicolon between them:

``file: NAME``      write the block to a file
``norun: reason``   skip it
``checkout: yes``   run it in a clean clone of the repository
``needs: NAME``     a file of the Azure trace; skip the block where there is none
``shows: 1-4 9-12`` a console block shows only these lines of the output
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = "..."

_BLOCK = re.compile(
    r"(?:^<!-- (?P<marks>.+?) -->\n)?"
    r"^```(?P<language>sh|console|python|yaml)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_MARKS = ("file", "norun", "checkout", "needs", "shows")


@dataclass(frozen=True)
class Block:
    """A fenced block of the README."""

    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)


def blocks(readme: str) -> Iterator[Block]:
    """Fenced blocks in order."""
    for match in _BLOCK.finditer(readme):
        marks = dict(mark.split(": ", 1) for mark in (match["marks"] or "").split("; ") if mark)
        if unknown := set(marks) - set(_MARKS):
            raise ValueError(f"mark {unknown.pop()!r} before a block: choose from {_MARKS}")
        line = readme.count("\n", 0, match.start("text"))
        yield Block(line, match["language"], match["text"], marks)


def run(block: Block, folder: Path) -> str:
    """Run a block, or write its file; returns its text as it should stand in the README.

    Raises
    ------
    CalledProcessError : a command fails.
    """
    if "file" in block.marks:
        (folder / block.marks["file"]).write_text(block.text, encoding="utf-8")
    elif block.language == "python":
        subprocess.run([sys.executable, "-c", block.text], cwd=folder, check=True)
    elif block.language == "sh":
        subprocess.run(["bash", "-euxo", "pipefail", "-c", block.text], cwd=folder, check=True)
    elif block.language == "console":
        return "".join(
            f"{shown}\n{_output(command, folder, block.marks.get('shows'))}"
            for shown, command in _commands(block.text)
        )
    return block.text


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command as it is shown, with its continuation lines, and as the shell gets it."""
    for match in re.finditer(r"^\$ (?:.*\\\n)*.*$", text, re.MULTILINE):
        yield match[0], match[0].removeprefix("$ ")


def _output(command: str, folder: Path, shows: str | None) -> str:
    """What a command prints, or the lines of it that are shown."""
    print(f"+ {command}", flush=True)
    words = ["bash", "-euo", "pipefail", "-c", command]
    done = subprocess.run(words, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    if shows is not None:
        chosen: list[str] = []
        for part in shows.split():
            first, last = (int(number) for number in part.split("-"))
            if first > 1:
                chosen.append(LEFT_OUT)
            chosen += lines[first - 1 : last]
        lines = [*chosen, *([LEFT_OUT] if last < len(lines) else [])]
    return "".join(f"{line}\n" for line in lines)


def main(readme: Path, update: bool = False) -> None:
    """Run all blocks of a README with this interpreter's environment first on the path."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    text = readme.read_text(encoding="utf-8")
    updated, position = "", 0
    with tempfile.TemporaryDirectory() as name:
        for block in blocks(text):
            reason = _skipped(block, Path(name))
            if reason is not None:
                print(f"{readme}:{block.line}: not run: {reason}", flush=True)
                continue
            print(f"{readme}:{block.line}: {block.language}", flush=True)
            now = run(block, _folder(block, Path(name)))
            start = text.index(block.text, position)
            updated += text[position:start] + now
            position = start + len(block.text)
    updated += text[position:]
    if update:
        readme.write_text(updated, encoding="utf-8")
    elif updated != text:
        pair = (text.splitlines(), updated.splitlines())
        print("\n".join(difflib.unified_diff(*pair, "shown", "printed", lineterm="", n=1)))
        sys.exit(f"{readme} does not show what its commands print: run this with --update")


def _skipped(block: Block, folder: Path) -> str | None:
    """Why a block is not run, or None; lays what it needs into the folder."""
    if "needs" in block.marks:
        shared = Path(os.environ.get("SERVECAST_SHARED", ROOT.parent / "shared"))
        name = block.marks["needs"]
        source = shared / "traces" / "azure2023" / name
        if not source.is_file():
            return f"no {source}"
        if not (folder / name).exists():
            (folder / name).symlink_to(source)
    return block.marks.get("norun")


def _folder(block: Block, folder: Path) -> Path:
    if "checkout" not in block.marks:
        return folder
    clone = folder / "checkout"
    shutil.rmtree(clone, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    return clone


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--update" in sys.argv[2:])
