"""Hashes of random runs, one a line: ``python forms.py [few|all]``.

Run as a program under SERVECAST_PLAIN=1 it gives those of the plain Python form of the whole
package, which must be those of the compiled one.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator

import numpy as np
from engine_cases import ORDERS, POLICIES, RESERVING, VLLM_V1, WITH_OPTIONS, digest, run, table

from cost_models import StepCost, kernel
from simulator.schedulers.releases import RULES


def context_cost():
    """Prices that depend on every argument of the kernel, with no round number among them."""
    tables = StepCost.linear(7.1e-3, 1.3e-4, 2.7e-5).tables(64, 8)
    coef = tables.coef + np.linspace(1e-7, 3e-7, len(tables.coef))
    coef[kernel.HOST_BASE] = 1.1e-3
    growth = np.outer(np.arange(5), 2.0 ** np.arange(9))
    return tables._replace(decode_attention_s=1.7e-5 * growth, coef=coef)


Combination = tuple[str, str, str, tuple[str, int], int | None]


def combinations() -> Iterator[tuple[int, Combination]]:
    """Every other (policy, order, allocator, (router, replicas), seats), with a number."""
    every = itertools.product(
        (*POLICIES, *WITH_OPTIONS), ORDERS, ("paged", "contiguous", "prefix"),
        (("round_robin", 1), ("round_robin", 2), ("least_outstanding", 3)), (None, 6),
    )  # fmt: skip
    for number, (policy, order, allocator, routed, seats) in enumerate(every):
        if policy == "static" and allocator != "paged":
            continue  # a static batch reserves its own room
        if (policy == "sglang" and allocator == "contiguous") or (
            policy == "offloading" and allocator != "prefix"
        ):
            continue  # they page their cache
        if policy == "multi_lora" and order != "fcfs":
            continue  # the order of its queue
        if (number + number // 2) % 2:
            continue  # the other half would show nothing new
        yield number, (policy, order, allocator, routed, seats)


def pairwise() -> Iterator[tuple[int, Combination]]:
    """So many of the combinations that any two values that meet in one of them meet in these."""
    every, met = list(combinations()), set()
    for part in range(5):  # far apart first, so that few are needed
        for number, values in every[part::5]:
            pairs = set(itertools.combinations(enumerate(values), 2))
            if not pairs <= met:
                met |= pairs
                yield number, values


def random_runs(chosen: Iterable[tuple[int, Combination]]) -> Iterator[tuple[str, str]]:
    """(description, hash) of a run of each combination of policy, order, ... and seats."""
    for number, (policy, order, allocator, (router, replicas), seats) in chosen:
        rng = np.random.default_rng(number)
        if allocator == "contiguous":
            allocator = RESERVING[number // 2 % len(RESERVING)]
        n = 20
        # Rounded, so that some arrivals are equal.
        arrival_s = np.cumsum(rng.exponential(0.01, n)).round(2)
        rows = [*zip(arrival_s, rng.integers(1, 20, n), rng.integers(1, 12, n), strict=True)]
        requests = table(
            *rows,
            priority=rng.integers(0, 3, n),
            class_id=rng.integers(0, 2, n),
            class_names=("a", "b"),
            max_concurrency=seats,
            adapter=rng.integers(0, 5, n) if policy == "multi_lora" else np.zeros(0, np.int64),
            pieces=[[(k % 2, int(prompt))] for k, (_, prompt, _) in enumerate(rows)],
        )
        options = {
            "usable_blocks": int(rng.integers(8, 24)),
            "max_num_seqs": 5,
            "max_model_len": 32,
            "max_num_batched_tokens": 32,
            "chunked_prefill": int(rng.integers(0, 2)),
            "reserve_full_isl": int(rng.integers(0, 2)),
            "watermark_blocks": int(rng.integers(0, 2)),
            "long_prefill_token_threshold": int(rng.choice([0, 5])),
            "ttft_limit_s": rng.choice([0.01, 0.2, np.inf], n),
            "max_queue": int(rng.choice([4, 1 << 40])),
        }
        if policy in VLLM_V1:
            if allocator not in RESERVING:
                options["depth"] = int(rng.integers(1, 3))  # 2: asynchronous scheduling
            options |= RULES[tuple(RULES)[number % len(RULES)]].limits()
        if policy == "step_options":
            drafting = options.get("depth", 1) == 1 and allocator not in RESERVING
            drafts = int(rng.integers(0, 4)) if drafting else 0
            options |= {
                "structured_share": 0.5, "grammar_s_per_seq": 1.1e-4, "luck": number,
                "num_speculative_tokens": drafts, "acceptance_rate": 0.6, "draft_cost": 0.13,
            }  # fmt: skip
        if policy == "multi_lora":
            options |= {
                "max_loras": int(rng.integers(1, 4)), "chunked_prefill": 1,
                "lora_load_s": 2.3e-3, "lora_step_s": 1.9e-3, "lora_adapter_s": 1.1e-4,
                "lora_token_s": 3.7e-6,
            }  # fmt: skip
        if policy == "offloading":
            options |= {"offload_blocks": int(rng.integers(2, 30)), "copy_s_per_block": 1.7e-3}
        if policy == "continuous" and allocator == "paged":
            options |= {"host_blocks": int(rng.integers(0, 9)), "copy_s_per_block": 1.3e-3}
        if policy == "sglang":
            options["usable_blocks"] += 2  # the pages that it keeps
        if policy == "static":
            options |= {"batch_size": 3, "max_wait_s": 0.02, "stream": number % 2}
        done = run(
            requests, policy, order=order, allocator=allocator, router=router,
            replicas=replicas, cost=context_cost(), **options,
        )  # fmt: skip
        name = f"{policy} {order} {allocator} {router} x{replicas} seats={seats}"
        preempted = int(done.recording.outcome.preemptions.sum())
        yield f"{name} preempted={preempted}", digest(done.recording)


CHOSEN = {"few": pairwise, "all": combinations}

if __name__ == "__main__":
    for name, run_hash in random_runs(CHOSEN[sys.argv[1]]()):
        print(name, run_hash)
