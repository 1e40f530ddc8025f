"""`servecast calibrate --from-benchmark`: the engine's own time from measured runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.validation.host_fit import HostFit


def fit_host_time(
    benchmarks: list[Path],
    gpu: str | None,
    tp: int | None,
    engine_version: str | None,
    out: Path,
) -> None:
    """Fit, write the file and print how far off the runs are before and after."""
    from simulator.cli.progress import ProgressBar, announce_compilation
    from simulator.errors import InputError
    from simulator.validation.host_fit import fit_host
    from simulator.validation.measured import CannotSimulateError
    from simulator.validation.read import read

    given = {"gpu": gpu, "tp": tp, "engine_version": engine_version}
    rows = []
    for path in benchmarks:
        for row in read(path, given):
            if isinstance(row, CannotSimulateError):
                raise InputError(f"{path}: cannot be simulated: {row}")
            rows.append(row)
    announce_compilation()
    with ProgressBar("fitting", "simulations") as bar:
        found = fit_host(rows, bar)
    out.write_text(found.dump(), encoding="utf-8")
    _print(found, out)


def _print(found: HostFit, out: Path) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(title="error, %", title_justify="left", box=SIMPLE_HEAD)
    for name in ("run", "result"):
        table.add_column(name)
    for name in ("before", "fitted", "left out"):
        table.add_column(name, justify="right")
    for told in found.runs:
        left_out = told["left_out_pct"]
        table.add_row(
            told["run"],
            told["result"],
            f"{told['before_pct']:+.1f}",
            f"{told['after_pct']:+.1f}",
            "decides alone" if left_out is None else f"{left_out:+.1f}",
        )
    console = Console()
    console.print(table, highlight=False)
    values = ", ".join(f"{name} {getattr(found.host, name):.3g}" for name in found.fitted)
    console.print(f"fitted: {values}; the others are the release's", highlight=False)
    console.print(f"written: {out}; use it as cost_model.host", highlight=False, soft_wrap=True)
