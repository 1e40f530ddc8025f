"""From a scenario to what the engine is started with: nulls filled, limits that fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from cost_models import catalog
from cost_models.catalog import EngineDefaults, Gpu, Model
from simulator.errors import InputError
from simulator.scenario.batch_limits import fill_batch_limits
from simulator.scenario.combinations import WITHOUT_ISL_CHECK, why_not, without_effect
from simulator.scenario.cost_loader import step_cost
from simulator.scenario.hashing import at_base
from simulator.scenario.kv_size import size_kv_cache
from simulator.scenario.release_rules import check_release
from simulator.scenario.resolve_pools import resolve_pools
from simulator.scenario.resolved import Resolved
from simulator.scenario.scenario import Scenario

# Share of the blocks that vLLM V0's block manager kept free of admissions.
V0_WATERMARK = 0.01
# Policies of engines that cache prefixes, and compose asynchronously, unless told otherwise.
MODERN = ("sglang", "chunked_prefill")


def resolve(scenario: Scenario, *, replicate: int = 0) -> Resolved:
    """Fill what the scenario leaves open with what the engine would use.

    Parameters
    ----------
    scenario : as the user gave it.
    replicate : number of the random sample; the static policy's largest output is its.

    Raises
    ------
    InputError
        Unknown names, a model that does not fit, or limits that contradict each other.
    """
    if scenario.cluster.pools is not None:
        return resolve_pools(scenario, partial(resolve, replicate=replicate))
    model, gpu, defaults = _look_up(scenario)
    scenario = _with_block_size(scenario, defaults)
    notes = list(model.notes)
    limits = fill_batch_limits(scenario.scheduler, defaults, gpu, notes)
    size = size_kv_cache(scenario, model, gpu, defaults, limits, notes)

    data = scenario.to_mapping()
    scheduler, kv_cache = data["scheduler"], data["kv_cache"]
    scheduler["max_num_seqs"] = limits.max_num_seqs
    scheduler["max_num_batched_tokens"] = limits.tokens_for(size.max_model_len)
    kv_cache["num_gpu_blocks"] = size.num_gpu_blocks
    kv_cache["max_model_len"] = size.max_model_len
    kv_cache["gpu_memory_utilization"] = size.gpu_memory_utilization
    _fill_engine_settings(data, scenario, gpu, defaults, notes)
    check_release(scenario, defaults, notes)
    if scenario.scheduler.policy == "static" and scenario.workload.max_tokens is None:
        data["workload"]["max_tokens"] = _largest_output(scenario, size.max_model_len, replicate)
        notes.append(
            f"workload.max_tokens: {data['workload']['max_tokens']}, the workload's largest "
            "output; a static engine is built for one"
        )
    notes.extend(without_effect(scenario))
    notes.extend(_on_engine(scenario))
    notes.extend(_on_groups(scenario, model))
    resolved = Resolved(
        scenario=Scenario.from_mapping(data, scenario.base_dir),
        model=model,
        gpu=gpu,
        defaults=defaults,
        cost=step_cost(
            scenario,
            model,
            gpu,
            limits.max_num_seqs,
            size.max_model_len,
            scheduler["async_scheduling"],
        ),
        memory=size.memory,
        num_gpu_blocks=size.num_gpu_blocks,
        block_size=size.block_size,
        max_model_len=size.max_model_len,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=scheduler["max_num_batched_tokens"],
        replicate=replicate,
        notes=notes,
    )
    scaler = scenario.cluster.autoscaler
    if scaler is not None:
        notes.append(
            f"cluster.autoscaler: a new replica serves {resolved.replica_start_s:.4g} s after its "
            f"order: {scaler.engine_start_s:g} s for the engine, the rest to read the weights at "
            f"{scaler.load_gb_per_s:g} GB/s"
        )
    return resolved


def _with_block_size(scenario: Scenario, defaults: EngineDefaults) -> Scenario:
    """Tokens of a block as the engine has them; SGLang's radix cache goes token by token."""
    if scenario.kv_cache.block_size is not None:
        return scenario
    tokens = 1 if scenario.scheduler.policy == "sglang" else defaults.block_size
    return scenario.with_overrides([f"kv_cache.block_size={tokens}"])


def _look_up(scenario: Scenario) -> tuple[Model, Gpu, EngineDefaults]:
    spec, cluster = scenario.model, scenario.cluster
    with _about("model"):
        name = at_base(spec.name, scenario.base_dir)
        model = catalog.model(
            {"name": name, "weight_dtype": spec.weight_dtype, "kv_dtype": spec.kv_dtype}
        )
    with _about("cluster"):
        cluster.split.check(model)
        gpu = catalog.gpu(at_base(cluster.gpu, scenario.base_dir))
        defaults = catalog.engine_defaults(cluster.engine, cluster.engine_version, gpu)
    return model, gpu, defaults


