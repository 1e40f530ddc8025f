"""What `servecast run` prints: the benchmark's block, then what a planner asks next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from simulator.metrics.attribution import TITLES
from simulator.metrics.backlog import BACKLOGGED, OVERLOADED
from simulator.metrics.limits import LIMITS
from simulator.metrics.steps import reserves_room
from simulator.report.benchmark import benchmark_block
from simulator.report.block import LABEL, header, line, number, wrapped
from simulator.report.cost import cost_lines
from simulator.words import counted

if TYPE_CHECKING:
    from simulator.scenario import Resolved

STATE_MEANS = {
    OVERLOADED: "Overloaded: the backlog grows for as long as the run lasts, so the latencies "
    "above depend on the run's length and are not the system's.",
    BACKLOGGED: "Backlogged: requests wait most of the time, though the backlog does not grow "
    "for good; latencies follow the bursts.",
}


def text_report(
    summary: dict[str, Any],
    resolved: Resolved,
    percentiles: Sequence[int] = (99,),
    preemption: Sequence[str] = (),
) -> str:
    """The whole report as text.

    Parameters
    ----------
    summary : from `simulator.metrics.summarize`.
    resolved : what was simulated: where the step costs and the defaults come from.
    percentiles : those to print in the latency sections.
    preemption : why requests were preempted and what ends it, a sentence each.
    """
    static = resolved.scenario.scheduler.policy == "static"
    lines = (
        benchmark_block(summary, percentiles)
        + _objectives(summary)
        + _classes(summary)
        + _state(summary)
        + _limits(summary)
        + _time(summary)
        + _batch(summary, static)
        + _speculation(summary, resolved)
        + _pools(summary)
        + _memory(summary, resolved)
        + _preemption(preemption)
        + _hardware(summary)
        + _basis(summary, resolved)
        + [header("", "=")]
    )
    return "\n".join(lines)


def verdict_line(verdict: dict[str, Any]) -> str:
    """One objective: ✓ or ✗, what was asked, and what was measured."""
    mark = "✓" if verdict["met"] else "✗"
    who = f"{verdict['class_name']}: " if verdict["class_name"] else ""
    return line(f"{mark} {who}{verdict['metric']} <= {verdict['limit_ms']:g}", verdict["value_ms"])


def _objectives(summary: dict[str, Any]) -> list[str]:
    found = list(summary["slo"])
    for figures in summary["classes"].values():
        found += figures["slo"]
    if not found and summary["goodput_share"] is None:
        return []
    out = [header("Service Level Objectives"), *map(verdict_line, found)]
    if summary["goodput_share"] is not None:
        out.append(line("Requests that meet every SLO (%):", summary["goodput_share"] * 100))
    left_out = summary["rejected"] + summary["unfinished"]
    if found and left_out:
        out += wrapped(
            f"{counted(left_out, 'request')} that did not complete: in no percentile.", bullet="! "
        )
    return out


def _classes(summary: dict[str, Any]) -> list[str]:
    if not summary["classes"]:
        return []
    columns = ("done", "TTFT mean", "p99", "TPOT mean", "p99", "E2EL mean", "p99")
    width = max(len(name) for name in summary["classes"]) + 2
    out = [
        header("Classes (ms)"),
        " " * width + "".join(f"{column:>11}" for column in columns),
    ]
    for name, figures in summary["classes"].items():
        values: list[Any] = [figures["completed"]]
        for metric in ("ttft", "tpot", "e2el"):
            values += [figures[f"mean_{metric}_ms"], figures[f"p99_{metric}_ms"]]
        out.append(f"{name:<{width}}" + "".join(f"{number(value):>11}" for value in values))
    for name, figures in summary["classes"].items():
        out.append(line(f"P99.9 wait, {name} (ms):", figures["p99.9_wait_ms"]))
        out.append(line(f"Longest wait, {name} (ms):", figures["max_wait_ms"]))
    if summary["jain_index"] is not None:
        out.append(line("Jain index of the service by class:", summary["jain_index"]))
    return out


def _state(summary: dict[str, Any]) -> list[str]:
    out = [
        header("State"),
        line("State:", summary["state"]),
        f"{'Backlog growth (req/s):':<{LABEL}} {summary['backlog_slope_per_s']:.3f} ± "
        f"{summary['backlog_slope_ci95_per_s']:.3f}",
        line("Mean queue time (ms):", summary["mean_queue_ms"]),
        line("P99 queue time (ms):", summary["p99_queue_ms"]),
    ]
    for reason, count in summary["rejected_by_reason"].items():
        out.append(line(f"Rejected, {reason.replace('_', ' ')}:", count))
    if summary["unfinished"]:
        out.append(line("Unfinished requests:", summary["unfinished"]))
    if summary["warmup_s"] > 0:
        out.append(line("Warm-up cut (s):", float(summary["warmup_s"])))
        out.append(line("Requests cut with it:", summary["warmup_requests"]))
        out += wrapped("Inter-token latency still covers the warm-up.", bullet="! ")
    if summary["state"] in STATE_MEANS:
        out += wrapped(STATE_MEANS[summary["state"]], bullet="! ")
    return out


def _limits(summary: dict[str, Any]) -> list[str]:
    return [
        header("What limits (% of time)"),
        *(
            line(f"{LIMITS[limit['resource']]}:", limit["share"] * 100)
            for limit in summary["limits"]
        ),
    ]


def _time(summary: dict[str, Any]) -> list[str]:
    """Where the latency went, by phase, and what the requests beyond each limit lost it to."""
    found = summary["attribution"]
    if not found["e2el"]:
        return []
    phases = {"TTFT": "ttft", "after it": "decode", "E2EL": "e2el"}
    out = [header("Where the time went (%)"), f"{'':<20}" + "".join(f"{p:>10}" for p in phases)]
    for name in found["e2el"]:
        cells = [found[phase].get(name, 0.0) * 100 for phase in phases.values()]
        if any(cell >= 0.005 for cell in cells):
            out.append(f"{TITLES[name] + ':':<20}" + "".join(f"{cell:>10.2f}" for cell in cells))
    for cause in found["slo"]:
        parts = [f"{TITLES[name]} {share:.0%}" for name, share in cause["shares"].items()][:3]
        if parts:
            who = f"{cause['class_name']}: " if cause["class_name"] else ""
            where = "beyond it" if cause["beyond"] else "near it"
            about = f"{counted(cause['requests'], 'request')} {where}"
            out += wrapped(f"{who}{cause['metric']}, {about}: {', '.join(parts)}.", bullet="- ")
    return out


def _batch(summary: dict[str, Any], static: bool) -> list[str]:
    out = [
        header("Batch"),
        line("Engine steps:", summary["num_steps"]),
        line("Mean batch size (running requests):", summary["mean_batch_size"]),
        line("Mean tokens per step:", summary["mean_tokens_per_step"]),
        line("Stalled (% of running requests' time):", summary["decode_stall_share"] * 100),
    ]
    if static:
        out.append(line("Tail bubble (% of slot-steps):", summary["tail_bubble_share"] * 100))
        out.append(line("Padding (% of tokens):", summary["padding_share"] * 100))
    return out


def _speculation(summary: dict[str, Any], resolved: Resolved) -> list[str]:
    if resolved.scenario.scheduler.speculative is None:
        return []
    return [
        line("Drafted tokens accepted (%):", summary["draft_acceptance"] * 100),
        line("Output tokens per decode:", summary["tokens_per_decode"]),
    ]


def _pools(summary: dict[str, Any]) -> list[str]:
    """The two pools side by side, and what is between them."""
    if not summary["pools"]:
        return []
    rows = {
        "GPUs": ("num_gpus", 1),
        "Utilisation (%)": ("utilisation", 100),
        "Mean batch size": ("mean_batch_size", 1),
        "Mean tokens per step": ("mean_tokens_per_step", 1),
        "KV usage, mean (%)": ("kv_usage_mean", 100),
        "KV usage, peak (%)": ("kv_usage_peak", 100),
        "Prefix cache hits (% of prompts)": ("prefix_hit_rate", 100),
        "Preemptions": ("preemptions", 1),
        "MFU (%)": ("mfu", 100),
        "MBU (%)": ("mbu", 100),
    }
    pools = summary["pools"]
    out = [header("Pools"), " " * 32 + "".join(f"{name:>12}" for name in pools)]
    for title, (key, scale) in rows.items():
        cells = "".join(f"{number(pool[key] * scale):>12}" for pool in pools.values())
        out.append(f"{title:<32}{cells}")
    for name, pool in pools.items():
        named = [f"{LIMITS[one['resource']]} {one['share']:.0%}" for one in pool["limits"][:2]]
        out += wrapped(f"{name}: {pool['state']}; {', '.join(named)}.", bullet="- ")
    moved = summary["kv_transfer"]
    return [
        *out,
        header("KV transfer"),
        line("Mean (ms):", moved["mean_transfer_ms"]),
        line("P99 (ms):", moved["p99_transfer_ms"]),
        line("Read by decode (GiB):", moved["transferred_bytes"] / 2**30),
        line("Busy, links of prefill (%):", moved["prefill_link_utilisation"] * 100),
        line("Busy, links of decode (%):", moved["decode_link_utilisation"] * 100),
    ]


def memory_sum(resolved: Resolved) -> list[tuple[str, float | int]]:
    """What one GPU's memory is divided into, GiB line by line, down to the KV blocks."""
    if resolved.memory is None:  # the scenario gives the number of blocks
        return [("KV blocks", resolved.num_gpu_blocks)]
    return [
        *((label, size / 2**30) for label, size in resolved.memory.lines),
        (f"KV blocks of {resolved.block_size} tokens", resolved.num_gpu_blocks),
    ]


