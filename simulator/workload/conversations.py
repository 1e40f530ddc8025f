"""Sessions drawn at random: how many turns, how long users think, what prompts repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.workload.requests import Floats, Ints
from simulator.workload.rows import Rows
from simulator.workload.streams import Purpose, Streams

if TYPE_CHECKING:
    from simulator.scenario.sessions import SessionsSpec
    from simulator.workload.session_tables import SessionTable


class Turns(NamedTuple):
    """One row per turn, a session's turns behind one another.

    ``session`` is the number of its session, ``turn`` counts from 0, ``think_s`` is from
    the last token of the turn before, 0 for a first turn.
    """

    session: Ints
    turn: Ints
    think_s: Floats


def draw_turns(
    spec: SessionsSpec,
    sessions: int,
    streams: Streams,
    source: int | None = None,
    table: SessionTable | None = None,
) -> Turns:
    """Turns of `sessions` sessions, by `table` if given; those of more sessions begin alike."""
    if table is not None:
        counts = table.whole("turns", streams.generator(Purpose.TURNS, source).random(sessions))
        session, turn = _numbered(counts)
        luck = streams.generator(Purpose.THINK_TIMES, source).random(len(session))
        return Turns(session, turn, np.where(turn == 0, 0.0, table.at("think_s", luck)))
    assert spec.mean_turns is not None
    if spec.turns == "fixed":
        counts = np.full(sessions, int(spec.mean_turns))
    else:  # geometric on 1, 2, ...: the inverse of its distribution function
        luck = streams.generator(Purpose.TURNS, source).random(sessions)
        stop = -np.log1p(-1 / spec.mean_turns) if spec.mean_turns > 1 else np.inf
        counts = 1 + (-np.log1p(-luck) / stop).astype(np.int64)
    session, turn = _numbered(counts)
    think_s = np.full(len(session), float(spec.think_time_s))
    if spec.think_cv > 0:
        shape = spec.think_cv**-2
        random = streams.generator(Purpose.THINK_TIMES, source)
        think_s *= random.standard_gamma(shape, len(session)) / shape
    return Turns(session, turn, np.where(turn == 0, 0.0, think_s))


def _numbered(counts: Ints) -> tuple[Ints, Ints]:
    """Number of each row's session, and of the row in it, for sessions of these lengths."""
    session = np.repeat(np.arange(len(counts)), counts)
    return session, np.arange(len(session)) - np.repeat(np.cumsum(counts) - counts, counts)


def add_history(rows: Rows, turns: Turns, limit: int, max_tokens: int | None) -> Rows:
    """Prompts that repeat all that was said before in their session.

    The drawn prompt lengths are those of the new text of each turn.  A session ends before
    a later turn's prompt and output come to more than `limit` tokens.
    """
    output = rows.output_tokens
    said = output if max_tokens is None else np.minimum(output, max_tokens)
    total = np.cumsum(rows.prompt_tokens + said)
    first = np.flatnonzero(turns.turn == 0)
    counts = np.diff(first, append=len(rows))
    before = np.repeat(total[first] - (rows.prompt_tokens + said)[first], counts)
    prompt = total - said - before
    kept = (prompt + said <= limit) | (turns.turn == 0)
    sessions = len(first)
    ended = int(np.count_nonzero(np.diff(turns.session[~kept], prepend=-1)))
    notes = list(rows.notes)
    if ended:
        notes.append(
            f"sessions: {ended / sessions:.1%} end earlier, before a prompt and its output come to "
            f"more than {limit:,} tokens"
        )
    extra = {"turn": turns.turn, "think_s": turns.think_s}
    grown = Rows(rows.arrival_s, prompt, output, rows.class_id, rows.class_names, notes, extra)
    return grown.take(kept)
