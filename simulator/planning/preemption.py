"""Why am I preempted, and what fixes it: sentences with the numbers, fixes that were tried."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.metrics.latency import e2el_s
from simulator.recording import FINISHED, Recording
from simulator.report.block import readable_s
from simulator.scenario import resolve
from simulator.simulation import Result, rerun
from simulator.words import counted

# A longer run is not repeated: its fixes are bounds that hold in every order of events.
MOST_STEPS = 100_000
MOST_UTILIZATION = 0.98  # of GPU memory: the driver's own and the CUDA context take the rest


def preemption_reasons(result: Result) -> list[str]:
    """Cause, cost and fixes of a run's preemptions, a sentence each; empty if there are none."""
    if not result.recording.outcome.preemptions.any():
        return []
    if result.resolved.pools:
        return _of_pools(result)
    return [_cause(result), *_cost(result), *_fixes(result)]


def _of_pools(result: Result) -> list[str]:
    """Cause and cost in each pool by itself; what would end it depends on the other one too."""
    found = []
    for (_, recording, _), (name, resolved) in zip(
        result.recording.pools(), result.resolved.pools.items(), strict=True
    ):
        if recording.outcome.preemptions.any():
            alone = Result(resolved, recording)
            found += [f"{name} pool: {text}" for text in (_cause(alone), *_cost(alone))]
    return found


