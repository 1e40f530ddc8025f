"""A run in the words of the benchmark that it will be laid beside.

Each tool names and defines its latencies in its own way: guidellm's and AIPerf's ITL is
what vLLM calls TPOT, and guidellm's TPOT has the first token in it.  Each module holds one
tool's definitions and prints them as that tool does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from simulator.errors import InputError

if TYPE_CHECKING:
    from simulator.simulation import Result

FORMATS = ("report", "vllm", "guidellm", "aiperf", "json")


def require_format(name: str) -> None:
    """Refuse a format that nobody prints.

    Raises
    ------
    InputError : naming those that are printed.
    """
    if name not in FORMATS:
        raise InputError(f"--format: {name!r} is not printed; choose from {', '.join(FORMATS)}.")


def formatted(result: Result, name: str, percentiles: Sequence[int] = (99,)) -> str:
    """The run as text in one of `FORMATS`.

    Parameters
    ----------
    result : a finished run.
    name : `report` is the whole report, `vllm` its first block alone.
    percentiles : those to print where the format leaves the choice, of 50, 90, 95 and 99.
    """
    return _PRINTERS[name](result, percentiles)


def _report(result: Result, percentiles: Sequence[int]) -> str:
    from simulator.report.text import text_report

    return text_report(result.summary, result.resolved, percentiles, result.preemption_reasons)


def _vllm(result: Result, percentiles: Sequence[int]) -> str:
    from simulator.report.benchmark import benchmark_block

    return "\n".join(benchmark_block(result.summary, percentiles))


def _guidellm(result: Result, percentiles: Sequence[int]) -> str:
    from simulator.report.formats.guidellm import guidellm_block

    return guidellm_block(result.recording, result.resolved.scenario)


def _aiperf(result: Result, percentiles: Sequence[int]) -> str:
    from simulator.report.formats.aiperf import aiperf_block

    return aiperf_block(result.recording, result.resolved.scenario)


def _json(result: Result, percentiles: Sequence[int]) -> str:
    from simulator.report.files import to_json

    return to_json(result.summary).rstrip("\n")


_PRINTERS: dict[str, Callable[[Result, Sequence[int]], str]] = {
    "report": _report,
    "vllm": _vllm,
    "guidellm": _guidellm,
    "aiperf": _aiperf,
    "json": _json,
}
