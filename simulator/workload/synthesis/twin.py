"""A scenario that is statistically like a recorded trace, without any of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from simulator.errors import InputError
from simulator.scenario import Scenario
from simulator.workload.build import build_requests
from simulator.workload.quantiles import QuantileTable
from simulator.workload.requests import Ints, Requests
from simulator.workload.session_tables import SessionTable
from simulator.workload.synthesis.arrival_fit import fit_arrivals
from simulator.workload.synthesis.fidelity import Likeness, likeness, prefix_reuse

FEWEST = 50  # requests, of each class, from which a table of quantiles says anything
WHOLE = 1 << 40  # no model is so long: nothing of the trace is cut or rejected


class Twin(NamedTuple):
    """What was written, why, and how like the trace it is."""

    scenario: Scenario
    files: list[Path]
    notes: list[str]
    likeness: list[Likeness]


def synthesize(trace: dict[str, Any], out: Path, model: str) -> Twin:
    """Write the twin of a trace: a scenario, and a table of quantiles for its lengths.

    Parameters
    ----------
    trace : the trace section of a scenario, its path as seen from here.
    out : the YAML file to write; tables of lengths are written beside it.
    model : catalogue name for the scenario.

    Raises
    ------
    InputError
        The trace cannot be read or is too short, or a file cannot be written.
    """
    original = Scenario.from_mapping({"workload": {"trace": trace}, "model": model})
    recorded = _requests(original)
    if len(recorded) < FEWEST:
        raise InputError(
            f"{trace['path']}: {len(recorded)} requests are too few for a statistical twin; "
            f"{FEWEST} are needed"
        )
    start_s = recorded.arrival_s[recorded.starts]
    notes = []
    bin_s = _bin_s(start_s)
    if bin_s:
        notes.append(
            f"arrivals are recorded in bins of {bin_s:g} s and were spread over them before the fit"
        )
        recorded = _requests(original.with_overrides([f"workload.trace.jitter_s={bin_s}"]))
        start_s = recorded.arrival_s[recorded.starts]
    arrivals, why = fit_arrivals(start_s - start_s[0])
    workload: dict[str, Any] = {"arrivals": arrivals, "num_requests": len(recorded)}
    tables: list[tuple[Path, QuantileTable | SessionTable]] = [
        *_sessions(recorded, out, workload),
        *_lengths(recorded, out, workload),
    ]
    if len(recorded.links):
        notes.append("sub-agents are drawn as further turns of their sessions")
    if len(recorded.segments) and not recorded.has_sessions:
        workload["shared_prefix_tokens"] = _shared_tokens(recorded)
        notes.append(
            "prefixes: one shared text stands for all that prompts share, of a length that gives "
            "the recorded reuse in all"
        )
    for path, table in tables:
        _write(path, table.to_json())
    mapping = {"name": out.stem, "workload": workload, "model": model}
    scenario = Scenario.from_mapping(mapping, out.parent)
    measures = likeness(recorded, _requests(scenario))
    head = [f"# statistical twin of {len(recorded):,} recorded requests; measure: trace, twin"]
    head += [f"# {_text(row)}" for row in measures]
    body = yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True, width=100)
    _write(out, "\n".join(head) + "\n" + body)
    return Twin(scenario, [out, *(path for path, _ in tables)], [*notes, why], measures)


def _requests(scenario: Scenario) -> Requests:
    return build_requests(
        scenario.workload, base_dir=scenario.base_dir, max_model_len=WHOLE, seed=scenario.seed
    )


def _bin_s(start_s: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Width of the bins that arrivals were recorded in; 0 where times are fine."""
    moments = np.unique(start_s)
    if len(moments) < 2 or len(moments) > 0.9 * len(start_s):
        return 0.0
    return float(np.diff(moments).min())


def _new_tokens(requests: Requests) -> Ints:
    """Prompt tokens that were not said before in the session, 1 at least."""
    previous = requests.previous_request()
    said = requests.prompt_tokens[previous] + requests.output_tokens[previous]
    said = np.where(previous >= 0, said, 0)
    return np.maximum(requests.prompt_tokens - said, 1)


def _sessions(
    requests: Requests, out: Path, workload: dict[str, Any]
) -> Iterator[tuple[Path, SessionTable]]:
    """Table of turns, think times and first prompts, entered in `workload`."""
    if not requests.has_sessions:
        return
    starts = requests.starts
    path = out.with_suffix(".sessions.json")
    longest = int((requests.prompt_tokens + requests.output_tokens).max())
    workload["sessions"] = {"file": path.name, "max_context_tokens": longest}
    yield (
        path,
        SessionTable.of(
            "quantiles of recorded sessions",
            np.diff(starts, append=len(requests)),
            requests.think_s[requests.next_request >= 0],
            requests.prompt_tokens[starts],
        ),
    )


def _lengths(
    requests: Requests, out: Path, workload: dict[str, Any]
) -> Iterator[tuple[Path, QuantileTable]]:
    """Tables of quantiles, entered in `workload` as lengths of all requests or of classes."""
    prompt, output = _new_tokens(requests), requests.output_tokens
    later = requests.previous_request() >= 0  # first prompts have a table of their own
    counted = later if later.any() else np.ones(len(requests), np.bool_)
    about = "quantiles of a recorded trace"
    if len(requests.class_names) == 1:
        path = out.with_suffix(".lengths.json")
        workload["lengths"] = {"distribution": "quantiles", "file": path.name}
        yield path, QuantileTable.of(about, prompt[counted], output[counted])
        return
    workload["classes"] = []
    counts = np.bincount(requests.class_id, minlength=len(requests.class_names))
    shares = [float(f"{n / len(requests):.8g}") for n in counts.tolist()]
    shares[-1] = 1.0 - sum(shares[:-1])
    for k, name in enumerate(requests.class_names):
        if counts[k] < FEWEST:
            raise InputError(
                f"class {name!r} has {counts[k]} requests, too few for a statistical twin; "
                f"{FEWEST} are needed in each class"
            )
        path = out.with_suffix(f".lengths-{k}.json")
        lengths = {"distribution": "quantiles", "file": path.name}
        workload["classes"].append({"name": name, "share": shares[k], "lengths": lengths})
        members = (requests.class_id == k) & counted
        yield path, QuantileTable.of(f"{about}, {name}", prompt[members], output[members])


def _shared_tokens(requests: Requests) -> int:
    """Length of a system prompt that is as large a share of the prompts as their reuse."""
    wanted = prefix_reuse(requests) * int(requests.prompt_tokens.sum())
    small, large = 0, int(requests.prompt_tokens.max())
    while small < large:
        middle = (small + large) // 2
        enough = int(np.minimum(requests.prompt_tokens, middle).sum()) >= wanted
        small, large = (small, middle) if enough else (middle + 1, large)
    return small


def _text(row: Likeness) -> str:
    values = [("-" if v is None else f"{v:.4g}") for v in (row.trace, row.twin)]
    distance = "" if row.distance is None else f" (KS distance {row.distance:.3f})"
    return f"{row.measure}: {values[0]}, {values[1]}{distance}"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}; name another file") from None
