"""A recorded workload: what was asked of the engine, and what it answered."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import InputError
from simulator.kv_cache.prefix import output_tag, own_tag
from simulator.workload.adapters import apart_by_adapter
from simulator.workload.content import Content
from simulator.workload.requests import Requests

CONFIG_DEFAULTS: dict[str, Any] = {
    "max_num_seqs": 16,
    "max_num_batched_tokens": 512,
    "block_size": 16,
    "num_gpu_blocks": 1024,
    "max_model_len": 2048,
    "max_loras": 0,
    "enable_chunked_prefill": True,
    "long_prefill_token_threshold": 0,
    "policy": "fcfs",
    "enable_prefix_caching": False,
    "async_scheduling": False,
    "watermark": 0.0,
    "scheduler_reserve_full_isl": True,
}
NO_LIMIT = 1 << 40  # max_tokens of a request that declares none
ANSWER_SUFFIX = ".oracle.jsonl.gz"


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """One workload and its recorded answer.

    Attributes
    ----------
    config : scheduler settings, defaults filled in.
    step_time : (a, b, c): a step of m tokens and s requests lasts a + b·m + c·s seconds;
        None: a workload that counts steps instead of seconds.
    ends_by_eos : ids of the requests whose last output token is an end-of-sequence token, which
        the scheduler does not foresee; the others end at max_tokens or max_model_len.
    requests : rows in order of arrival; in a workload that counts steps, arrival_s is the
        index of the step before which the request arrives.
    steps, outcomes, end : records of the answer; outcomes by request id.
    """

    name: str
    config: dict[str, Any]
    step_time: tuple[float, float, float] | None
    ends_by_eos: frozenset[str]
    requests: Requests
    steps: list[dict[str, Any]]
    outcomes: dict[str, dict[str, Any]]
    end: dict[str, Any]


def find_cases(folder: Path) -> list[Path]:
    """Workload files in `folder`, sorted; `InputError` if there is none."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder of the recorded schedules")
    paths = sorted(p for p in folder.iterdir() if p.name.endswith((".json", ".json.gz")))
    if not paths:
        raise InputError(
            f"{folder} holds no recorded schedule; expected X.json or X.json.gz beside "
            f"X{ANSWER_SUFFIX}"
        )
    return paths


def load_case(path: Path) -> RecordedCase:
    """Read a workload and the answer beside it."""
    answer = path.with_name(path.name.split(".json")[0] + ANSWER_SUFFIX)
    if not answer.exists():
        raise InputError(f"{path} has no recorded answer; expected {answer.name} beside it")
    try:
        workload = json.loads(_read(path))
        records = [json.loads(line) for line in _read(answer).splitlines()]
        config = {**CONFIG_DEFAULTS, **workload.get("config", {})}
        cost = workload.get("step_time")
        return RecordedCase(
            name=path.name.split(".json")[0],
            config=config,
            step_time=cost and tuple(float(cost.get(name, 0.0)) for name in "abc"),
            ends_by_eos=frozenset(
                str(row["id"]) for row in workload["requests"] if row.get("finish") == "eos"
            ),
            requests=_requests(workload["requests"], timed=cost is not None),
            steps=[record for record in records if record["type"] == "step"],
            outcomes={record["id"]: record for record in records if record["type"] == "req"},
            end=next(record for record in records if record["type"] == "end"),
        )
    except (ValueError, KeyError, TypeError, OSError, EOFError, StopIteration) as error:
        raise InputError(
            f"{path} or its answer is not a recorded schedule ({type(error).__name__}: {error}); "
            "record it again"
        ) from error


def _read(path: Path) -> str:
    data = path.read_bytes()
    if path.name.endswith(".gz"):
        data = gzip.decompress(data)
    return data.decode()


def _requests(rows: list[dict[str, Any]], *, timed: bool) -> Requests:
    arrival = "arrival" if timed else "arrival_step"
    rows = sorted(rows, key=lambda row: row.get(arrival, 0))  # stable: file order on ties
    output = np.array([row["output_len"] for row in rows], np.int64)
    pieces = [_pieces(row) for row in rows]
    tags = _Tags([str(row["id"]) for row in rows])
    content = Content(
        np.array(
            [(tags[tag], length) for piece in pieces for tag, length in piece], np.int64
        ).reshape(-1, 2),
        np.cumsum([0, *(len(piece) for piece in pieces)]),
        note="",
    )
    adapter = np.array([row.get("adapter", 0) for row in rows], np.int64)
    if adapter.any():
        content = apart_by_adapter(content, adapter)
    return Requests(
        arrival_s=np.array([row.get(arrival, 0) for row in rows], np.float64),
        prompt_tokens=np.array([sum(n for _, n in piece) for piece in pieces], np.int64),
        output_tokens=output,
        max_tokens=np.array([_max_tokens(row) for row in rows], np.int64),
        predicted_tokens=np.full(len(rows), np.nan),
        priority=np.array([row.get("priority", 0) for row in rows], np.int64),
        class_id=np.zeros(len(rows), np.int64),
        ids=tuple(str(row["id"]) for row in rows),
        adapter=adapter,
        segments=content.segments,
        segment_offsets=content.offsets,
    )


def _max_tokens(row: dict[str, Any]) -> int:
    """What the client declared: its output length, unless an EOS ends it before."""
    if row.get("finish") == "eos":
        return int(row.get("max_tokens", NO_LIMIT))
    return int(row["output_len"])


def _pieces(row: dict[str, Any]) -> list[tuple[str, int]]:
    """Tag and length of the pieces of a prompt."""
    if "prompt_token_ids" in row:
        return [(f"token:{token}", 1) for token in row["prompt_token_ids"]]
    pieces = [(str(tag), int(length)) for tag, length in row.get("segments", [])]
    if not pieces and row.get("prefix_len"):
        pieces = [(f"prefix:{row['prefix_id']}", int(row["prefix_len"]))]
    shared = sum(length for _, length in pieces)
    own = int(row.get("prompt_len", shared)) - shared
    if own < 0:
        raise ValueError(f"prompt_len of {row['id']} is less than its shared part")
    return [*pieces, (f"own:{row['id']}", own)] if own else pieces


class _Tags(dict[str, int]):
    """Numbers for tags, as `Requests.segments` has them."""

    def __init__(self, ids: list[str]):
        super().__init__()
        for row, name in enumerate(ids):
            self[f"own:{name}"] = own_tag(row)
            self[f"out:{name}"] = output_tag(row)
        self._shared = 0

    def __missing__(self, tag: str) -> int:
        self[tag] = self._shared
        self._shared += 1
        return self[tag]
