"""What happened in a prefill and in a decode pool as one recording: what the clients saw."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from simulator.recording import (
    FINISHED,
    REJECTED,
    UNFINISHED,
    Handovers,
    Losses,
    Outcome,
    Recording,
    Steps,
)
from simulator.workload.requests import Requests

Table = TypeVar("Table", Steps, Losses)


def merged(
    requests: Requests,
    prefill: Recording,
    decode: Recording,
    remote: NDArray[Any],
    *,
    prefill_token: bool,
) -> Recording:
    """Both pools' recordings in one.

    Parameters
    ----------
    requests : as the clients sent them.
    remote : (N,) `simulator.engine.state.REMOTE_KV` of the decode pool.
    prefill_token : clients get the first token from prefill; else what prefill samples is
        nobody's output.
    """
    there = decode.outcome.replica >= 0
    pulled = ~np.isnan(remote["claimed_s"])
    handovers = Handovers(
        prefill=prefill,
        decode=decode,
        replica=np.where(there, decode.outcome.replica + prefill.replicas, -1),
        prefilled_s=np.where(there, prefill.outcome.finished_s, np.nan),
        claimed_s=remote["claimed_s"].copy(),
        arrived_s=np.where(remote["arrived_s"] <= prefill.end_s, remote["arrived_s"], np.nan),
        pulled_blocks=np.where(pulled, remote["pulled_blocks"], 0),
    )
    return replace(
        decode,
        requests=requests,
        outcome=_outcome(prefill.outcome, decode.outcome, there, prefill_token),
        steps=_steps(prefill, decode, prefill_token),
        losses=_joined(prefill.losses, decode.losses),
        usable_kv_blocks=max(prefill.usable_kv_blocks, decode.usable_kv_blocks),
        replicas=prefill.replicas + decode.replicas,
        handovers=handovers,
    )


def _outcome(
    prefill: Outcome, decode: Outcome, there: NDArray[np.bool_], prefill_token: bool
) -> Outcome:
    """What became of each request: it arrives and waits in prefill, and ends in decode.

    One that generates a single token, and has it from prefill, ends there.
    """
    rejected = prefill.status == REJECTED
    done = np.where(there, decode.status == FINISHED, prefill.status == FINISHED)
    done &= there | prefill_token
    alone = done & ~there
    status = np.where(rejected, REJECTED, np.where(done, FINISHED, UNFINISHED))
    return Outcome(
        status=status.astype(np.int8),
        reject_reason=prefill.reject_reason,
        replica=prefill.replica,
        arrival_s=prefill.arrival_s,
        admitted_s=prefill.admitted_s,
        first_token_s=np.where(alone, prefill.first_token_s, decode.first_token_s),
        finished_s=np.where(alone, prefill.finished_s, decode.finished_s),
        generated_tokens=np.where(alone, prefill.generated_tokens, decode.generated_tokens),
        preemptions=prefill.preemptions + decode.preemptions,
        recomputed_tokens=prefill.recomputed_tokens + decode.recomputed_tokens,
        cached_tokens=prefill.cached_tokens,
        swapped_blocks=prefill.swapped_blocks + decode.swapped_blocks,
    )


def _steps(prefill: Recording, decode: Recording, prefill_token: bool) -> Steps:
    """The steps of both, decode replicas counted behind those of prefill."""
    first = prefill.steps
    if not prefill_token:
        first = replace(first, sampled_tokens=np.zeros_like(first.sampled_tokens))
    numbers = (decode.steps.replica + prefill.replicas).astype(decode.steps.replica.dtype)
    return _joined(first, replace(decode.steps, replica=numbers))


def _joined(one: Table, other: Table) -> Table:
    """The rows of one table, then those of the other."""
    columns = {
        field.name: np.concatenate((getattr(one, field.name), getattr(other, field.name)))
        for field in fields(one)
    }
    return type(one)(**columns)