def _memory(summary: dict[str, Any], resolved: Resolved) -> list[str]:
    internal = summary["kv_internal_fragmentation"] * 100
    empty = [line("Internal fragmentation (% of held):", internal)]
    if reserves_room(resolved.scenario):
        empty += [
            line("Reserved but unused (% of held):", summary["kv_reserved_unused"] * 100),
            line("External fragmentation (% of free):", summary["kv_external_fragmentation"] * 100),
        ]
    if summary["kv_exhausted_s"] is not None:
        empty += [
            line("Ran out of blocks first at (s):", summary["kv_exhausted_s"]),
            line("Requests that ran then:", summary["kv_exhausted_running"]),
            line("KV slots filled then (%):", summary["kv_exhausted_filled"] * 100),
        ]
    return [
        header("KV cache"),
        line("Mean usage (%):", summary["kv_usage_mean"] * 100),
        line("Peak usage (%):", summary["kv_usage_peak"] * 100),
        *empty,
        line("Prefix cache hits (% of prompts):", summary["prefix_hit_rate"] * 100),
        line("Preemptions:", summary["preemptions"]),
        line("Recomputed tokens:", summary["recomputed_tokens"]),
        *_swap(summary, resolved),
        *_offload(summary, resolved),
        *_lora(summary, resolved),
        header("Memory of one GPU (GiB)"),
        *(line(f"{label}:", value) for label, value in memory_sum(resolved)),
    ]


