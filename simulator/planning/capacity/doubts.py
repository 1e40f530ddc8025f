"""What an answer may be wrong by, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simulator.planning.capacity.answer import ModelBand
from simulator.planning.capacity.fleet import Fleets, replicas_for
from simulator.planning.capacity.solve import greatest_load
from simulator.planning.capacity.system import FEWEST_REQUESTS, System
from simulator.planning.statistics import Interval


def model_band(
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


def notes(
    system: System,
    roots: Sequence[float],
    load: float,
    requests: int,
    model_error: float | None,
    stopped: bool,
) -> list[str]:
    """How the runs were made.

    Parameters
    ----------
    roots : greatest load of each replicate; empty where none was found.
    load : of the answer.
    requests : of a run.
    stopped : by the time limit.
    """
    count = max(len(roots), 1)
    found = [f"{count} replicates of {requests:,} requests: {_replicates(system, roots, load)}"]
    if stopped:
        found.append("the time limit was reached: the interval is of the replicates until then")
    if requests < FEWEST_REQUESTS:
        found.append(
            "so short a run starts empty and has few requests beyond a percentile, so that the "
            f"answer may be too high: have {FEWEST_REQUESTS:,} requests or more"
        )
    if system.scenario.cut_s:
        found.append(f"warm-up: {system.scenario.cut_s:g} s, as the scenario says")
    else:
        found.append(f"warm-up: the first {system.skip_share:.1%} of the requests (MSER-5)")
    error, basis = known_error(system, model_error)
    if error is None:
        found.append(f"no model band: {basis}")
    return found


def _replicates(system: System, roots: Sequence[float], load: float) -> str:
    if system.recorded:
        return (
            "the recording itself, whose greatest load is the answer, and block bootstraps of its "
            "gaps and rows, whose scatter is the interval: a longer recording would narrow it, "
            "more bootstraps would not"
        )
    carrying = sum(root >= load * (1 - 1e-9) for root in roots)
    return (
        "independent draws; all that is compared shares them; the answer is the mean of their "
        f"greatest loads, which {carrying} of them carry, and the run shown is one of these"
    )
