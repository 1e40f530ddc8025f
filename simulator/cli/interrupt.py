"""Ctrl-C during a run: the first ends it where it stands, the second ends the command."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupt:
    """Whether the user has pressed Ctrl-C; call it to ask.

    Use it as a context manager around what asks.
    """

    def __init__(self) -> None:
        self._pressed = False
        self._before: Any = None

    def __call__(self) -> bool:
        return self._pressed

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _press(self, number: int, frame: FrameType | None) -> None:
        self._pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print(
            "interrupted: ending the run here; Ctrl-C again to leave at once",
            file=sys.stderr,
            flush=True,
        )