def final_blocks(recording: Recording) -> NDArray[np.int64]:
    """(N,) KV blocks of each request at its end; its last token needs no slot."""
    tokens = recording.requests.prompt_tokens + recording.requests.output_tokens - 1
    blocks: NDArray[np.int64] = -(-tokens // recording.block_size)
    return blocks


def _cause(result: Result) -> str:
    recording = result.recording
    outcome, steps = recording.outcome, recording.steps
    preempting = np.flatnonzero(steps.preempted > 0)
    first = preempting[np.argmin(steps.start_s[preempting])]
    now = steps.start_s[first]
    # Before the first preemption whoever was admitted and has not finished runs.
    ran = (
        (outcome.replica == steps.replica[first])
        & (outcome.admitted_s < now)
        & ~(outcome.finished_s <= now)
    )
    come_to = int(final_blocks(recording)[ran].sum())
    return (
        f"{counted(outcome.preemptions.sum(), 'preemption')} of "
        f"{counted((outcome.preemptions > 0).sum(), 'request')}, the first at {now:,.2f} s: "
        f"the {counted(ran.sum(), 'request')} that ran then would come to {come_to:,} KV blocks by "
        f"their ends, and {recording.usable_kv_blocks:,} are there. {_why_admitted(result)}"
    )


def _why_admitted(result: Result) -> str:
    """What the policy's admission does not see."""
    if result.resolved.scenario.scheduler.policy == "sglang":
        return (
            "Room is kept for a part of the declared outputs only, on the bet that most are short."
        )
    return "Requests are admitted when what they have fits; nothing is kept for the tokens to come."


def _cost(result: Result) -> list[str]:
    recording, resolved = result.recording, result.resolved
    lost, steps = int(recording.outcome.recomputed_tokens.sum()), recording.steps
    busy_s = float((steps.end_s - steps.start_s).sum())
    copied = int(recording.outcome.swapped_blocks.sum())
    out = []
    if copied:
        out.append(
            f"{copied:,} KV blocks were copied to host memory or back, for which steps waited "
            f"{readable_s(recording.transfer_s)}, {recording.transfer_s / busy_s:.1%} of the "
            "engine's time."
        )
    if not lost:
        return out
    computed = int(steps.scheduled_tokens.sum(dtype=np.int64))
    budget = resolved.max_num_batched_tokens
    lost_s = resolved.cost.step(prefills=[(budget, 0)]).total_s * lost / budget
    out.append(
        f"{lost:,} tokens were computed again, {lost / computed:.1%} of all: about "
        f"{readable_s(lost_s)}, {lost_s / busy_s:.1%} of the engine's time, at the price of full "
        f"prompt steps of {budget:,} tokens."
    )
    return out


@dataclass(frozen=True)
class _Fix:
    """A limit without preemptions, and the run that shows it; None: a bound instead."""

    value: int
    run: Result | None


def _fixes(result: Result) -> list[str]:
    needs = np.sort(final_blocks(result.recording))[::-1]
    at_once = np.cumsum(needs)
    usable, seats = result.recording.usable_kv_blocks, result.resolved.max_num_seqs
    # The longest requests together, whatever the order of events.
    safe_seats = max(1, int(np.searchsorted(at_once, usable, "right")))
    safe_blocks = int(at_once[min(seats, len(needs)) - 1]) + 1
    if len(result.recording.steps.start_s) > MOST_STEPS:
        fewer, more = _Fix(safe_seats, None), _Fix(safe_blocks, None)
    else:
        fewer, more = _most_seats(result, safe_seats), _least_blocks(result, safe_blocks)
    out = []
    if fewer.value < seats:
        out.append(
            f"scheduler.max_num_seqs={fewer.value} (now {seats}) ends it{_proof(result, fewer)}."
        )
    out.append(
        f"kv_cache.num_gpu_blocks={more.value} (now {result.resolved.num_gpu_blocks}) ends it"
        f"{_proof(result, more)}{_where_from(result, more.value)}."
    )
    return out


def _quiet(run: Result) -> bool:
    return not run.recording.outcome.preemptions.any()


def _most_seats(result: Result, safe: int) -> _Fix:
    """Most seats found without a preemption, by bisection up from a number that is safe."""
    steps = result.recording.steps
    low, high = safe, max(safe + 1, int(steps.running.max()) + 1)
    best = None
    while high - low > 1:
        middle = (low + high) // 2
        run = rerun(result, max_num_seqs=middle)
        if _quiet(run):
            low, best = middle, run
        else:
            high = middle
    return _Fix(low, best or rerun(result, max_num_seqs=low))


def _least_blocks(result: Result, safe: int) -> _Fix:
    """As many blocks as the same run holds at most where they are ample."""
    ample = rerun(result, num_gpu_blocks=safe)
    peak = int(ample.recording.steps.kv_blocks.max()) + 1
    exact = rerun(result, num_gpu_blocks=peak)
    return _Fix(peak, exact) if _quiet(exact) else _Fix(safe, ample)


def _proof(result: Result, fix: _Fix) -> str:
    if fix.run is None:
        return ", whatever the order in which requests come"
    return (
        f" (tried: {int(fix.run.recording.outcome.preemptions.sum())} preemptions, mean end-to-end "
        f"latency {_mean_e2el(fix.run)} instead of {_mean_e2el(result)})"
    )


def _mean_e2el(run: Result) -> str:
    outcome = run.recording.outcome
    done = outcome.status == FINISHED
    return readable_s(float(e2el_s(outcome)[done].mean())) if done.any() else "n/a"


def _where_from(result: Result, blocks: int) -> str:
    """How to come to so many blocks: a larger share of the memory, or smaller keys and values."""
    resolved = result.resolved
    scenario = resolved.scenario
    utilization = scenario.kv_cache.gpu_memory_utilization
    if resolved.memory is None or utilization is None:
        return ""
    block_bytes = resolved.block_size * resolved.memory.kv_bytes_per_token
    missing = (blocks - resolved.num_gpu_blocks) * block_bytes / resolved.gpu.memory_bytes
    wanted = ceil((utilization + missing) * 1000) / 1000
    ways = []
    if wanted <= MOST_UTILIZATION:
        ways.append(f"kv_cache.gpu_memory_utilization={wanted:g} gives them")
    else:
        ways.append(f"no gpu_memory_utilization up to {MOST_UTILIZATION} gives them")
    if resolved.model.kv_dtype != "fp8":
        try:
            smaller = resolve(
                scenario.with_overrides(["kv_cache.num_gpu_blocks=null", "model.kv_dtype=fp8"])
            ).num_gpu_blocks
        except InputError:
            return f"; {ways[0]}"
        verdict = "enough" if smaller >= blocks else "not enough"
        ways.append(f"model.kv_dtype=fp8 makes {smaller:,} of the same memory, {verdict}")
    return "; " + "; ".join(ways)
