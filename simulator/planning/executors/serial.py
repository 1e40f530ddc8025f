"""One item after the other, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from simulator.planning.executors.work import Done, Work, do


class Serial:
    """The map without workers."""

    def map(self, work: Work, items: Sequence[Any]) -> Iterator[Done]:
        """What came of each item, in their order."""
        for index, item in enumerate(items):
            yield do(work, index, item)
