"""`vllm bench serve` as the workload and the objectives of a scenario.

Flags and defaults: https://docs.vllm.ai/en/latest/cli/bench/serve/.
"""

from __future__ import annotations

import json
import math
from typing import Any

from simulator.command_lines import told
from simulator.command_lines.serve import number, text, whole
from simulator.command_lines.told import BENCH_IGNORED, Told, explain
from simulator.command_lines.words import Arity, Command, Option
from simulator.errors import InputError
from simulator.scenario.overrides import Override

# Default of each flag that decides the workload.
DEFAULTS = {
    "num-prompts": "1000",
    "request-rate": "inf",
    "burstiness": "1.0",
    "dataset-name": "random",
    "random-input-len": "1024",
    "random-output-len": "128",
    "random-range-ratio": "0.0",
    "random-prefix-len": "0",
    "sonnet-input-len": "550",
    "sonnet-output-len": "150",
    "sonnet-prefix-len": "200",
    "prefix-repetition-prefix-len": "256",
    "prefix-repetition-suffix-len": "256",
    "prefix-repetition-num-prefixes": "10",
    "prefix-repetition-output-len": "128",
    "timed-trace-sec-multiplier": "1.0",
    "timed-trace-chunk-hash-size": "16",
}
# Without a default.
OPTIONAL = ("max-concurrency", "dataset-path", "input-len", "output-len", "sharegpt-output-len",
            "custom-output-len", "seed", "ramp-up-strategy", "ramp-up-start-rps",
            "ramp-up-end-rps", "model")  # fmt: skip

# 1,000 conversations of ShareGPT as this client filters them have 219 prompt and 201 output
# tokens on average (GPUStack's performance lab, DeepSeek-R1); prompts beyond 1,024 are left out.
SHAREGPT = {"mean_prompt_tokens": 219, "mean_output_tokens": 201, "max_prompt_tokens": 1024}


def arities() -> dict[str, Arity]:
    """How many values each flag has."""
    found: dict[str, Arity] = dict.fromkeys([*DEFAULTS, *OPTIONAL], "one")
    return found | {"goodput": "many", "self-timed": "switch"} | told.arities(BENCH_IGNORED)


def translate(command: Command) -> tuple[list[Override], list[Told]]:
    """What the command sets, and what of it was not taken over."""
    given = {name: Option(f"--{name}", name, [value]) for name, value in DEFAULTS.items()}
    notes: list[Told] = []
    for option in command.options:
        if option.name in (*DEFAULTS, *OPTIONAL, "goodput", "self-timed"):
            given[option.name] = option
        else:
            notes.append(explain(option, "vllm bench serve", BENCH_IGNORED, {}))
    notes += [Told(word, "belongs to no flag", matters=True) for word in command.positional]
    workload = _workload(given, notes)
    overrides = [Override(("workload",), workload, "vllm bench serve")]
    if "seed" in given:
        overrides.append(Override(("seed",), whole(given["seed"]), "--seed"))
    if "goodput" in given:
        overrides += _objectives(given["goodput"])
    return overrides, notes


def _workload(given: dict[str, Option], notes: list[Told]) -> dict[str, Any]:
    workload = _requests(given, notes)
    if "trace" not in workload:
        workload = {"arrivals": _arrivals(given), **workload}
        workload["num_requests"] = whole(given["num-prompts"])
    if "max-concurrency" in given:
        workload["max_concurrency"] = whole(given["max-concurrency"])
    return workload


def _arrivals(given: dict[str, Option]) -> dict[str, Any]:
    """Gamma-distributed gaps of shape `burstiness`: 1 is Poisson, less is burstier."""
    if "ramp-up-strategy" in given:
        raise InputError(
            f"--ramp-up-strategy {text(given['ramp-up-strategy'])}: rising rates are not taken "
            "from a command; remove it and write them as workload.arrivals: {process: diurnal, ...}"
        )
    rate, shape = number(given["request-rate"]), number(given["burstiness"])
    if rate == math.inf:
        return {"process": "burst"}
    if not shape > 0:
        raise InputError(f"--burstiness {shape:g}: must be above 0; 1 is a Poisson process")
    if shape == 1.0:
        return {"process": "poisson", "rate": rate}
    return {"process": "gamma", "rate": rate, "cv": shape**-0.5}


def _requests(given: dict[str, Option], notes: list[Told]) -> dict[str, Any]:
    """Lengths, or the whole trace, of the data set."""
    name = text(given["dataset-name"])
    if name == "random":
        return _random(given)
    if name == "sonnet":
        return _fixed(given, "sonnet-input-len", "sonnet-output-len") | {
            "shared_prefix_tokens": whole(given["sonnet-prefix-len"])
        }
    if name in ("prefix_repetition", "prefix-repetition"):
        return _prefix_repetition(given)
    if name == "sharegpt":
        return _sharegpt(given, notes)
    if name in ("timed_trace", "timed-trace"):
        return {"trace": _timed_trace(given, notes)}
    if name == "burstgpt":
        path = text(_needed(given, "dataset-path", name))
        notes.append(
            Told("--dataset-name", "burstgpt: lengths of all its rows, of any model", False)
        )
        return {"lengths": {"distribution": "empirical", "file": path}}
    raise InputError(
        f"--dataset-name {name}: how long its prompts are is known to a tokenizer only; write "
        "prompt_tokens,output_tokens to a CSV file, and give --dataset-name random here with "
        "--set 'workload.lengths={distribution: empirical, file: FILE}'"
    )


