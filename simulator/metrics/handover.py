"""Where latency went of requests whose prompt is computed in one pool and output in another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.metrics import attribution as parts
from simulator.recording import FINISHED, Handovers, Recording

if TYPE_CHECKING:
    from simulator.scenario import Resolved

Attribute = Callable[[Recording, "Resolved"], "parts.Attribution"]


def attribute_pools(
    recording: Recording, handovers: Handovers, resolved: Resolved, attribute: Attribute
) -> parts.Attribution:
    """The parts of both stages, with the transfer between them taken out of decode's queue.

    In decode a request arrives when its prompt is done.  What it waits there is ``queue``
    until it has claimed blocks, ``transfer`` until its KV has come, and ``queue`` again until
    the next step admits it.  None of that step's time is its own prompt's: that came with its
    KV.  A first token from prefill ends the time to first token there, and all that follows
    is time between tokens.

    Parameters
    ----------
    attribute : `simulator.metrics.attribution.attribute`, for one pool.
    """
    first = attribute(handovers.prefill, resolved.pools["prefill"])
    outcome = handovers.decode.outcome
    came = replace(outcome, cached_tokens=handovers.decode.requests.prompt_tokens)
    if _token_from_prefill(resolved):  # all that decode computes comes after it
        came = replace(came, first_token_s=outcome.admitted_s)
    second = attribute(replace(handovers.decode, outcome=came), resolved.pools["decode"])
    ttft_s, decode_s = first.ttft_s.copy(), second.decode_s.copy()
    waited_s = second.ttft_s.copy()
    transfer_s = handovers.arrived_s - handovers.claimed_s
    moved = np.minimum(np.where(np.isnan(transfer_s), 0.0, transfer_s), waited_s[:, parts.QUEUE])
    waited_s[:, parts.QUEUE] -= moved
    waited_s[:, parts.TRANSFER] += moved
    there = handovers.replica >= 0
    if _token_from_prefill(resolved):
        decode_s[there] += waited_s[there]
    else:
        ttft_s[there] += waited_s[there]
    decode_s[~there] = 0.0
    unfinished = recording.outcome.status != FINISHED
    ttft_s[unfinished] = decode_s[unfinished] = np.nan
    return parts.Attribution(ttft_s, decode_s)


def _token_from_prefill(resolved: Resolved) -> bool:
    pools = resolved.scenario.cluster.pools
    return pools is not None and pools.first_token == "prefill"
