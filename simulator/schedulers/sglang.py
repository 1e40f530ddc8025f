"""SGLang: a step is either prompts or decodes, and admission bets on short outputs.

Rules of sglang 0.5 (srt/managers/scheduler.py, schedule_policy.py, schedule_batch.py): any
prompts that can be admitted run alone, in chunks, at most one of them cut short; else all
decode.  A prompt is admitted if it, its declared output (at most `CLIPPED_OUTPUT`) and the
share `new_token_ratio` of what the running ones may still declare fit in the cache.  The
share falls as decoding goes on; where it was too low and blocks run out, the requests with
the fewest outputs are retracted to the end of the queue, and it is set anew.

Its radix cache is the prefix allocator with blocks of `page_size` tokens, by default one:
a prefix is found token by token, from the end of the step that computed it.  Equal prompts
that were computed in the same step keep their own copies, where SGLang merges them.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import PREFIX, Engine
from simulator.engine.verbs import (
    admit,
    cached_tokens,
    grow,
    head,
    num_running,
    retract,
    running_at,
)
from simulator.kv_cache.prefix import forget_behind, free_among_found, register_full

CLIPPED_OUTPUT = 4096  # tokens: no more of a declared output counts at admission
FIRST_RATIO = 0.7  # schedule_conservativeness 1
LEAST_RATIO = 0.14 * FIRST_RATIO
RATIO_STEPS = 600  # decode steps from the first to the least
RETRACT_STEPS = 20  # decode steps that a retraction wants to be good for

# Places in the memory of the policy.
BASE_RATIO = 0  # new_token_ratio when it was last set
DECODE_STEPS = 1  # decode steps since then
WITNESS = 2  # a request that decodes, + 1: its outputs count the steps that were coasted over
WITNESS_TOKENS = 3  # its known tokens when the policy was last asked
CHUNKED = 4  # the request that is in the middle of its prompt, + 1
FULL_AT = 5  # the batch is full until fewer than so many run


@njit
def compose(engine: Engine, r: int, now: float) -> int:
    """Compose one step of replica `r`."""
    ratio = new_token_ratio(engine, r, now)
    if add_prompts(engine, r, ratio):
        return 0
    retracted = retract_until_decodes_fit(engine, r)
    memory = engine.policy_memory[r]
    memory[WITNESS] = 0
    for place in range(num_running(engine, r)):
        i = running_at(engine, r, place)
        if i == memory[CHUNKED] - 1:
            continue
        if memory[WITNESS] == 0:
            memory[WITNESS] = i + 1
            memory[WITNESS_TOKENS] = engine.requests[i].known_tokens
            if retracted > 0:  # the ratio that was just set holds through this step
                memory[WITNESS_TOKENS] += 1
        grow(engine, r, i, 1)
    return 0 if retracted > 0 else 1


@njit
def new_token_ratio(engine: Engine, r: int, now: float) -> float:
    """Share of their declared outputs that running requests are expected to need."""
    memory = engine.policy_memory[r]
    if memory[WITNESS] > 0:
        witness = engine.requests[int(memory[WITNESS]) - 1]
        memory[DECODE_STEPS] += witness.known_tokens - memory[WITNESS_TOKENS]
        memory[WITNESS] = 0
    if num_running(engine, r) == 0 and not now <= engine.replicas[r].committed_s:
        memory[BASE_RATIO] = FIRST_RATIO  # it was idle
        memory[DECODE_STEPS] = 0
    if memory[DECODE_STEPS] == 0:
        return float(memory[BASE_RATIO])
    fallen = memory[DECODE_STEPS] * ((FIRST_RATIO - LEAST_RATIO) / RATIO_STEPS)
    return float(max(LEAST_RATIO, memory[BASE_RATIO] - fallen))


@njit
def outputs_left(engine: Engine, i: int) -> int:
    """Declared output tokens still to come that admission counts, no more than the cache has."""
    request, limits = engine.requests[i], engine.limits[0]
    pool_tokens = (limits.usable_blocks - 1) * limits.block_size - 1
    left = min(request.limit_tokens, pool_tokens) - request.known_tokens
    return int(max(0, min(left, CLIPPED_OUTPUT)))


@njit
def add_prompts(engine: Engine, r: int, ratio: float) -> bool:
    """Put prompts into the step: first the one that was cut short, then from the queue."""
    limits, memory = engine.limits[0], engine.policy_memory[r]
    page = limits.block_size
    budget = limits.max_num_batched_tokens
    reserved = 0.0  # for outputs of those that run
    cut_short = int(memory[CHUNKED]) - 1
    for place in range(num_running(engine, r)):
        i = running_at(engine, r, place)
        if i != cut_short:
            reserved += outputs_left(engine, i) * ratio

    added = False
    if cut_short >= 0:
        request = engine.requests[cut_short]
        if limits.allocator == PREFIX:  # others may share the chunks before
            register_full(engine, r, cut_short, request.computed_tokens)
        chunk = min(request.known_tokens - request.computed_tokens, budget)
        if not grow(engine, r, cut_short, chunk):
            return False
        added = True
        budget -= chunk
        if request.computed_tokens == request.known_tokens:
            memory[CHUNKED] = 0
            reserved += outputs_left(engine, cut_short)

    if num_running(engine, r) < memory[FULL_AT]:
        memory[FULL_AT] = 0
    while memory[FULL_AT] == 0 and budget > 0:
        i = head(engine, r)
        if i < 0:
            break
        if num_running(engine, r) == limits.max_num_seqs:
            memory[FULL_AT] = num_running(engine, r)
            break
        cached = cached_tokens(engine, r)
        tokens = engine.requests[i].known_tokens - cached
        needed = tokens + outputs_left(engine, i) + page
        if cached > 0:
            needed += free_among_found(engine, r, cached // page) * page
        if needed >= engine.replicas[r].free_blocks * page - reserved:
            memory[FULL_AT] = num_running(engine, r)
            break
        chunk = tokens
        if tokens > budget:
            chunk = budget // page * page
        if chunk == 0 or not admit(engine, r, cached, chunk, 0, 0):
            break
        added = True
        budget -= chunk
        if chunk < tokens:
            memory[CHUNKED] = i + 1
            break
        reserved += outputs_left(engine, i)
    return added


@njit
def retract_until_decodes_fit(engine: Engine, r: int) -> int:
    """Retract until every other running request finds a block; how many were retracted."""
    retracted = 0
    while blocks_to_decode(engine, r) > engine.replicas[r].free_blocks:
        victim = fewest_outputs(engine, r)
        if engine.limits[0].allocator == PREFIX:  # outputs are cached at the end only
            forget_behind(engine, r, victim, engine.requests[victim].prompt_tokens)
        retract(engine, r, victim)
        retracted += 1
    if retracted > 0:
        decoded = declared = members = 0
        for place in range(num_running(engine, r)):
            request = engine.requests[running_at(engine, r, place)]
            decoded += request.known_tokens - request.prompt_tokens
            declared += request.limit_tokens - request.prompt_tokens
            members += 1
        memory = engine.policy_memory[r]
        memory[BASE_RATIO] = min(1.0, (decoded + RETRACT_STEPS * members) / (declared + 1))
        memory[DECODE_STEPS] = 0
    return retracted


@njit
def blocks_to_decode(engine: Engine, r: int) -> int:
    """Blocks that one token for each running request takes."""
    blocks = 0
    for place in range(num_running(engine, r)):
        i = running_at(engine, r, place)
        request = engine.requests[i]
        full = request.known_tokens > request.held_blocks * engine.limits[0].block_size
        if full and i != engine.policy_memory[r, CHUNKED] - 1:
            blocks += 1
    return blocks


@njit
def fewest_outputs(engine: Engine, r: int) -> int:
    """Who is retracted next: fewest outputs, then longest prompt, then latest admitted."""
    worst = -1
    for place in range(num_running(engine, r)):
        i = running_at(engine, r, place)
        if i == engine.policy_memory[r, CHUNKED] - 1:
            continue
        if worst < 0:
            worst = i
            continue
        a, b = engine.requests[i], engine.requests[worst]
        fewer = a.known_tokens - a.prompt_tokens - (b.known_tokens - b.prompt_tokens)
        if fewer < 0 or (fewer == 0 and a.prompt_tokens >= b.prompt_tokens):
            worst = i
    return worst
