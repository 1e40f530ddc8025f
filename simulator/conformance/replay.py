"""Run a recorded workload through our engine and write what it did in the same words."""

from __future__ import annotations

from typing import Any

import numpy as np

from cost_models import StepCost
from simulator.conformance.workload import RecordedCase
from simulator.engine import log
from simulator.engine.fleet import Fleet
from simulator.engine.queue import ARRIVAL_ORDER, Order
from simulator.engine.state import BY_PRIORITY, PAGED, PREFIX
from simulator.recording import FINISHED, REJECTED
from simulator.schedulers import chunked_prefill, multi_lora

Record = dict[str, Any]


def replay(case: RecordedCase) -> tuple[list[Record], dict[str, Record], Record]:
    """Step records, request records by id, and the end record of our own run."""
    config = case.config
    a, b, c = case.step_time or (1.0, 0.0, 0.0)
    fleet = Fleet(
        case.requests,
        limits={
            "max_num_seqs": config["max_num_seqs"],
            "max_num_batched_tokens": config["max_num_batched_tokens"],
            "max_model_len": config["max_model_len"],
            "block_size": config["block_size"],
            "usable_blocks": config["num_gpu_blocks"] - 1,
            "watermark_blocks": int(config["watermark"] * config["num_gpu_blocks"]),
            "long_prefill_token_threshold": config["long_prefill_token_threshold"],
            "chunked_prefill": config["enable_chunked_prefill"],
            "reserve_full_isl": config["scheduler_reserve_full_isl"],
            "allocator": PREFIX if config["enable_prefix_caching"] else PAGED,
            "max_loras": config["max_loras"],
            "depth": 2 if config["async_scheduling"] else 1,
            "count_steps": case.step_time is None,
        },
        cost=StepCost.linear(a, b, c).tables(
            config["max_num_batched_tokens"], config["max_num_seqs"]
        ),
        compose=(multi_lora if config["max_loras"] else chunked_prefill).compose,
        order=_order(case),
        events=True,
    )
    rows = np.flatnonzero(~fleet.is_rejected())
    fleet.deliver(rows, np.zeros(len(rows), np.int64))
    fleet.advance(np.inf)
    steps = _steps(case, fleet)
    recording = fleet.recording(0.0)
    outcome = recording.outcome
    if case.step_time and config["async_scheduling"]:
        for step, start_s in zip(steps, recording.steps.start_s, strict=True):
            step["t_run"] = float(start_s)  # when the GPU starts it; "t" is when it is composed
    requests = _outcomes(case, steps, outcome)
    finished = int((outcome.status == FINISHED).sum())
    served = len(case.requests) - int((outcome.status == REJECTED).sum())
    end = {
        "type": "end",
        "end": "done" if finished == served else "stuck",
        "steps": len(steps),
        "tokens": sum(sum(step["s"].values()) for step in steps),
        "end_t": float(fleet.engine.replicas["clock_s"][0]) if case.step_time else None,
        "finished": finished,
        "preemptions": int(outcome.preemptions.sum()),
    }
    return steps, requests, end


def _order(case: RecordedCase) -> Order:
    """The queue's order, with what vLLM does where two requests are alike in all: see victims."""
    if case.config["policy"] == "priority":
        return Order(BY_PRIORITY, case.requests.priority.astype(np.float64))
    return ARRIVAL_ORDER


def _steps(case: RecordedCase, fleet: Fleet) -> list[dict[str, Any]]:
    """Step records from the event log, with the fields of the recording."""
    name = case.requests.id_of
    timed = case.step_time is not None
    steps: list[Record] = []
    flying: list[Record] = []
    running: set[int] = set()
    waiting: set[int] = set()
    step = _new_step()
    for event in fleet.log_book.events(fleet.engine):
        kind, request, value = int(event["kind"]), int(event["request"]), int(event["value"])
        if kind == log.ARRIVE:
            step["add"].append(name(request))
            waiting.add(request)
        elif kind == log.PREEMPT:
            step["pre"].append(name(request))
            step["pre_for"].append(name(value))
            running.remove(request)
            waiting.add(request)
        elif kind in (log.ADMIT, log.RESUME):
            step["new" if kind == log.ADMIT else "res"].append(name(request))
            if value:
                step["hit"][name(request)] = value
            waiting.remove(request)
            running.add(request)
        elif kind == log.SCHEDULE:
            step["s"][name(request)] = value
        elif kind == log.LAUNCH:
            time_s = float(event["time_s"])
            step.update(free=value, t=time_s, k=len(steps) if timed else int(time_s))
            steps.append(step)
            flying.append(step)
            step = _new_step()
        elif kind == log.FIRST_TOKEN:
            flying[0]["first"].append(name(request))
        elif kind == log.FINISH:
            flying[0]["fin"].append(name(request))
            running.discard(request)
            waiting.discard(request)
        elif kind == log.COMMIT:
            flying.pop(0).update(
                free_end=value, run=len(running), wait=len(waiting), end_t=float(event["time_s"])
            )
    return steps


def _new_step() -> dict[str, Any]:
    return {
        "s": {},
        "first": [],
        "new": [],
        "res": [],
        "pre": [],
        "pre_for": [],
        "hit": {},
        "add": [],
        "fin": [],
    }


def _outcomes(case: RecordedCase, steps: list[dict[str, Any]], outcome: Any) -> dict[str, Any]:
    """Request records, with the fields of the recording."""
    timed = case.step_time is not None
    records: dict[str, dict[str, Any]] = {}
    for row in range(len(case.requests)):
        arrival = float(case.requests.arrival_s[row])
        records[case.requests.id_of(row)] = {
            "arrival": arrival if timed else int(arrival),
            "status": ("unfinished", "finished", "rejected")[outcome.status[row]],
            "admit_step": None,
            "first_token_step": None,
            "first_token_t": None,
            "finish_step": None,
            "finish_t": None,
            "preemptions": int(outcome.preemptions[row]),
            "cached": [],
            "output_tokens": int(outcome.generated_tokens[row]),
            "finish_reason": _finish_reason(case, row, outcome),
        }
    for step in steps:
        end_t = step["end_t"] if timed else 0.0
        for admitted in step["s"]:
            record = records[admitted]
            if admitted in step["new"] or admitted in step["res"]:
                record["cached"].append(step["hit"].get(admitted, 0))
                if record["admit_step"] is None:
                    record["admit_step"] = step["k"]
        for first in step["first"]:
            records[first].update(first_token_step=step["k"], first_token_t=end_t)
        for finished in step["fin"]:
            records[finished].update(finish_step=step["k"], finish_t=end_t)
    return records


def _finish_reason(case: RecordedCase, row: int, outcome: Any) -> str | None:
    """vLLM's word for why a request ended."""
    if outcome.status[row] != FINISHED:
        return None
    complete = outcome.generated_tokens[row] == case.requests.output_tokens[row]
    return "stop" if complete and case.requests.id_of(row) in case.ends_by_eos else "length"
