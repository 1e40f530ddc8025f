"""How well the KV cache's memory is used, and when it runs out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.latency import Population
from simulator.metrics.steps import in_window, reserves_room
from simulator.recording import Recording

if TYPE_CHECKING:
    from simulator.scenario import Resolved


def reserved_tokens(recording: Recording) -> NDArray[np.int64] | None:
    """(num_steps,) tokens for which room was reserved during each step; None: none ever is.

    A contiguous allocator reserves when it admits and gives back when a request has
    finished; it never preempts.
    """
    if recording.reservations is None:
        return None
    outcome, steps = recording.outcome, recording.steps
    held = np.zeros(len(steps.start_s), np.int64)
    for r in range(recording.replicas):
        mine = steps.replica == r
        start_s = steps.start_s[mine]
        there = (outcome.replica == r) & ~np.isnan(outcome.admitted_s)
        tokens = recording.reservations.tokens[there]
        taken = _total_by(outcome.admitted_s[there], tokens, start_s)
        held[mine] = taken - _total_by(outcome.finished_s[there], tokens, start_s)
    return held


def _total_by(
    when_s: NDArray[np.float64], tokens: NDArray[np.int64], now_s: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Sum of the tokens whose time, NaN for never, has come by each moment."""
    order = np.argsort(when_s)
    so_far = np.concatenate(([0], np.cumsum(tokens[order])))
    total: NDArray[np.int64] = so_far[np.searchsorted(when_s[order], now_s, "right")]
    return total


def held_back(recording: Recording, resolved: Resolved) -> NDArray[np.bool_]:
    """(num_steps,) whether somebody waits although there are a seat and tokens of the budget."""
    steps = recording.steps
    return np.asarray(
        (steps.waiting > 0)
        & (steps.running < resolved.max_num_seqs)
        & (steps.scheduled_tokens < resolved.max_num_batched_tokens)
    )


def short_of_blocks(recording: Recording, resolved: Resolved) -> NDArray[np.bool_]:
    """(num_steps,) whether free KV blocks, and nothing else, kept a request in the queue.

    Somebody waits although the step has been composed, a seat is free and the token budget
    is not used up.  Policies that take whole prompts leave budget over when the next prompt
    does not fit into it; such a step counts only if the largest prompt of the run would not
    fit into the free blocks either, as where only those of other LoRA adapters may wait.  In
    a static batch nobody joins, so that blocks limit nobody on the way.
    """
    steps, requests, spec = recording.steps, recording.requests, resolved.scenario
    if spec.scheduler.policy == "static":
        return np.zeros(len(steps.start_s), np.bool_)
    short = held_back(recording, resolved)
    if spec.scheduler.lora is not None:
        blocks = -(-int(requests.prompt_tokens.max(initial=1)) // recording.block_size)
        return short & (steps.kv_blocks > recording.usable_kv_blocks - blocks)
    if spec.scheduler.policy in ("continuous", "orca") or not spec.scheduler.enable_chunked_prefill:
        room = requests.prompt_tokens + (requests.max_tokens if reserves_room(spec) else 1)
        blocks = -(-int(room.max(initial=1)) // recording.block_size)
        roomy = steps.kv_blocks <= recording.usable_kv_blocks - blocks
        short &= ~((steps.prefill_seqs > 0) & roomy)
    return short


def exhaustion(recording: Recording, who: Population, resolved: Resolved) -> dict[str, Any]:
    """When the KV cache ran out first, and how full it then was.

    It runs out in a step that preempts, or in which only the lack of blocks keeps a request
    in the queue; all values are None where that never happens in the observed time.
    """
    steps = recording.steps
    rows = np.zeros(len(steps.start_s), np.bool_)
    rows[in_window(steps, who)] = True
    rows &= (steps.preempted > 0) | short_of_blocks(recording, resolved)
    found = np.flatnonzero(rows)
    if not len(found):
        return dict.fromkeys(("kv_exhausted_s", "kv_exhausted_running", "kv_exhausted_filled"))
    first = found[np.argmin(steps.start_s[found])]
    slots = recording.usable_kv_blocks * recording.block_size
    return {
        "kv_exhausted_s": float(steps.start_s[first]),
        "kv_exhausted_running": int(steps.running[first]),
        "kv_exhausted_filled": float(steps.kv_tokens[first]) / slots,
    }
