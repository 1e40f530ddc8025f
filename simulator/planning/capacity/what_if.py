"""What if the world is not as planned: longer answers, burstier arrivals, one machine less."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cost_models import catalog
from simulator.errors import InputError
from simulator.planning.capacity.solve import greatest_load
from simulator.planning.capacity.system import System
from simulator.planning.variants import parse_variant
from simulator.scenario.overrides import parse_override
from simulator.words import counted

if TYPE_CHECKING:
    from simulator.scenario import Scenario

NAMES = {
    "n-1": "one replica less",
    "traffic": "20 % more traffic",
    "prompts": "prompts half as long again",
    "outputs": "outputs half as long again",
    "max_tokens": "outputs cut at their 90th percentile",
    "bursts": "gaps between arrivals with twice the coefficient of variation",
    "gpu": "the next cheaper GPU",
    "fp8": "weights in fp8",
    "model": "the next larger model",
}

OF_STEP_COSTS = ("gpu", "fp8", "model")  # questions whose answer the step costs must know
KNOWS_HARDWARE = ("calibrated", "datasheet")


@dataclass(frozen=True)
class WhatIf:
    """A question: keys to set, under a name; or another load, or fewer replicas."""

    name: str
    overrides: tuple[str, ...] = ()
    load_factor: float = 1.0


def parse_what_if(texts: Sequence[str]) -> list[str]:
    """Names of `NAMES` (all of them for ``all``) and own ``"name: key=value"``.

    Raises
    ------
    InputError : for a name that is not known.
    """
    found: list[str] = []
    for text in texts:
        if ":" in text:
            parse_variant(text, "--what-if")
            found.append(text)
            continue
        for name in (part.strip() for part in text.split(",")):
            if name == "all":
                found += NAMES
            elif name in NAMES:
                found.append(name)
            else:
                raise InputError(
                    f"--what-if {name}: not known; there are all, {', '.join(NAMES)}, or your own "
                    'as "name: key=value"'
                )
    return list(dict.fromkeys(found))


def refuse_unknown_keys(scenario: Scenario, names: Sequence[str]) -> None:
    """Refuse own questions that set what no scenario has, before anything runs.

    Raises
    ------
    InputError : naming the question, the key or value, and what is allowed.
    """
    for name in names:
        if ":" in name:
            title, overrides = parse_variant(name, "--what-if")
            option = f"--what-if {title}"
            scenario.with_overrides([parse_override(text, option) for text in overrides])


def questions(system: System, names: Sequence[str]) -> Iterator[WhatIf | str]:
    """What each name means for a system; a sentence where it means nothing."""
    for name in names:
        if ":" in name:
            title, overrides = parse_variant(name)
            yield WhatIf(title, tuple(overrides))
        elif name == "traffic":
            yield WhatIf(NAMES[name], load_factor=1.2)
        elif name == "n-1":
            yield WhatIf(NAMES[name])
        else:
            yield _of_scenario(system, name)


def _of_scenario(system: System, name: str) -> WhatIf | str:
    resolved = system.resolved(0)
    kind = system.scenario.cost_model.kind
    if name in OF_STEP_COSTS and kind not in KNOWS_HARDWARE:
        return f"{NAMES[name]}: step costs are given (cost_model {kind}) and know of no other"
    if name in ("prompts", "outputs"):
        key = f"workload.{name[:-1]}_tokens_scale"
        factor = 1.5 * getattr(system.scenario.workload, key.removeprefix("workload."))
        return WhatIf(NAMES[name], (f"{key}={factor:g}",))
    if name == "max_tokens":
        limit = int(np.quantile(system.requests().output_tokens, 0.9))
        return WhatIf(f"outputs cut at {limit} tokens", (f"workload.max_output_tokens={limit}",))
    if name == "bursts":
        return _burstier(system)
    if name == "fp8":
        if resolved.model.weight_dtype == "fp8":
            return "weights in fp8: they are"
        return WhatIf(NAMES[name], ("model.weight_dtype=fp8",))
    return _cheaper_gpu(system) if name == "gpu" else _larger_model(system)


def _burstier(system: System) -> WhatIf | str:
    arrivals = system.scenario.workload.arrivals
    if system.load.unit == "clients" or (system.scenario.workload.classes and arrivals is None):
        return f"{NAMES['bursts']}: the workload has no arrivals of its own"
    gaps = np.diff(system.requests().arrival_s)
    cv = 2 * float(gaps.std() / gaps.mean())
    if arrivals is not None and arrivals.process in ("poisson", "constant"):
        cv = 2.0
    spec = f"{{process: gamma, rate: {system.load.base!r}, cv: {cv:.3g}}}"
    overrides = [f"workload.arrivals={spec}"]
    if system.scenario.workload.trace is not None:
        overrides.append("workload.trace.rate_scale=1.0")
    return WhatIf(f"gaps of arrivals with CV {cv:.2g}", tuple(overrides))


def _cheaper_gpu(system: System) -> WhatIf | str:
    """The dearest of the cheaper GPUs for which steps of this model can be priced."""
    resolved = system.resolved(0)
    price = resolved.gpu.price_per_gpu_hour
    every = [catalog.gpu(name) for name in catalog.files.names("gpus")]
    cheaper = [gpu for gpu in every if gpu.price_per_gpu_hour < price]
    for gpu in sorted(cheaper, key=lambda one: -one.price_per_gpu_hour):
        overrides = (f"cluster.gpu={gpu.name}", "cluster.price_per_gpu_hour=null")
        try:
            system.changed(overrides)
        except InputError:
            continue
        return WhatIf(f"{gpu.name} at ${gpu.price_per_gpu_hour:g}/h", overrides)
    return f"{NAMES['gpu']}: none in the catalogue is cheaper and can hold the model"


def _larger_model(system: System) -> WhatIf | str:
    """The smallest catalogue model that is larger and fits."""
    own = system.resolved(0).model
    every = [catalog.model({"name": name}) for name in catalog.files.names("models")]
    larger = [model for model in every if model.params_total > 1.05 * own.params_total]
    for model in sorted(larger, key=lambda one: one.params_total):
        try:
            system.changed((f"model={model.name}",))
        except InputError:
            continue
        return WhatIf(f"model {model.name}", (f"model={model.name}",))
    return f"{NAMES['model']}: none in the catalogue fits on these GPUs"


def answer_what_if(
    system: System, question: WhatIf | str, root: float, *, asked: float, whole: float, count: int
) -> dict[str, Any]:
    """A question answered, with a sentence.

    Parameters
    ----------
    system : whose greatest load in replicate 0 is `root`; one of the replicas, or all.
    asked, whole : load of all `count` replicas that is planned for, and the greatest.
    """
    if isinstance(question, str):
        return {"name": question, "verdict": "nothing to try"}
    load = asked * question.load_factor
    share, price = 1.0, system.price_per_hour / system.replicas
    if question.overrides:
        try:
            changed = system.changed(question.overrides)
            share = greatest_load(changed, 0, root, 1.2) / root
        except InputError as error:
            return {"name": question.name, "verdict": f"cannot be: {error}"}
        price = changed.price_per_hour / changed.replicas
    elif question.load_factor == 1.0:  # one replica less
        if count == 1:
            return {"name": question.name, "verdict": "there is only one"}
        share = (count - 1) / count
    carried = whole * share
    met = carried >= load
    verdict = f"{'carries' if met else 'does not carry'} {load:.4g} {system.load.unit}"
    verdict += f", at most {carried:.3g}" + (f" ({share - 1:+.0%})" if share != 1 else "")
    if not met and share > 0:
        # A replica less does not make the others slower.
        each = whole / count * (share if question.overrides else 1.0)
        needed = math.ceil(load / each)
        verdict += f"; takes about {counted(needed, 'replica')}, ${needed * price:.2f}/h"
    return {
        "name": question.name,
        "met": met,
        "load": carried,
        "change": share - 1,
        "set": list(question.overrides),
        "verdict": verdict,
    }
