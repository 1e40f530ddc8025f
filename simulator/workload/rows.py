"""What all sources of requests give, before it is declared, predicted and named."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.workload.requests import Floats, Ints
from simulator.workload.streams import Purpose, Streams

if TYPE_CHECKING:
    from simulator.scenario.classes import ClassSpec


@dataclass
class Rows:
    """Requests in order of arrival.

    Attributes
    ----------
    extra : columns that only some sources have, by the roles of a trace: id, priority,
        max_tokens, blocks; turn, think_s and prefix_tokens of sessions (a row with
        turn > 0 follows the row before it).
    block_tokens : tokens that one of the blocks stands for.
    """

    arrival_s: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    class_id: Ints
    class_names: tuple[str, ...]
    notes: list[str]
    extra: dict[str, NDArray[Any]] = field(default_factory=dict)
    block_tokens: int | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)

    def take(self, chosen: Any) -> Rows:
        """These rows, by an index or slice."""
        return replace(
            self,
            arrival_s=self.arrival_s[chosen],
            prompt_tokens=self.prompt_tokens[chosen],
            output_tokens=self.output_tokens[chosen],
            class_id=self.class_id[chosen],
            extra={role: values[chosen] for role, values in self.extra.items()},
        )


def joined(parts: list[Rows]) -> Rows:
    """All rows of parts that have the same columns, one part behind the other."""
    arrival_s, prompt, output, class_id = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("arrival_s", "prompt_tokens", "output_tokens", "class_id")
    )
    notes = list(dict.fromkeys(note for part in parts for note in part.notes))
    extra = {role: np.concatenate([part.extra[role] for part in parts]) for role in parts[0].extra}
    names = parts[0].class_names
    return Rows(arrival_s, prompt, output, class_id, names, notes, extra, parts[0].block_tokens)


def class_by_share(classes: tuple[ClassSpec, ...], n: int, streams: Streams) -> Ints:
    """Class of each of `n` requests or sessions."""
    if not classes:
        return np.zeros(n, np.int64)
    ends = np.cumsum([c.share or 0.0 for c in classes])[:-1]
    return np.searchsorted(ends, streams.generator(Purpose.CLASSES).random(n), "right")