@contextmanager
def _about(section: str) -> Iterator[None]:
    """Say which section of the scenario a sentence of the catalogue is about."""
    try:
        yield
    except InputError as error:
        sentence = str(error)
        known = sentence.startswith(f"{section}.")
        raise InputError(sentence if known else f"{section}: {sentence}") from None


def _fill_engine_settings(
    data: dict[str, Any],
    scenario: Scenario,
    gpu: Gpu,
    defaults: EngineDefaults,
    notes: list[str],
) -> None:
    """Version, price, watermark, admission check; and what the engine does, but we do not."""
    cluster, scheduler = data["cluster"], data["scheduler"]
    if scenario.cluster.engine_version is None:
        cluster["engine_version"] = defaults.version
        notes.append(f"cluster.engine_version: {defaults.version}, the catalogue's newest")
    elif scenario.cluster.engine_version != defaults.version:
        notes.append(
            f"cluster.engine_version: {scenario.cluster.engine_version} has the defaults and host "
            f"times of {defaults.version}, the nearest release before it in the catalogue"
        )
    if scenario.cluster.price_per_gpu_hour is None:
        cluster["price_per_gpu_hour"] = gpu.price_per_gpu_hour
        notes.append(f"cluster.price_per_gpu_hour: {gpu.price_per_gpu_hour:g}, {gpu.price_source}")
        reserved = gpu.reserved_price_per_gpu_hour
        if scenario.cluster.reserved_price_per_gpu_hour is None and reserved is not None:
            cluster["reserved_price_per_gpu_hour"] = reserved
            notes.append(
                f"cluster.reserved_price_per_gpu_hour: {reserved:g}, {gpu.reserved_price_source}"
            )
    if scenario.scheduler.watermark is None:
        early = scenario.scheduler.policy == "continuous"
        scheduler["watermark"] = V0_WATERMARK if early else defaults.watermark
        if early:
            notes.append(f"scheduler.watermark: {V0_WATERMARK:g}, as early vLLM had it")
    whole_prompts = scenario.scheduler.policy in WITHOUT_ISL_CHECK
    if scenario.scheduler.scheduler_reserve_full_isl is None and not whole_prompts:
        scheduler["scheduler_reserve_full_isl"] = defaults.scheduler_reserve_full_isl
    release = f"{defaults.engine} {defaults.version}"
    switches = {
        ("scheduler", "async_scheduling"): defaults.async_scheduling,
        ("kv_cache", "enable_prefix_caching"): defaults.enable_prefix_caching,
    }
    for (section, key), default in switches.items():
        if data[section].get(key) is None:
            reason = why_not(scenario, key)
            modern = scenario.scheduler.policy in MODERN and reason is None
            data[section][key] = default and modern
            notes.append(
                f"{section}.{key}: {'on' if data[section][key] else 'off'}, "
                + (f"the default of {release}" if modern else reason or "unless asked for")
            )


OWN_POLICY = {"sglang": "sglang", "trtllm": None}  # the scheduler of other engines than vLLM


def _on_engine(scenario: Scenario) -> Iterator[str]:
    """What of an engine is simulated, where its scheduler is not the one that runs."""
    engine, policy = scenario.cluster.engine, scenario.scheduler.policy
    if engine not in OWN_POLICY or policy == OWN_POLICY[engine]:
        return
    own = OWN_POLICY[engine]
    remedy = f"scheduler.policy {own} is its own" if own else "its own is not simulated"
    yield (
        f"cluster.engine: kernels, memory and defaults of {engine}, under the scheduler "
        f"{policy}; {remedy}"
    )


def _on_groups(scenario: Scenario, model: Model) -> Iterator[str]:
    """What the sizes of the groups of GPUs come to."""
    cluster = scenario.cluster
    if cluster.expert_parallel and cluster.split.expert_ranks == 1:
        yield "cluster.expert_parallel: no effect on one GPU"
    if cluster.data_parallel > 1:
        together = (
            "step together, since they share experts; each has its own queue and KV cache"
            if model.experts is not None
            else "work by themselves, as replicas do"
        )
        yield (
            f"cluster.data_parallel: the {cluster.data_parallel} engines of a replica {together}; "
            f"cluster.router {cluster.router} chooses among all {cluster.engines} engines"
        )


def _largest_output(scenario: Scenario, max_model_len: int, replicate: int) -> int:
    from simulator.workload import build_requests

    requests = build_requests(
        scenario.workload,
        base_dir=scenario.base_dir,
        max_model_len=max_model_len,
        seed=scenario.seed,
        replicate=replicate,
    )
    return min(int(requests.output_tokens.max()), max_model_len - 1)
