"""Small workloads and limits in which KV, seats, budget and queue are all scarce now and then."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from engine_cases import ORDERS, RESERVING, VLLM_V1, Run, run, table
from hypothesis import strategies as st

from simulator.kv_cache import buddy
from simulator.kv_cache.prefix import output_tag, own_tag
from simulator.schedulers.releases import RULES

WHOLE_PROMPTS = ("continuous", "orca")
LONG_ENOUGH_S = 5e4  # no case needs a twentieth of it; who is not done by then never will be

T = TypeVar("T")


class Dice(Protocol):
    """What a case is made with."""

    def integer(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""

    def choice(self, options: Sequence[T]) -> T:
        """One of `options`."""


class Drawn:
    """Hypothesis chooses, and makes a case that fails as small as it can."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def choice(self, options: Sequence[T]) -> T:
        return self._draw(st.sampled_from(options))


class Thrown:
    """Chance chooses, at a third of the cost: for very many cases, each known by its seed."""

    def __init__(self, seed: int) -> None:
        random_numbers = random.Random(seed)
        self.integer, self.choice = random_numbers.randint, random_numbers.choice


@dataclass(frozen=True)
class Case:
    """Arguments of `engine_cases.run`."""

    rows: list[tuple[float, int, int]]
    columns: dict[str, Any]
    options: dict[str, Any]

    def run(self, policy: str, **more: Any) -> Run:
        requests = table(*self.rows, **self.columns)
        return run(requests, policy, horizon_s=LONG_ENOUGH_S, **(self.options | more))


@st.composite
def cases(draw, policy: str) -> Case:
    """Cases for a property test."""
    return make_case(Drawn(draw), policy)


def make_case(dice: Dice, policy: str) -> Case:
    """A case for `policy`, of up to 14 requests."""
    n = dice.integer(1, 14)
    arrival_s = np.cumsum([dice.choice([0.0, 0.0, 0.25, 0.3, 1.0, 1.25, 2.0, 7.0])
                           for _ in range(n)])  # fmt: skip
    prompts = [dice.integer(1, 24) for _ in range(n)]
    outputs = [dice.integer(1, 14) for _ in range(n)]
    max_tokens = [output + dice.integer(0, 6) for output in outputs]
    longest = max(p + m for p, m in zip(prompts, max_tokens, strict=True))
    options = _limits(dice, policy, longest)
    options["ttft_limit_s"] = np.array([dice.choice([0.0, 0.5, 3.0, 12.0, np.inf])
                                        for _ in range(n)])  # fmt: skip
    columns = {
        "max_tokens": max_tokens,
        "pieces": [_pieces(dice, row, prompts[row]) for row in range(n)],
        "priority": [dice.integer(0, 2) for _ in range(n)],
        "predicted_tokens": [dice.integer(1, 14) for _ in range(n)],
        "class_id": [dice.integer(0, 2) for _ in range(n)],
        "class_names": ("a", "b", "c"),
        "max_concurrency": dice.choice([None, None, 1, 2, 5]),
    }
    if policy == "multi_lora":
        columns["adapter"] = np.array([dice.integer(0, 4) for _ in range(n)])
    return Case(list(zip(arrival_s.tolist(), prompts, outputs, strict=True)), columns, options)


def _limits(dice: Dice, policy: str, longest: int) -> dict[str, Any]:
    max_model_len = dice.choice([longest, longest, max(2, longest - 3)])
    block_size = dice.integer(1, 5)
    needed = -(-max_model_len // block_size)
    seats = dice.integer(1, 6)
    chunked = dice.choice([True, True, True, False])
    budget = dice.integer(seats, 30)
    if policy in WHOLE_PROMPTS or not chunked:
        budget = max(budget, max_model_len)
    options = {
        "order": dice.choice(ORDERS),
        "router": dice.choice(["round_robin", "least_outstanding"]),
        "replicas": dice.integer(1, 3),
        "step_s": dice.choice([(1.0, 0.25, 0.0), (0.7, 0.013, 0.0), (1.0, 0.1, 0.3)]),
        "max_model_len": max_model_len,
        "block_size": block_size,
        "max_num_seqs": seats,
        "max_num_batched_tokens": budget,
        "chunked_prefill": chunked,
        "reserve_full_isl": dice.choice([False, True]),
        "long_prefill_token_threshold": dice.choice([0, 0, 1, 3, 7]),
        "watermark_blocks": dice.integer(0, 2),
        "max_queue": dice.choice([1 << 40, 1 << 40, 1, 3]),
    }
    if policy == "static":
        options |= {
            "batch_size": dice.integer(1, seats),
            "max_wait_s": dice.choice([0.0, 0.3, 2.0]),
            "stream": dice.integer(0, 1),
            "preferred_sizes": [dice.integer(1, seats) for _ in range(dice.integer(0, 2))],
        }
    elif policy == "offloading":
        options |= {
            "allocator": "prefix",
            "chunked_prefill": True,
            "offload_blocks": dice.integer(1, 12),
            "copy_s_per_block": 0.25,
        }
    elif policy == "sglang":  # its chunks are of a page or more
        options["allocator"] = dice.choice(["paged", "prefix"])
        options["max_num_batched_tokens"] = max(budget, block_size)
        needed += 2  # the pages that it keeps beyond the longest request
    else:
        options["allocator"] = dice.choice(["paged", "paged", "prefix", "prefix", *RESERVING])
        if options["allocator"] == "buddy":  # most times the largest piece is there
            needed = dice.choice([int(buddy.rounded(np.array(needed))), needed])
    options["usable_blocks"] = needed + dice.integer(0, 5)
    if policy in VLLM_V1:
        if options["allocator"] not in RESERVING:
            options["depth"] = dice.choice([1, 1, 2])  # 2: asynchronous scheduling
        options |= RULES[dice.choice(list(RULES))].limits()
    if policy == "multi_lora":
        options |= {
            "order": "fcfs",
            "chunked_prefill": True,
            "max_loras": dice.integer(1, 3),
            "lora_load_s": dice.choice([0.0, 0.5]),
            "lora_step_s": 0.25,
            "lora_adapter_s": 0.125,
            "lora_token_s": 0.0,
        }
    if policy == "step_options":
        drafting = options.get("depth", 1) == 1 and options["allocator"] not in RESERVING
        options |= _step_options(dice, drafting=drafting)
    if policy == "continuous" and options["allocator"] == "paged":  # preemption swap, or not
        options["host_blocks"] = dice.choice([0, 3, 100])
        options["overlap_swap"] = dice.choice([0, 1])
        options["copy_s_per_block"] = dice.choice([0.25, 0.013])
    return options


def _step_options(dice: Dice, *, drafting: bool) -> dict[str, Any]:
    return {
        "num_speculative_tokens": dice.integer(0, 4) if drafting else 0,
        "acceptance_rate": dice.choice([0.0, 0.6, 1.0]),
        "draft_cost": 0.25,
        "structured_share": dice.choice([0.0, 0.5]),
        "grammar_s_per_seq": 0.25,
        "luck": dice.integer(0, 9),
    }


def _pieces(dice: Dice, row: int, prompt: int) -> list[tuple[int, int]]:
    """What a prompt consists of: pieces that others share, or an earlier prompt and answer."""
    tags = [0, 1]
    if row > 0:
        earlier = dice.integer(0, row - 1)
        tags += [own_tag(earlier), output_tag(earlier)]
    fitting = []
    for _ in range(dice.integer(0, 3)):
        length = min(dice.integer(1, 12), prompt)
        fitting.append((dice.choice(tags), length))
        prompt -= length
    return [piece for piece in fitting if piece[1] > 0]
