"""`find_capacity`: the whole way from a question to an answer with reasons."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from simulator.errors import InputError
from simulator.planning.capacity.answer import Capacity, ModelBand
from simulator.planning.capacity.changes import Tried, candidates
from simulator.planning.capacity.changes import try_changes as worthwhile
from simulator.planning.capacity.fleet import Fleets, replicas_for
from simulator.planning.capacity.solve import greatest_load, sustained_load
from simulator.planning.capacity.system import FEWEST_REQUESTS, System
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
    say: Say = lambda _: None,
) -> Capacity:
    """How much a system carries within its limits, or how many replicas a rate needs.

    Parameters
    ----------
    scenario : with limits on percentiles or means, of all requests or of classes.
    rate : requests per second (clients, of a closed loop) to plan for; None is the
        scenario's own.
    size : look for the least number of replicas that carries `rate`; else find the greatest
        rate of the scenario's replicas.  None: where a rate is given.
    precision : of the greatest rate, relative, at 95 % confidence.
    replicates : at least, and at most, how many are run to reach it.
    model_error : relative error of step costs, in place of the one that was measured.
    try_changes : look for the cheapest next change.
    what_if : names of questions to answer, see `simulator.planning.capacity.what_if`.
    say : called with what is being done.

    Raises
    ------
    InputError : for a scenario without limits or without a rate, a load that no run of this
        length can judge, or one for which no number of replicas is enough.
    """
    sized = rate is not None if size is None else size
    if sized:
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
        system, first or guess, precision=precision, replicates=replicates
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
        whole = greatest_load(answer, 0, greatest.estimate * replicas.estimate, 1.1)
    say("re-solving with other step costs")
    band = _model_band(system, greatest, roots[0], model_error, fleets, sized)
    tried: list[Tried] = []
    if try_changes:
        say("trying changes")
        changes = [c for c in candidates(system) if not (sized and "replicas" in c.name)]
        tried = worthwhile(system, changes, roots[0])
    count = int(replicas.estimate)
    answers = []
    for question in questions(system, what_if):
        say("what if " + (question if isinstance(question, str) else question.name))
        answers.append(
            answer_what_if(system, question, roots[0], asked=asked, whole=whole, count=count)
        )
    result = answer.result(load)
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
        binding=system.margin(roots[0], 0),
        summary=result.summary,
        load=load,
        model_band=band,
        next_change=tried[0] if tried else None,
        tried=tried,
        resolved=result.resolved,
        runs=system.work.runs,
        notes=_notes(system, len(roots), result.summary["num_prompts"], model_error),
        what_if=answers,
    )


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
        notes=_notes(system, 1, result.summary["num_prompts"], model_error),
    )


def _shared(load: Interval, replicas: int) -> Interval:
    """A load of all replicas as that of each."""
    return Interval(load.estimate / replicas, load.low / replicas, load.high / replicas, load.count)


def _model_band(
    system: System,
    greatest: Interval,
    root: float,
    given: float | None,
    fleets: Fleets,
    sized: bool,
) -> ModelBand | None:
    """The answer at both ends of what step costs may be wrong by."""
    error, basis = known_error(system, given)
    if error is None:
        return None
    ends = []
    for factor in (1 + error, 1 / (1 + error)):
        scale = system.scenario.cost_model.time_scale * factor
        overrides = [f"cost_model.time_scale={scale!r}"]
        changed = system.changed(overrides)
        share = greatest_load(changed, 0, root / factor, 1.1) / root
        if not sized:
            ends.append(greatest.estimate * share / system.replicas)
        elif share == 0:
            ends.append(math.inf)
        else:
            others = Fleets(changed, fleets.load, (1, 1))
            guess = replicas_for(fleets.load, greatest.estimate * share)
            ends.append(others.least(max(guess, 1)).estimate)
    return ModelBand(min(ends), max(ends), error, basis)


def known_error(system: System, given: float | None) -> tuple[float | None, str]:
    """Relative error of a system's step costs, and what it rests on; None: nobody knows."""
    from cost_models.accuracy import accuracy, measured

    if given is not None:
        return given, "as given"
    resolved = system.resolved(0)
    if resolved.scenario.cost_model.kind not in ("calibrated", "datasheet"):
        return None, "the error of these step costs is not measured; give one with --model-error"
    engine = resolved.scenario.cluster.engine
    found = accuracy(resolved.model, resolved.gpu, engine)
    if found is not None and resolved.scenario.cost_model.kind == "calibrated":
        return found.error, (
            f"measured: three in four of {found.runs} published runs of {found.weight_dtype} "
            f"models on {found.gpu} are within it"
        )
    return measured().elsewhere, (
        f"measured on other GPUs and types: none of {resolved.model.weight_dtype} on "
        f"{resolved.gpu.name} is published"
    )


def _notes(system: System, replicates: int, requests: int, model_error: float | None) -> list[str]:
    """How the runs were made."""
    workload = system.scenario.workload
    trace = workload.trace is not None
    how = (
        "the recording itself and block bootstraps of its gaps and rows"
        if trace
        else "independent draws; all that is compared shares them"
    )
    found = [f"{replicates} replicates of {requests:,} requests: {how}"]
    if requests < FEWEST_REQUESTS:
        found.append(
            "so short a run starts empty and has few requests beyond a percentile, so that the "
            f"answer may be too high: have {FEWEST_REQUESTS:,} requests or more"
        )
    if system.scenario.warmup_s:
        found.append(f"warm-up: {system.scenario.warmup_s:g} s, as the scenario says")
    else:
        found.append(f"warm-up: the first {system.skip_share:.1%} of the requests (MSER-5)")
    error, basis = known_error(system, model_error)
    if error is None:
        found.append(f"no model band: {basis}")
    return found
