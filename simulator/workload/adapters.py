"""Which LoRA adapter each request asks for, and what prompts share then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.errors import InputError
from simulator.workload.content import Content, own_tag
from simulator.workload.requests import Ints
from simulator.workload.rows import Rows
from simulator.workload.streams import Purpose, Streams

if TYPE_CHECKING:
    from simulator.scenario.workload import WorkloadSpec


def adapters_of(spec: WorkloadSpec, rows: Rows, streams: Streams) -> Ints:
    """`Requests.adapter`: by the trace's column, by class, or drawn by popularity."""
    if "adapter" in rows.extra:
        if spec.adapters is not None or any(c.adapter for c in spec.classes):
            raise InputError(
                "the trace has a column adapter, and the workload draws or names adapters too; "
                "remove workload.adapters and those of workload.classes"
            )
        return numbered(rows.extra["adapter"].astype(str))
    if any(c.adapter for c in spec.classes):
        return numbered(np.array([c.adapter or "" for c in spec.classes]))[rows.class_id]
    if spec.adapters is None:
        return np.zeros(0, np.int64)
    popularity = np.arange(1, spec.adapters.count + 1) ** -spec.adapters.zipf_exponent
    ends = np.cumsum(popularity) / popularity.sum()
    luck = streams.generator(Purpose.ADAPTERS).random(len(rows))
    if "turn" in rows.extra:  # a session keeps its adapter
        first = np.where(rows.extra["turn"] == 0, np.arange(len(rows)), 0)
        luck = luck[np.maximum.accumulate(first)]
    asked = luck < spec.adapters.share
    drawn = 1 + np.searchsorted(ends[:-1], luck / spec.adapters.share, "right")
    return np.where(asked, drawn, 0).astype(np.int64)


def numbered(names: Ints) -> Ints:
    """Numbers from 1 for the names, or numbers, in use; 0 for the empty one, the model itself."""
    known, number = np.unique(names, return_inverse=True)
    return number + (1 if known[0] else 0)


def apart_by_adapter(content: Content, adapter: Ints) -> Content:
    """The same prompts, in which a piece is another one for each adapter that has read it.

    Keys and values of a text depend on the adapter, so that engines hash its name into each
    block; what a request repeats of one with the same adapter stays what it is.
    """
    tag, length = content.segments.T
    row = np.repeat(np.arange(len(adapter)), np.diff(content.offsets))
    owner = np.clip((own_tag(0) - tag) // 2, 0, len(adapter) - 1)
    kept = (tag < 0) & (adapter[owner] == adapter[row])
    _, kind = np.unique(tag, return_inverse=True)
    apart = kind * (int(adapter.max(initial=0)) + 1) + adapter[row]
    return content._replace(segments=np.stack([np.where(kept, tag, apart), length], axis=1))
