"""vLLM V1 with options of the step: speculative decoding and structured output.

The rules are those of `chunked_prefill`.  A decode brings its drafts along; they count
against the token budget and are cut to what is left of it.  What the options cost is the
difference between the step's price with and without them:

- speculation: the model computes the drafts too, and the draft itself takes a step for each
  token that it guesses ahead, at `draft_cost` of what the model would take for the same
  sequences;
- structured output: the engine's own code fills in the grammar's mask for each such request
  that samples.  The mask follows from the token before, so that in such a step nothing of
  the engine's own time hides behind the GPU's, asynchronous scheduling or not.
"""

from __future__ import annotations

from cost_models.jit import njit
from cost_models.kernel import HOST_BASE, HOST_PER_SEQ, step_time
from simulator.engine.speculation import drop_drafts, grow_with_drafts, uniform
from simulator.engine.state import Engine
from simulator.engine.verbs import grow, num_running, preempt, running_at, wanted_tokens
from simulator.schedulers.chunked_prefill import admit_waiting, cap_on_chunks
from simulator.schedulers.victims import choose_victim


@njit
def compose(engine: Engine, r: int, now: float) -> int:
    """Compose one step of replica `r`."""
    limits = engine.limits[0]
    budget = limits.max_num_batched_tokens
    longest_chunk = cap_on_chunks(engine, r)
    preempted = False
    place = 0
    while place < num_running(engine, r) and budget > 0:
        i = running_at(engine, r, place)
        request = engine.requests[i]
        room = limits.max_model_len - 1 - request.computed_tokens
        chunk = min(wanted_tokens(engine, i), longest_chunk, budget, room)
        if chunk <= 0:  # its last token is on its way
            place += 1
            continue
        drafts = 0
        if request.computed_tokens >= request.prompt_tokens and wanted_tokens(engine, i) == 1:
            drafts = min(limits.num_speculative_tokens, budget - 1, room - 1)
        lost_its_seat = False
        while not grow_by(engine, r, i, chunk, drafts):
            victim_place = choose_victim(engine, r)
            victim = running_at(engine, r, victim_place)
            if limits.num_speculative_tokens > 0:
                budget += drop_drafts(engine, r, victim)
            budget += preempt(engine, r, victim, i)
            preempted = True
            if victim_place < place:
                place -= 1
            if victim == i:
                lost_its_seat = True
                break
        if not lost_its_seat:
            budget -= chunk + drafts
            place += 1
        elif limits.self_preemption_ends_scan:
            break
    admitted = not preempted and admit_waiting(engine, r, budget, longest_chunk)
    cost_more = price_options(engine, r)
    return 0 if preempted or admitted or cost_more else 1


@njit
def grow_by(engine: Engine, r: int, i: int, chunk: int, drafts: int) -> bool:
    """Put a chunk, or one token and its drafts, of request `i` into the step."""
    if drafts > 0:
        return grow_with_drafts(engine, r, i, drafts)
    return grow(engine, r, i, chunk)


@njit
def is_structured(engine: Engine, i: int) -> bool:
    """Whether request `i` asks for structured output."""
    return bool(uniform(engine, i, -1) < engine.limits[0].structured_share)


@njit
def price_options(engine: Engine, r: int) -> bool:
    """Add what the options cost to the step that was composed; True if they cost anything."""
    limits, replica = engine.limits[0], engine.replicas[r]
    tokens = decodes = context = longest = structured = 0
    prompts = prompt_tokens = prompt_kv = 0
    prompt_area = 0.0
    for place in range(num_running(engine, r)):
        i = running_at(engine, r, place)
        request = engine.requests[i]
        chunk = request.scheduled_tokens
        if chunk == 0:
            continue
        end = request.computed_tokens
        tokens += chunk
        if chunk == 1 and end > request.prompt_tokens:
            decodes += 1
            context += end
            longest = max(longest, end)
        else:
            prompts += 1
            prompt_tokens += chunk
            prompt_area += chunk * (end - chunk + 0.5 * chunk)
            prompt_kv += end
        if end == request.known_tokens and limits.structured_share > 0.0:
            structured += is_structured(engine, i)
    drafts = replica.drafted_tokens
    if drafts + structured == 0:
        return False

    seqs = decodes + prompts
    gpu_s, host_s = step_time(
        engine.cost, tokens, decodes, context, longest,
        prompts, prompt_tokens, prompt_area, prompt_kv, seqs,
    )  # fmt: skip
    if drafts > 0:
        ahead = limits.num_speculative_tokens
        checking_s, _ = step_time(
            engine.cost, tokens + drafts, decodes, context + drafts, longest + ahead,
            prompts, prompt_tokens, prompt_area, prompt_kv, seqs + drafts,
        )  # fmt: skip
        model_s, _ = step_time(
            engine.cost, decodes, decodes, context, longest, 0, 0, 0.0, 0, decodes
        )
        replica.extra_gpu_s += checking_s - gpu_s + ahead * limits.draft_cost * model_s
    if structured > 0:
        whole_s = engine.cost.coef[HOST_BASE] + seqs * engine.cost.coef[HOST_PER_SEQ]
        replica.extra_host_s += whole_s - host_s + structured * limits.grammar_s_per_seq
    return True
