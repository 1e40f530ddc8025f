"""The table of requests that every workload becomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# More than any model reads or writes: beyond, a source is in other units or damaged,
# and sums over many requests would leave int64.
LARGEST_COUNT = 10**9

COLUMNS = (
    "arrival_s",
    "prompt_tokens",
    "output_tokens",
    "max_tokens",
    "predicted_tokens",
    "priority",
    "class_id",
    "next_request",
    "think_s",
)


class Seating(NamedTuple):
    """Who sits on the `max_concurrency` seats.

    Attributes
    ----------
    think_s : a seat is free again so long after its request ended.
    ramp_s : the seats become free one by one over so many seconds from the start.
    whole_session : a seat is held from the first turn of a session to the end of its last,
        else by each request on its own.
    """

    think_s: float = 0.0
    ramp_s: float = 0.0
    whole_session: bool = False


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Requests:
    """What clients will send: one row per request, one NumPy column per fact.

    Rows are in order of arrival; equal arrivals keep the order of the source.

    Attributes
    ----------
    arrival_s : (n,) float64, not decreasing, 0 = start of the simulation.  A request
        that a client holds back until a seat is free (`max_concurrency`) arrives later
        than this; the recording has the time at which it really arrived.
    prompt_tokens : (n,) int64, >= 1
    output_tokens : (n,) int64, >= 1: what will really be generated.  Policies must not
        look at it (those named as oracles do, through `predicted_tokens`).
    max_tokens : (n,) int64: what the client declared; all that reservations and
        admission rules may look at.
    predicted_tokens : (n,) float64: a predictor's guess of `output_tokens`, NaN without.
    priority : (n,) int64, smaller is more urgent.
    class_id : (n,) int64 index into `class_names`.
    class_names : names of the SLO classes; ("default",) where none are declared.
    ids : names as the source gives them, or None: then row i is called ``r{i}``.
    max_concurrency : seats of a client-side semaphore, as benchmarks use it, or None.
    seating : how those seats are taken and given back.
    next_request : (n,) int64: row of the next turn of the same session, after this row; -1:
        none.  A follower is sent when its predecessor has ended; its arrival_s is that of
        the session.
    think_s : (n,) float64: from the last token of a row to the arrival of its follower.
    links : (m, 2) int64: rows (before, after) of one session: `after` is sent `link_s` after the
        last token of `before` or later, once all that it waits for have ended.  So sub-agents
        start after a turn, and a later turn waits for their answers.
    link_s : (m,) float64.
    adapter : (n,) int64: LoRA adapter, from 1; 0 is the model itself; (0,) where there are none.
    segments : (g, 2) int64: tag and length of the pieces that prompts consist of, for prefix
        caching.  Token j of a piece is (tag, j), so that equal leading pieces are a shared
        prefix.  A tag >= 0 is whatever several prompts share; `own_tag` and `output_tag` are
        what a request has for itself and what it generates, for prompts that repeat it.
    segment_offsets : (n + 1,) int64: the pieces of row i are those from offsets[i] to
        offsets[i + 1]; what they leave of its prompt is its own.
    notes : sentences on how the workload was read or made, for the report.
    """

    arrival_s: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    max_tokens: Ints
    predicted_tokens: Floats
    priority: Ints
    class_id: Ints
    class_names: tuple[str, ...] = ("default",)
    ids: tuple[str, ...] | None = None
    max_concurrency: int | None = None
    seating: Seating = field(default_factory=Seating)
    next_request: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    think_s: Floats = field(default_factory=lambda: np.zeros(0))
    links: Ints = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    link_s: Floats = field(default_factory=lambda: np.zeros(0))
    adapter: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    segments: Ints = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    segment_offsets: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.arrival_s)

    def __post_init__(self) -> None:
        n = len(self.arrival_s)
        if not len(self.segment_offsets):
            object.__setattr__(self, "segment_offsets", np.zeros(n + 1, np.int64))
        if not len(self.next_request):
            object.__setattr__(self, "next_request", np.full(n, -1))
        if not len(self.think_s):
            object.__setattr__(self, "think_s", np.zeros(n))
        for name in COLUMNS:
            if len(getattr(self, name)) != n:
                raise ValueError(f"{name} has {len(getattr(self, name))} rows, arrival_s has {n}")
        if n and (np.diff(self.arrival_s) < 0).any():
            raise ValueError("arrival_s decreases; sort the rows by arrival")
        for name in ("prompt_tokens", "output_tokens"):
            column = getattr(self, name)
            if n and column.min() < 1:
                row = int(column.argmin())
                raise InputError(
                    f"request {self.id_of(row)} has {name} = {column[row]}; "
                    "a request needs at least 1"
                )

    @property
    def has_sessions(self) -> bool:
        """Whether any request waits for another one."""
        return bool((self.next_request >= 0).any() or len(self.links))

    def previous_request(self) -> Ints:
        """(n,) int64: row of the turn before; -1 for a first or only one."""
        previous = np.full(len(self), -1)
        rows = np.flatnonzero(self.next_request >= 0)
        previous[self.next_request[rows]] = rows
        return previous

    def sent_after(self) -> Ints:
        """(n,) int64: the turn before, or the one that started a sub-agent; -1: none."""
        before = self.previous_request()
        alone = before[self.links[:, 1]] < 0
        before[self.links[alone, 1]] = self.links[alone, 0]
        return before

    @property
    def starts(self) -> Ints:
        """Rows that arrive by themselves; those behind them, to the next, are of their session."""
        return np.flatnonzero(self.sent_after() < 0)

    def id_of(self, row: int) -> str:
        """Name of the request in `row`."""
        return self.ids[row] if self.ids is not None else f"r{row}"

    def id_rank(self) -> Ints:
        """Rank of each name in string order, vLLM's last tie-break under priorities."""
        n = len(self)
        if self.ids is not None:
            order = np.argsort(np.array(self.ids, dtype=str), kind="stable")
        else:
            # "r10" comes before "r2": compare the digits flush left, the shorter first.
            row = np.arange(n)
            digits = np.searchsorted(10 ** np.arange(1, 19), row, "right") + 1
            order = np.lexsort((digits, row * 10 ** (19 - digits - 1)))
        rank = np.empty(n, np.int64)
        rank[order] = np.arange(n)
        return rank
