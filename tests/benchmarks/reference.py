"""The same work as a plain SimPy simulation: an event per step, Python objects, no tricks.

It is what one would write in an afternoon, for one replica of chunked prefill that never
runs out of KV blocks; the benchmark checks that it comes to the same times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import simpy
import work

SEATS, BUDGET = 1024, 8192


@dataclass(slots=True)
class Request:
    """One request and how far it has come."""

    arrival_s: float
    prompt_tokens: int = work.PROMPT_TOKENS
    output_tokens: int = work.OUTPUT_TOKENS
    computed_tokens: int = 0
    generated_tokens: int = 0
    first_token_s: float = 0.0
    finished_s: float = 0.0


@dataclass
class Replica:
    """Waiting and running requests of one engine."""

    env: simpy.Environment
    waiting: deque[Request] = field(default_factory=deque)
    running: list[Request] = field(default_factory=list)
    steps: int = 0

    def __post_init__(self) -> None:
        self.work_came = self.env.event()
        self.env.process(self.serve())

    def submit(self, request: Request) -> None:
        self.waiting.append(request)
        if not self.work_came.triggered:
            self.work_came.succeed()

    def serve(self) -> Generator[simpy.Event, Any, None]:
        """Step for ever: compose, wait for the step to end, hand out tokens."""
        while True:
            if not (self.waiting or self.running):
                self.work_came = self.env.event()
                yield self.work_came
            batch = self.compose()
            yield self.env.timeout(step_s(batch))
            self.steps += 1
            self.commit(batch)

    def compose(self) -> list[tuple[Request, int]]:
        """Tokens for all who run, then for those who wait, within the budget."""
        budget = BUDGET
        batch = []
        for request in self.running:
            total = request.prompt_tokens + request.generated_tokens
            chunk = min(budget, total - request.computed_tokens)
            batch.append((request, chunk))
            budget -= chunk
        while self.waiting and len(self.running) < SEATS and budget > 0:
            request = self.waiting.popleft()
            chunk = min(budget, request.prompt_tokens)
            self.running.append(request)
            batch.append((request, chunk))
            budget -= chunk
        return batch

    def commit(self, batch: list[tuple[Request, int]]) -> None:
        """Requests whose whole prompt is computed get a token; some end."""
        for request, chunk in batch:
            request.computed_tokens += chunk
            if request.computed_tokens < request.prompt_tokens + request.generated_tokens:
                continue
            if request.generated_tokens == 0:
                request.first_token_s = self.env.now
            request.generated_tokens += 1
            if request.generated_tokens == request.output_tokens:
                request.finished_s = self.env.now
        self.running = [r for r in self.running if r.generated_tokens < r.output_tokens]


def step_s(batch: list[tuple[Request, int]]) -> float:
    """Price of a step by the formulas of `work`."""
    tokens = contexts = prefill_tokens = 0
    pairs = 0.0
    for request, chunk in batch:
        tokens += chunk
        past = request.computed_tokens
        if past >= request.prompt_tokens:
            contexts += past + chunk
        else:
            prefill_tokens += chunk
            pairs += chunk * (past + chunk / 2)
    gpu_s = (work.WEIGHTS_S**4 + (tokens * work.TOKEN_S) ** 4) ** 0.25
    gpu_s += len(batch) * work.LOGITS_S + contexts * work.CONTEXT_TOKEN_S
    if prefill_tokens:
        gpu_s += work.PREFILL_BASE_S + pairs * work.PREFILL_PAIR_S
        gpu_s += prefill_tokens * work.PREFILL_TOKEN_S
    return gpu_s + work.HOST_S + len(batch) * work.HOST_SEQ_S


def run(arrivals_s: list[float]) -> tuple[list[Request], int]:
    """Serve requests of the frozen lengths; returns them and the number of steps."""
    env = simpy.Environment()
    replica = Replica(env)
    requests = [Request(arrival_s) for arrival_s in arrivals_s]

    def source() -> Generator[simpy.Event, Any, None]:
        for request in requests:
            yield env.timeout(request.arrival_s - env.now)
            replica.submit(request)

    env.process(source())
    env.run()
    return requests, replica.steps
