"""`find_capacity`: the whole way from a question to an answer with reasons."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from simulator.errors import InputError
from simulator.planning.capacity.answer import Capacity
from simulator.planning.capacity.changes import Tried, candidates
from simulator.planning.capacity.changes import try_changes as worthwhile
from simulator.planning.capacity.doubts import model_band, notes
from simulator.planning.capacity.fleet import Fleets, replicas_for
from simulator.planning.capacity.solve import greatest_load, sustained_load
from simulator.planning.capacity.system import System
from simulator.planning.capacity.what_if import answer_what_if, questions
from simulator.planning.statistics import Interval

if TYPE_CHECKING:
    from simulator.scenario import Scenario

PRECISION = 0.03
REPLICATES = (4, 12)  # at least, at most
FEWEST = 2  # replicates by which a number of replicas is judged, where they agree

Say = Callable[[str], None]


def find_capacity(
    scenario: Scenario,
    *,
    rate: float | None = None,
    size: bool | None = None,
    precision: float = PRECISION,
    replicates: tuple[int, int] = REPLICATES,
    model_error: float | None = None,
    try_changes: bool = True,
    what_if: Sequence[str] = (),
    time_limit_s: float = math.inf,
    say: Say = lambda _: None,
) -> Capacity:
    """How much a system carries within its limits, or how many replicas a rate needs.

    Parameters
    ----------
    scenario : with limits on percentiles or means, of all requests or of classes.
    rate : requests per second (clients, of a closed loop) to plan for; None is the
        scenario's own.
    size : look for the least number of replicas that carries `rate`, of pools the least
        multiple of them as they are; else find the greatest rate of the scenario's replicas.
        None: where a rate is given.
    precision : of the greatest rate, relative, at 95 % confidence.
    replicates : at least, and at most, how many are run to reach it.
    model_error : relative error of step costs, in place of the one that was measured.
    try_changes : look for the cheapest next change.
    what_if : names of questions to answer, see `simulator.planning.capacity.what_if`.
    time_limit_s : after so long, replicates are not added, and changes and questions not tried,
        any more; the answer is then that of the replicates that there are.
    say : called with what is being done.

    Raises
    ------
    InputError : for a scenario without limits or without a rate, a load that no run of this
        length can judge, or one for which no number of replicas is enough.
    """
    started_s = time.monotonic()

    def late() -> bool:
        return time.monotonic() - started_s > time_limit_s

    sized = rate is not None if size is None else size
    if sized and scenario.cluster.pools is None:
        scenario = scenario.with_overrides(["cluster.replicas=1"])
    system = System(scenario)
    asked = system.load.base if rate is None else rate
    say("looking for the greatest load")
    guess = min(asked, system.load.base) if sized else asked
    first = greatest_load(system, 0, guess)
    _check(first)
    if first:
        system.settle(first)
    greatest, roots = sustained_load(
        system, first or guess, precision=precision, replicates=replicates, late=late, say=say
    )
    _check(greatest.estimate)
    if greatest.estimate == 0:
        return _nothing(system, asked, sized, guess, model_error)
    fleets = Fleets(system, asked, (FEWEST, replicates[1]))
    replicas = Interval(system.replicas, system.replicas, system.replicas, 1)
    answer, load, whole = system, greatest.estimate, greatest.estimate
    if sized:
        say("looking for the least number of replicas")
        replicas = fleets.least(replicas_for(asked, greatest.estimate))
        answer, load = fleets.of(int(replicas.estimate)), asked
        shown = fleets.typical(int(replicas.estimate))
        whole = greatest_load(answer, shown, greatest.estimate * replicas.estimate, 1.1)
    else:
        shown = _typical(system, greatest.estimate, roots)
    say("re-solving with other step costs")
    band = model_band(system, greatest, roots[0], model_error, fleets, sized)
    tried: list[Tried] = []
    if try_changes and not late():
        say("trying changes")
        changes = [c for c in candidates(system) if not (sized and "replicas" in c.name)]
        tried = worthwhile(system, changes, roots[0])
    count = int(replicas.estimate)
    answers = []
    for question in questions(system, what_if):
        name = question if isinstance(question, str) else question.name
        say(f"what if {name}")
        answers.append(
            {"name": name, "verdict": "the time limit was reached"}
            if late()
            else answer_what_if(system, question, roots[0], asked=asked, whole=whole, count=count)
        )
    result = answer.result(load, shown)
    return Capacity(
        unit=system.load.unit,
        asked=asked,
        sized=sized,
        per_replica=_shared(greatest, system.replicas),
        whole=whole,
        replicas=replicas,
        gpus=answer.gpus,
        gpu=answer.resolved(0).gpu.name,
        dollars_per_hour=answer.price_per_hour,
        binding=answer.margin(load, shown),
        summary=result.summary,
        load=load,
        model_band=band,
        next_change=tried[0] if tried else None,
        tried=tried,
        resolved=result.resolved,
        runs=system.work.runs,
        notes=notes(
            system, roots, greatest.estimate, result.summary["num_prompts"], model_error, late()
        ),
        what_if=answers,
    )


def _typical(system: System, load: float, roots: Sequence[float]) -> int:
    """The replicate nearest to an answer over several, of those that carry it."""
    carrying = sorted((root, k) for k, root in enumerate(roots) if root >= load * (1 - 1e-9))
    for _, k in carrying:
        if system.margin(load, k).met:
            return k
    return carrying[-1][1]


def _check(load: float) -> None:
    if math.isinf(load):
        raise InputError(
            "capacity: no rate misses the limits in a run of this length; lengthen "
            "workload.num_requests, workload.duration_s or the trace, or tighten slo"
        )


def _nothing(
    system: System, asked: float, sized: bool, guess: float, model_error: float | None
) -> Capacity:
    """The answer where even a light load misses the limits."""
    light = guess / 1e3
    if system.load.in_whole_numbers:
        light = 1.0
    margin = system.margin(light, 0)
    if sized:
        raise InputError(
            f"capacity: no number of replicas meets {margin.objective} <= {margin.limit_ms:g}: "
            f"even a replica that is nearly idle has {margin.value_ms:.4g}; faster GPUs, more "
            "tensor_parallel, fp8 or a smaller model would lower it"
        )
    result = system.result(light)
    count = system.replicas
    return Capacity(
        unit=system.load.unit,
        asked=asked,
        sized=False,
        per_replica=Interval(0.0, 0.0, 0.0, 1),
        whole=0.0,
        replicas=Interval(count, count, count, 1),
        gpus=system.gpus,
        gpu=result.resolved.gpu.name,
        dollars_per_hour=system.price_per_hour,
        binding=margin,
        summary=result.summary,
        load=light,
        model_band=None,
        next_change=None,
        tried=[],
        resolved=result.resolved,
        runs=system.work.runs,
        notes=notes(system, [], light, result.summary["num_prompts"], model_error, False),
    )


def _shared(load: Interval, replicas: int) -> Interval:
    """A load of all replicas as that of each."""
    return Interval(load.estimate / replicas, load.low / replicas, load.high / replicas, load.count)
