"""The order fair: the tenant that has been served least goes first.

Virtual token counter (Sheng et al., "Fairness in Serving Large Language Models", OSDI
2024, algorithm 1): a tenant's counter grows by INPUT_WEIGHT for each token of a prompt that
is admitted and by OUTPUT_WEIGHT for each token that is generated.  A tenant that comes back
to the queue is lifted to the least counter of those that wait, or where nobody does to that
of the tenant that left last, so that idleness is no credit.  The service of any two
tenants that both wait all the time never differs by more than 2 max(INPUT_WEIGHT x
longest prompt, OUTPUT_WEIGHT x tokens that fit in the KV cache) (their theorem 4.4).

Each tenant has a list of its own; the queue's head is that of the least counter.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import DONE, NOBODY, Engine

INPUT_WEIGHT, OUTPUT_WEIGHT = 1, 2  # as in the paper


@njit
def choose(engine: Engine, r: int) -> None:
    """Let the queue start with the tenant of the least counter, the first on a tie."""
    service = engine.shares.service[r]
    lanes = engine.lanes[r]
    least = NOBODY
    for tenant in range(lanes.shape[0]):
        if lanes[tenant].head != NOBODY and (least == NOBODY or service[tenant] < service[least]):
            least = tenant
    engine.replicas[r].queue_head = NOBODY if least == NOBODY else lanes[least].head


@njit
def lift(engine: Engine, r: int, tenant: int) -> None:
    """A tenant of whom nobody waits is about to queue a request."""
    if engine.lanes[r, tenant].head == NOBODY:
        service = engine.shares.service[r]
        floor_of = engine.shares.last_left[r]
        if engine.replicas[r].queue_head != NOBODY:
            floor_of = engine.requests[engine.replicas[r].queue_head].lane
        service[tenant] = max(service[tenant], service[floor_of])


@njit
def charge_prompt(engine: Engine, r: int, i: int) -> None:
    """Request `i` leaves the queue: its tenant pays for the prompt, the first time it does."""
    request = engine.requests[i]
    engine.shares.last_left[r] = request.lane
    if request.preemptions == 0:
        engine.shares.service[r, request.lane] += INPUT_WEIGHT * request.prompt_tokens


@njit
def charge_outputs(engine: Engine, r: int, place: int) -> None:
    """Charge the tokens that flight `place`, about to be committed, delivers."""
    for k in range(engine.flights[r, place].sampled_tokens):
        request = engine.requests[engine.emitters[r, place, k]]
        if request.state != DONE:
            engine.shares.service[r, request.lane] += OUTPUT_WEIGHT
    choose(engine, r)


@njit
def charge_steps(engine: Engine, r: int, steps: int) -> None:
    """Charge `steps` steps in which every running request decoded."""
    for k in range(engine.replicas[r].running):
        tenant = engine.requests[engine.running[r, k]].lane
        engine.shares.service[r, tenant] += OUTPUT_WEIGHT * steps
    choose(engine, r)
