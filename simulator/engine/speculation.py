"""Speculative decoding: a draft guesses tokens ahead, the model checks them in one step.

Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding"
(ICML 2023): of the drafted tokens those before the first that the model disagrees with are
kept, and one token of the model's own comes on top.  A draft agrees with a fixed
probability, drawn from a hash of request and position, so that a request has the same luck
under every schedule.  As in vLLM V1, drafts take slots of the KV cache and of the step's
token budget; slots of rejected ones are written again.
"""

from __future__ import annotations

import numpy as np

from cost_models.jit import njit
from simulator.engine import fair, log
from simulator.engine.state import FAIR, NUM_GAPS, Engine
from simulator.engine.verbs import grow, take_blocks
from simulator.kv_cache.prefix import mix

_MANTISSA = np.int64((1 << 53) - 1)


@njit
def uniform(engine: Engine, i: int, position: int) -> float:
    """A number in [0, 1) that belongs to a token position of request `i`."""
    bits = mix(mix(mix(0, engine.limits[0].luck), i), position)
    return float((np.int64(bits) & _MANTISSA) / 9007199254740992.0)  # 2^53


@njit
def grow_with_drafts(engine: Engine, r: int, i: int, drafts: int) -> bool:
    """Put the next token of the decoding request `i` and `drafts` guesses into the step.

    Returns False, and changes nothing, when there are not enough blocks for them.
    """
    request = engine.requests[i]
    end = request.computed_tokens + 1 + drafts
    if end > request.held_blocks * engine.limits[0].block_size and not take_blocks(
        engine, r, i, end
    ):
        return False
    if drafts > 0:
        log.record(engine, log.DRAFT, r, i, drafts, engine.replicas[r].clock_s)
    engine.drafts[i] = drafts
    engine.replicas[r].drafted_tokens += drafts
    return grow(engine, r, i, 1)


@njit
def drop_drafts(engine: Engine, r: int, i: int) -> int:
    """Take the guesses of a request that is about to be preempted out of the step; how many."""
    drafts = engine.drafts[i]
    engine.drafts[i] = 0
    engine.replicas[r].drafted_tokens -= drafts
    return int(drafts)


@njit
def accept_drafts(engine: Engine, r: int, i: int, now: float) -> int:
    """Keep the guesses of request `i` that the model agrees with; how many.

    Nothing is kept beyond its end.  They come together with the token that follows them: the
    gaps between them are 0.
    """
    limits, request = engine.limits[0], engine.requests[i]
    most = min(engine.drafts[i], request.end_tokens - request.known_tokens)
    engine.drafts[i] = 0
    accepted = 0
    while (
        accepted < most
        and uniform(engine, i, request.known_tokens + accepted) < limits.acceptance_rate
    ):
        engine.gaps_s[engine.counters[NUM_GAPS]] = 0.0
        engine.counters[NUM_GAPS] += 1
        accepted += 1
    if accepted > 0:
        log.record(engine, log.ACCEPT, r, i, accepted, now)
    request.known_tokens += accepted
    request.computed_tokens += accepted
    engine.replicas[r].kv_tokens += accepted
    if limits.order == FAIR:
        engine.shares.service[r, request.lane] += fair.OUTPUT_WEIGHT * accepted
        fair.choose(engine, r)
    return accepted
