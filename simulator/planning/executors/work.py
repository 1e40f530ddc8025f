"""What is done with each of many items, and what came of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from simulator.errors import InputError


class Work(Protocol):
    """A picklable object that is sent to each worker once, before its first item.

    What it reads from files or builds for itself it may keep: it lives as long as its worker.
    """

    def prepare(self) -> None:
        """Called where the map starts, before its workers do; see `compile_kernels`."""

    def portable(self) -> Work:
        """The same work with the files that it reads, for machines that have them not."""

    def __call__(self, item: Any, /) -> Any:
        """Result of one item; both are small and picklable."""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of one item.

    Attributes
    ----------
    index : of the item.
    value : what the work returned; None where it failed.
    error : a sentence on why it failed; None where it did not.
    """

    index: int
    value: Any = None
    error: str | None = None


def do(work: Work, index: int, item: Any) -> Done:
    """Work on one item; an exception becomes a sentence, so that the others go on."""
    try:
        return Done(index, work(item))
    except InputError as error:
        return Done(index, error=str(error))
    except Exception as error:  # a bug, or a user's policy that fails: one item's loss
        return Done(index, error=f"{type(error).__name__}: {error}")


def died(index: int, times: int) -> Done:
    """What came of an item whose worker died each time it was tried."""
    return Done(
        index,
        error=f"its worker process died {times} times; it was killed, or needs more memory than "
        "there is",
    )
