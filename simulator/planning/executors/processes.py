"""Items spread over processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from simulator.errors import InputError
from simulator.planning.executors.work import Done, Work, died, do

ATTEMPTS = 2  # of an item that was running when a worker died, alone
QUEUED = 1  # items that wait beside the running ones, so that no worker idles

NOT_STARTED = (
    "worker processes cannot be started from this program; call it from under if __name__ == "
    '"__main__": in a file, or use one job.'
)


class Processes:
    """The map over `jobs` processes.

    They are spawned, not forked: a fork would copy locks that threads hold.  A script that
    uses them must therefore be importable: start from under ``if __name__ == "__main__"``.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def map(self, work: Work, items: Sequence[Any]) -> Iterator[Done]:
        """What came of each item, in the order in which they end.

        When a worker dies, its pool ends with it.  Nobody can tell which of the items that
        were running killed it, so each of these is tried again alone, at the end; the others
        go on in a new pool.
        """
        work.prepare()
        waiting = deque(enumerate(items))
        suspects: list[tuple[int, Any]] = []
        while waiting:
            yield from self._together(work, waiting, suspects)
        for index, item in suspects:
            yield _alone(work, index, item)

    def _together(
        self, work: Work, waiting: deque[tuple[int, Any]], suspects: list[tuple[int, Any]]
    ) -> Iterator[Done]:
        """Take items from `waiting` until none is left or a worker dies."""
        pool = _pool(min(self.jobs, len(waiting)), work)
        started = pool.submit(os.getpid)
        running: dict[Future[Done], tuple[int, Any]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs + QUEUED:
                    future = pool.submit(_do_here, *waiting[0])
                    running[future] = waiting.popleft()
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(ended, key=lambda one: running[one][0]):
                    if not isinstance(future.exception(), BrokenProcessPool):
                        del running[future]
                        yield future.result()
                if any(future in running for future in ended):
                    break
        except BrokenProcessPool:  # while submitting
            pass
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        if isinstance(started.exception(), BrokenProcessPool):
            raise InputError(NOT_STARTED)
        suspects += running.values()


def _alone(work: Work, index: int, item: Any) -> Done:
    for _ in range(ATTEMPTS):
        with _pool(1, work) as pool:
            try:
                return pool.submit(_do_here, index, item).result()
            except BrokenProcessPool:
                continue
    return died(index, 1 + ATTEMPTS)


def _pool(jobs: int, work: Work) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, context, initializer=_start_worker, initargs=(work,))


_work: Work  # of this worker process


def _start_worker(work: Work) -> None:
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback of each worker at Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for its next item for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _do_here(index: int, item: Any) -> Done:
    return do(_work, index, item)
