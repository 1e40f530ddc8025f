"""Verbs for LoRA adapters: whose requests may come, and what a step with adapters costs.

vLLM V1 (vllm/v1/core/sched/scheduler.py, vllm/lora/worker_manager.py, 0.33): the batch has
at most `max_loras` adapters, those of all who run; a waiting request that would bring one
more is passed over, and keeps its place.  Before a step the adapters that it needs are
copied into the slots of the GPU that lacks them, in place of those used least recently.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import NOBODY, Engine

_ABSENT = -1


@njit
def note_running(engine: Engine, r: int) -> None:
    """Find the adapters of the running list, before anybody is admitted to it."""
    engine.adapters.tokens[r, :] = _ABSENT
    for place in range(engine.replicas[r].running):
        join_batch(engine, r, engine.running[r, place])


@njit
def join_batch(engine: Engine, r: int, i: int) -> None:
    """The adapter of request `i` is in the batch."""
    engine.adapters.tokens[r, engine.requests[i].lane] = 0


@njit
def head_with_adapter(engine: Engine, r: int) -> int:
    """First of the queue whose adapter may be in the batch, now its head; -1 for nobody."""
    tokens = engine.adapters.tokens[r]
    in_batch = 0
    for adapter in range(1, tokens.shape[0]):
        if tokens[adapter] != _ABSENT:
            in_batch += 1
    first = NOBODY
    for adapter in range(tokens.shape[0]):
        head = engine.lanes[r, adapter].head
        one_more = adapter > 0 and tokens[adapter] == _ABSENT
        if head == NOBODY or (one_more and in_batch == engine.limits[0].max_loras):
            continue
        if first == NOBODY or engine.requests[head].order_key < engine.requests[first].order_key:
            first = head
    engine.replicas[r].queue_head = first
    return int(first)


@njit
def price_adapters(engine: Engine, r: int) -> bool:
    """Add what adapters cost to the step that was composed; True if it has any."""
    limits, replica = engine.limits[0], engine.replicas[r]
    tokens = engine.adapters.tokens[r]
    tokens[:] = 0
    for place in range(replica.running):
        request = engine.requests[engine.running[r, place]]
        tokens[request.lane] += request.scheduled_tokens
    loads = _fill_slots(engine, r)
    in_step = through = 0
    for adapter in range(1, tokens.shape[0]):
        if tokens[adapter] > 0:
            in_step += 1
            through += tokens[adapter]
    if in_step == 0:
        return False
    replica.adapter_loads += loads
    replica.extra_gpu_s += (
        limits.lora_step_s
        + in_step * limits.lora_adapter_s
        + through * limits.lora_token_s
        + loads * limits.lora_load_s
    )
    return True


@njit
def _fill_slots(engine: Engine, r: int) -> int:
    """Give a slot to each adapter of the step; how many had none.

    Those that have one are used first, so that no adapter of the step loses its slot to
    another one of it.
    """
    tokens, used_in = engine.adapters.tokens[r], engine.adapters.used_in[r]
    replica = engine.replicas[r]
    replica.adapter_steps += 1
    filled = 0
    for adapter in range(1, tokens.shape[0]):
        if used_in[adapter] > 0:
            filled += 1
            if tokens[adapter] > 0:
                used_in[adapter] = replica.adapter_steps
    loads = 0
    for adapter in range(1, tokens.shape[0]):
        if tokens[adapter] > 0 and used_in[adapter] == 0:
            if filled == engine.limits[0].max_loras:
                used_in[_least_recent(engine, r)] = 0
            else:
                filled += 1
            used_in[adapter] = replica.adapter_steps
            loads += 1
    return loads


@njit
def _least_recent(engine: Engine, r: int) -> int:
    """Adapter whose slot was used least recently, the first on a tie."""
    used_in = engine.adapters.used_in[r]
    least = NOBODY
    for adapter in range(1, used_in.shape[0]):
        if used_in[adapter] > 0 and (least == NOBODY or used_in[adapter] < used_in[least]):
            least = adapter
    return least
