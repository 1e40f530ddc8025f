"""The price of a step that a scenario asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cost_models.catalog import Gpu, Model
from simulator.errors import InputError
from simulator.scenario.cost_model import LinearCost, OwnCost, TableCost
from simulator.scenario.scenario import Scenario

if TYPE_CHECKING:
    from cost_models.step_cost import CostForm, StepCost


def step_cost(
    scenario: Scenario,
    model: Model,
    gpu: Gpu,
    max_num_seqs: int,
    max_model_len: int,
    async_scheduling: bool,
) -> StepCost:
    """What `cost_model` says, for the model on its GPUs.

    Raises
    ------
    InputError
        No calibration, a table that ends too early, or code of the user that fails.
    """
    from cost_models.scaled import ScaledForm
    from cost_models.step_cost import Frontend, StepCost  # loads Numba

    cost = _unscaled(scenario, model, gpu, max_num_seqs, max_model_len, async_scheduling)
    factor = scenario.cost_model.time_scale
    if factor == 1.0:
        return cost
    frontend = Frontend(*(seconds * factor for seconds in cost.frontend))
    return StepCost(ScaledForm(cost.form, factor), frontend)


def _unscaled(
    scenario: Scenario,
    model: Model,
    gpu: Gpu,
    max_num_seqs: int,
    max_model_len: int,
    async_scheduling: bool,
) -> StepCost:
    from cost_models.step_cost import StepCost

    spec, cluster = scenario.cost_model, scenario.cluster
    if isinstance(spec, LinearCost):
        return StepCost.linear(spec.t_mem_s, spec.t_flop_s_per_token, spec.t_seq_s)
    if isinstance(spec, TableCost):
        path = scenario.base_dir / spec.path
        return StepCost.table(path, spec.allow_extrapolation, max_model_len)
    if isinstance(spec, OwnCost):
        return StepCost(_own_form(spec.attr, scenario, model, gpu))
    return StepCost.load(
        model,
        gpu=gpu,
        split=cluster.split,
        engine=cluster.engine,
        engine_version=cluster.engine_version,
        kind=spec.kind,
        max_num_seqs=max_num_seqs,
        async_scheduling=async_scheduling,
        without=getattr(spec, "without", ()),
        coefficients=[scenario.base_dir / name for name in getattr(spec, "coefficients", ())],
        host=scenario.base_dir / spec.host if spec.host else None,
    )


def _own_form(attr: str, scenario: Scenario, model: Model, gpu: Gpu) -> CostForm:
    """Call the user's function with the model, the GPU and the tensor-parallel size."""
    from simulator.schedulers.loader import load_attr

    make = load_attr(attr, scenario.base_dir, "cost_model.kind", "(model, gpu, tp)")
    try:
        form = make(model, gpu, scenario.cluster.tensor_parallel)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"cost_model.kind is {attr}, which fails ({type(error).__name__}: {error}); it is "
            "called with a model, a GPU and a tensor-parallel size"
        ) from error
    missing = [name for name in ("tables", "ops", "provenance") if not hasattr(form, name)]
    if missing:
        raise InputError(
            f"cost_model.kind is {attr}, but what it returns has no {', '.join(missing)}; return "
            "an object like cost_models.step_cost.CostForm"
        )
    return cast("CostForm", form)