def _length(given: dict[str, Option], name: str, general: str) -> int:
    """A data set's length; ``--input-len`` and ``--output-len`` hold for all of them."""
    return whole(given.get(general, given[name]))


def _fixed(given: dict[str, Option], prompt: str, output: str) -> dict[str, Any]:
    return {
        "lengths": {
            "distribution": "fixed",
            "prompt_tokens": _length(given, prompt, "input-len"),
            "output_tokens": _length(given, output, "output-len"),
        }
    }


def _random(given: dict[str, Option]) -> dict[str, Any]:
    """Uniform between (1 - ratio) and (1 + ratio) times the lengths, behind a common prefix."""
    prompt = _length(given, "random-input-len", "input-len")
    output = _length(given, "random-output-len", "output-len")
    prompt_ratio, output_ratio = _ratios(given["random-range-ratio"])
    prefix = whole(given["random-prefix-len"])
    low, high = _spread(prompt, prompt_ratio)
    shortest, longest = _spread(output, output_ratio)
    shared = {"shared_prefix_tokens": prefix} if prefix else {}
    if low == high and shortest == longest:
        lengths = {
            "distribution": "fixed",
            "prompt_tokens": prefix + prompt,
            "output_tokens": output,
        }
        return {"lengths": lengths, **shared}
    lengths = {
        "distribution": "uniform",
        "min_prompt_tokens": prefix + low,
        "max_prompt_tokens": prefix + high,
        "min_output_tokens": shortest,
        "max_output_tokens": longest,
    }
    return {"lengths": lengths, **shared}


def _spread(length: int, ratio: float) -> tuple[int, int]:
    return max(1, math.floor(length * (1 - ratio))), math.ceil(length * (1 + ratio))


def _ratios(option: Option) -> tuple[float, float]:
    """One ratio, or JSON with one for the input and one for the output."""
    value = text(option)
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    if isinstance(found, dict):
        ratios = found.get("input", 0.0), found.get("output", 0.0)
    else:
        ratios = found, found
    if not all(isinstance(ratio, int | float) and 0 <= ratio < 1 for ratio in ratios):
        raise InputError(f"{option.written} {value}: must be at least 0 and less than 1")
    return float(ratios[0]), float(ratios[1])


def _prefix_repetition(given: dict[str, Option]) -> dict[str, Any]:
    """A class for each prefix, in equal shares."""
    prefix = whole(given["prefix-repetition-prefix-len"])
    prefixes = whole(given["prefix-repetition-num-prefixes"])
    if prefixes < 1:
        raise InputError(f"--prefix-repetition-num-prefixes {prefixes}: must be at least 1")
    lengths = {
        "distribution": "fixed",
        "prompt_tokens": prefix + _length(given, "prefix-repetition-suffix-len", "input-len"),
        "output_tokens": _length(given, "prefix-repetition-output-len", "output-len"),
    }
    if prefixes == 1:
        return {"lengths": lengths, "shared_prefix_tokens": prefix}
    classes = [
        {"name": f"prefix {i}", "share": 1 / prefixes, "shared_prefix_tokens": prefix}
        for i in range(prefixes)
    ]
    return {"lengths": lengths, "classes": classes}


def _sharegpt(given: dict[str, Option], notes: list[Told]) -> dict[str, Any]:
    why = (
        "sharegpt: lognormal lengths of its published means, with an assumed spread, stand for "
        "the file, whose lengths only a tokenizer knows; use your own with --set workload.lengths"
    )
    notes.append(Told("--dataset-name", why, matters=True))
    lengths: dict[str, Any] = {
        "distribution": "lognormal", **SHAREGPT, "prompt_cv": 1.0, "output_cv": 1.0
    }  # fmt: skip
    output = given.get("output-len", given.get("sharegpt-output-len"))
    if output is not None:
        lengths |= {"mean_output_tokens": whole(output), "output_cv": 0.0}
    return {"lengths": lengths}


def _timed_trace(given: dict[str, Option], notes: list[Told]) -> dict[str, Any]:
    path = text(_needed(given, "dataset-path", "timed_trace"))
    trace: dict[str, Any] = {"path": path, "format": "timed_trace"}
    seconds = number(given["timed-trace-sec-multiplier"])
    if not seconds > 0:
        raise InputError(f"--timed-trace-sec-multiplier {seconds:g}: must be above 0")
    if seconds == 1e-3:
        trace["format"] = "mooncake"  # whose times are in ms
    elif seconds != 1.0:
        trace["rate_scale"] = 1 / seconds
    trace["block_tokens"] = whole(given["timed-trace-chunk-hash-size"])
    trace["limit"] = whole(given["num-prompts"])
    if "self-timed" not in given:
        why = "without --self-timed the client sends by --request-rate; here the trace's times hold"
        notes.append(Told("--dataset-name", why, matters=True))
    return trace


def _needed(given: dict[str, Option], name: str, dataset: str) -> Option:
    if name not in given:
        raise InputError(f"--dataset-name {dataset} needs --{name}; add it")
    return given[name]


def _objectives(option: Option) -> list[Override]:
    """``--goodput ttft:500 tpot:50``: limits of each request, in ms."""
    out = []
    for pair in option.values:
        metric, colon, limit = pair.partition(":")
        try:
            value = float(limit)
        except ValueError:
            value = math.nan
        if not colon or metric not in ("ttft", "tpot", "e2el") or not value > 0:
            raise InputError(
                f"--goodput {pair}: must be ttft:MS, tpot:MS or e2el:MS, such as ttft:500"
            )
        out.append(Override(("slo", f"{metric}_ms"), value, "--goodput"))
    return out