def _preemption(sentences: Sequence[str]) -> list[str]:
    if not sentences:
        return []
    out = [header("Why requests are preempted")]
    for sentence in sentences:
        out += wrapped(sentence, bullet="- ")
    return out


def _offload(summary: dict[str, Any], resolved: Resolved) -> list[str]:
    if not resolved.scenario.kv_cache.kv_offloading_size:
        return []
    return [
        line("Evicted to host memory (GiB):", summary["offload_stored_bytes"] / 2**30),
        line("Loaded from host memory (GiB):", summary["offload_loaded_bytes"] / 2**30),
        line("Waited for it (s):", summary["offload_load_s"]),
    ]


def _lora(summary: dict[str, Any], resolved: Resolved) -> list[str]:
    if resolved.scenario.scheduler.lora is None:
        return []
    return [
        line("LoRA adapters loaded:", summary["adapter_loads"]),
        line("Waited for it (s):", summary["adapter_load_s"]),
    ]


def _swap(summary: dict[str, Any], resolved: Resolved) -> list[str]:
    lines = []
    if resolved.scenario.scheduler.preemption == "swap":
        lines.append(line("Swapped KV (GiB, out and in):", summary["swapped_bytes"] / 2**30))
    if summary["preemptions"]:
        lines.append(line("Lost to preemptions (s):", summary["preemption_lost_s"]))
    return lines


def _hardware(summary: dict[str, Any]) -> list[str]:
    return [
        header("Hardware and cost"),
        line("GPUs:", summary["num_gpus"]),
        line("Utilisation (% of time in a step):", summary["utilisation"] * 100),
        line("Host time (% of time):", summary["host_share"] * 100),
        line("MFU (%):", summary["mfu"] * 100),
        line("MBU (%):", summary["mbu"] * 100),
        *cost_lines(summary),
    ]


def _basis(summary: dict[str, Any], resolved: Resolved) -> list[str]:
    out = [header("Where the numbers come from")]
    for text in resolved.cost.provenance.splitlines():
        out += wrapped(text, bullet="Step cost: " if len(out) == 1 else " " * 11)
    for note in resolved.notes:
        out += wrapped(note, bullet="- ")
    scheduler = resolved.scenario.scheduler
    if scheduler.policy == "static" and not scheduler.static.stream:
        itl = (
            "scheduler.static.stream: false, so the results of a batch come back together: TTFT "
            "is E2EL, TPOT is 0 and there are no gaps between tokens."
        )
    else:
        itl = "ITL is per token; vllm bench serve takes it per received chunk."
    out += wrapped(itl, bullet="- ")
    out += wrapped(f"Scenario {summary['scenario_hash'][:12]}, seed {summary['seed']}.", "- ")
    return out
