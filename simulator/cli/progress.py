"""A progress bar for runs that last."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_S = 1.0


class ProgressBar:
    """Counts what has ended on stderr, from the second second on and on a terminal only.

    Call it with (ended, all), as `simulate` does with its `progress`; use it as a context
    manager, which takes the bar away at the end.
    """

    def __init__(self, title: str, unit: str = "requests"):
        self.title = title
        self.unit = unit
        self._started = time.monotonic()
        self._wanted = sys.stderr.isatty()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` have ended."""
        if not self._wanted or time.monotonic() - self._started < PATIENCE_S:
            return
        if self._bar is None or self._task is None:
            self._bar = _new_bar(self.unit)
            self._task = self._bar.add_task(self.title, total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)


def _new_bar(unit: str) -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def announce_compilation() -> None:
    """Say on stderr, once, that kernels are compiled when they are: it takes seconds."""
    from simulator.engine import compiled

    compiled.announce_compilation(lambda line: print(line, file=sys.stderr, flush=True))


class Status:
    """What is being done, on one line of stderr that is taken away; on a terminal only."""

    def __init__(self) -> None:
        self._wanted = sys.stderr.isatty()
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self("")

    def __call__(self, text: str) -> None:
        """Show `text` in place of what was there."""
        if self._wanted:
            print(f"\r{text:<{self._width}}\r{text}", end="", file=sys.stderr, flush=True)
            self._width = len(text)
