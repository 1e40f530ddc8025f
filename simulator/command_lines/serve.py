"""`vllm serve` as the model, the cluster, the scheduler and the KV cache of a scenario.

Flags: https://docs.vllm.ai/en/latest/cli/serve/ and those of earlier releases.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simulator.command_lines import told
from simulator.command_lines.told import SERVE_IGNORED, SERVE_NOT_SIMULATED, Told, explain
from simulator.command_lines.words import Arity, Command, Option
from simulator.errors import InputError
from simulator.scenario.overrides import Override, key_path
from simulator.validation import names
from simulator.validation.measured import CannotSimulateError

SHORT = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-dcp": "decode-context-parallel-size",
    "-q": "quantization",
    "-O": "optimization-level",
    "-cc": "compilation-config",
    "-sc": "speculative-config",
}
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_UNQUANTIZED = ("bfloat16", "float16", "half", "auto")


def whole(option: Option) -> int:
    """A whole number, with vLLM's suffixes: 32k is 32,000 and 32K is 32,768."""
    text = _value(option)
    found = re.fullmatch(r"(-?\d+(?:\.\d+)?)([kmgKMG]?)", text)
    if found is None or (not found[2] and "." in found[1]):
        raise InputError(f"{option.written} {text}: must be a whole number, such as 8192 or 8K")
    return round(float(found[1]) * _SUFFIXES.get(found[2], 1))


def number(option: Option) -> float:
    """A number."""
    try:
        return float(_value(option))
    except ValueError:
        raise InputError(
            f"{option.written} {_value(option)}: must be a number, such as 0.9"
        ) from None


def text(option: Option) -> str:
    """The value as it is."""
    return _value(option)


def _value(option: Option) -> str:
    if not option.values:
        raise InputError(f"{option.written} stands without a value; give it one or remove it")
    return option.values[0]


# Flag -> key of the scenario, and how its value is read.
KEYS: dict[str, tuple[str, Callable[[Option], Any]]] = {
    "tensor-parallel-size": ("cluster.tensor_parallel", whole),
    "max-num-seqs": ("scheduler.max_num_seqs", whole),
    "max-num-batched-tokens": ("scheduler.max_num_batched_tokens", whole),
    "long-prefill-token-threshold": ("scheduler.long_prefill_token_threshold", whole),
    "scheduling-policy": ("scheduler.order", text),
    "gpu-memory-utilization": ("kv_cache.gpu_memory_utilization", number),
    "block-size": ("kv_cache.block_size", whole),
    "num-gpu-blocks-override": ("kv_cache.num_gpu_blocks", whole),
    "max-model-len": ("kv_cache.max_model_len", whole),
    "data-parallel-size": ("cluster.data_parallel", whole),
    "pipeline-parallel-size": ("cluster.pipeline_parallel", whole),
    "preemption-mode": ("scheduler.preemption", text),
}
SWITCHES = {
    "enable-chunked-prefill": "scheduler.enable_chunked_prefill",
    "async-scheduling": "scheduler.async_scheduling",
    "scheduler-reserve-full-isl": "scheduler.scheduler_reserve_full_isl",
    "enable-prefix-caching": "kv_cache.enable_prefix_caching",
    "enable-expert-parallel": "cluster.expert_parallel",
}
# Those that take more than a key, or are told with the model.
OTHERS = ("model", "quantization", "dtype", "kv-cache-dtype")


def arities() -> dict[str, Arity]:
    """How many values each flag has."""
    found: dict[str, Arity] = dict.fromkeys((*KEYS, *OTHERS), "one")
    for name in SWITCHES:
        found |= {name: "switch", f"no-{name}": "switch"}
    return found | told.arities(SERVE_IGNORED) | told.arities(SERVE_NOT_SIMULATED)


def translate(command: Command) -> tuple[list[Override], list[Told]]:
    """What the command sets, and what of it was not taken over."""
    overrides, notes = _model(command)
    if command.version is not None:
        key = key_path("cluster.engine_version")
        overrides.append(Override(key, command.version, "the image's version"))
    for option in command.options:
        name, _, _ = option.name.partition(".")
        positive = name.removeprefix("no-")
        if name in KEYS:
            path, read = KEYS[name]
            overrides.append(Override(key_path(path), read(option), option.written))
        elif positive in SWITCHES:
            on = _switch(option, name == positive)
            overrides.append(Override(key_path(SWITCHES[positive]), on, option.written))
        elif name not in OTHERS:
            notes.append(explain(option, "vllm serve", SERVE_IGNORED, SERVE_NOT_SIMULATED))
    return overrides, notes


def _switch(option: Option, positive: bool) -> bool:
    given = option.values[0].lower() if option.values else "true"
    if given not in ("true", "false"):
        raise InputError(f"{option.written}: its value is {given}; it must be true or false")
    return positive == (given == "true")


def _model(command: Command) -> tuple[list[Override], list[Told]]:
    """Name and data types of the model."""
    notes: list[Told] = []
    last = {option.name: option for option in command.options if option.values}
    written = command.positional[0] if command.positional else None
    if written is None and "model" in last:
        written = text(last["model"])
    if written is None:
        raise InputError("vllm serve: no model is named; give it behind `serve`, or as --model")
    spec: dict[str, Any] = {"name": _catalogue_name(written)}
    weights = _weight_dtype(written, last, notes)
    if weights is not None:
        spec["weight_dtype"] = weights
    if "kv-cache-dtype" in last:
        kv_dtype = text(last["kv-cache-dtype"])
        if kv_dtype != "auto":
            spec["kv_dtype"] = names.kv_dtype(kv_dtype)
    model = spec if len(spec) > 1 else spec["name"]
    return [Override(("model",), model, "the model")], notes


def _catalogue_name(written: str) -> str:
    config = Path(written, "config.json")
    if config.is_file():
        return str(config)
    try:
        return names.model(written)
    except CannotSimulateError as error:
        raise InputError(
            f"vllm serve {written}: {error}; give --set model=NAME (`servecast list models`), or "
            "--set model=PATH of its config.json"
        ) from None


def _weight_dtype(written: str, last: dict[str, Option], notes: list[Told]) -> str | None:
    """Data type that the flags or the checkpoint's name tell; None: as the catalogue says."""
    if "dtype" in last and text(last["dtype"]) not in _UNQUANTIZED:
        notes.append(Told("--dtype", f"{text(last['dtype'])} weights are not priced", True))
    said = text(last["quantization"]).lower() if "quantization" in last else ""
    name = written.lower()
    if "gpt-oss" in name:
        return None  # mxfp4 experts, as the catalogue has them
    if said in ("fp8", "modelopt", "fbgemm_fp8", "ptpc_fp8") or (not said and "fp8" in name):
        return names.weight_dtype("fp8", written)
    if said in ("modelopt_fp4", "nvfp4") or (not said and re.search(r"nvfp4|[-_]fp4", name)):
        return "nvfp4"
    if "fp8" in name and said == "compressed-tensors":
        return "fp8"
    other = said or "".join(re.findall(r"awq|gptq|int4|int8|w4a16|w8a8|gguf|bnb", name)[:1])
    if other:
        why = f"{other} weights are not priced; those of the catalogue stand for them"
        notes.append(Told("--quantization" if said else written, why, matters=True))
    return None
