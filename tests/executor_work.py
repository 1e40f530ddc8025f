"""Work for tests of executors; here, since worker processes must be able to import it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from simulator.errors import InputError


@dataclass
class Arithmetic:
    """Squares; some items are refused, fail, or kill their worker."""

    folder: Path | None = None  # where a worker leaves its marks
    seen: list[int] = field(default_factory=list)
    prepared: bool = False

    def prepare(self) -> None:
        self.prepared = True

    def portable(self) -> Arithmetic:
        return self

    def __call__(self, item):
        if item == "refused":
            raise InputError("no, since it is refused.")
        if item == "fails":
            return 1 // 0
        if item == "kills":
            os.kill(os.getpid(), signal.SIGKILL)
        if item == "kills once":
            mark = self.folder / "killed"
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return "at last"
        if item == "sleeps":
            (self.folder / f"{os.getpid()}.pid").touch()
            time.sleep(60)
        self.seen.append(item)
        return item**2, len(self.seen), os.getpid()
