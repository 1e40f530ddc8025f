"""`servecast run`: simulate a scenario and report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simulator.report.plots.series import Window
    from simulator.scenario import Scenario
    from simulator.simulation import Result

NOTHING_COMPLETED = 1
SLO_MISSED = 3
INTERRUPTED = 130


def run(
    scenario: Annotated[str, typer.Argument(help="A scenario file, or a built-in name.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write summary, tables and report.html there."),
    ] = None,
    style: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="What to print: report, or the metrics of a benchmark by its own definitions: "
            "vllm, guidellm, aiperf; or json.",
        ),
    ] = "report",
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    steps: Annotated[
        bool, typer.Option("--steps/--no-steps", help="Write steps.parquet, a row per step.")
    ] = True,
    plots: Annotated[
        Path | None,
        typer.Option("--plots", metavar="DIR", help="Write each plot as PNG and SVG there."),
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option("--perfetto", metavar="FILE", help="Write a Chrome trace for Perfetto."),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="FROM..TOs",
            help="What --perfetto and the timeline show, such as 10..20s; by default where most "
            "time is lost.",
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit 3 if an SLO is missed.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed in place of the file's.")] = None,
    percentiles: Annotated[
        str, typer.Option("--percentiles", metavar="P,P", help="To print: of 50, 90, 95, 99.")
    ] = "99",
) -> None:
    """Simulate a scenario and print what `vllm bench serve` would, and why."""
    from simulator.cli.interrupt import Interrupt
    from simulator.cli.progress import ProgressBar, announce_compilation
    from simulator.metrics.slo import refuse_unmeasurable
    from simulator.report.benchmark import parse_percentiles
    from simulator.report.formats import formatted, require_format
    from simulator.report.output import prepare_folder, write_outputs
    from simulator.scenario import Scenario
    from simulator.scenario.overrides import with_seed
    from simulator.simulation import simulate

    style = "json" if as_json else style
    require_format(style)
    wanted = parse_percentiles(percentiles)
    described = Scenario.from_yaml(scenario, with_seed(settings, seed))
    refuse_unmeasurable(described)
    if check:
        _require_objectives(described)
    if out is not None:
        prepare_folder(out)
        _refuse_to_replace(scenario, out)
    if plots is not None:
        prepare_folder(plots, "--plots")
    shown = _window(window, perfetto, plots)
    announce_compilation()

    started = time.perf_counter()
    with ProgressBar(described.name) as progress, Interrupt() as pressed:
        result = simulate(described, progress=progress, stop=pressed)
    wall_s = time.perf_counter() - started

    typer.echo(formatted(result, style, wanted))
    if out is not None:
        write_outputs(result, out, steps=steps, wall_s=wall_s)
        typer.echo(f"written to {out}", err=True)
    if plots is not None:
        _write_plots(result, plots, shown)
    if perfetto is not None:
        _write_trace(result, perfetto, shown)
    code = INTERRUPTED if result.interrupted else _exit_code(result, check)
    if code:
        raise typer.Exit(code)


def _window(window: str | None, perfetto: Path | None, plots: Path | None) -> Window | None:
    from simulator.errors import InputError
    from simulator.report.perfetto import parse_window

    if perfetto is not None and not perfetto.parent.is_dir():
        raise InputError(f"--perfetto {perfetto}: the folder {perfetto.parent} does not exist.")
    if window is None:
        return None
    if perfetto is None and plots is None:
        raise InputError("--window says what --perfetto or --plots shows; give one of them too.")
    return parse_window(window)


def _write_plots(result: Result, folder: Path, window: Window | None) -> None:
    from simulator.errors import InputError
    from simulator.report.plots import save_plots

    if not result.summary["num_steps"]:
        typer.echo("no step was run, so that there is nothing to plot", err=True)
        return
    figures = {
        "timeline": result.plot_timeline(window),
        "load": result.plot_load(),
        "itl": result.plot_itl(),
        "latency": result.plot_latency(),
    }
    if result.summary["completed"]:
        figures["attribution"] = result.plot_attribution()
    if result.recording.reservations is not None:
        figures["memory"] = result.plot_memory_map(window)
    try:
        written = save_plots(figures, folder)
    except OSError as error:
        raise InputError(f"--plots {folder}: cannot be written: {error.strerror}.") from None
    typer.echo(f"{len(written)} pictures written to {folder}", err=True)


def _write_trace(result: Result, path: Path, window: Window | None) -> None:
    from simulator.errors import InputError
    from simulator.report.plots.timeline import default_window

    shown = window or default_window([result.recording])
    try:
        result.write_perfetto(path, shown)
    except OSError as error:
        raise InputError(f"--perfetto {path}: cannot be written: {error.strerror}.") from None
    typer.echo(
        f"trace of {shown[0]:g}..{shown[1]:g}s written to {path}; open it at "
        "https://ui.perfetto.dev or chrome://tracing",
        err=True,
    )


def _refuse_to_replace(scenario: str, out: Path) -> None:
    """The resolved scenario must not take the place of the file that the user wrote."""
    from simulator.errors import InputError

    written = out / "scenario.yaml"
    if written.exists() and Path(scenario).exists() and written.samefile(scenario):
        raise InputError(
            f"--out {out}: the resolved scenario would replace {scenario} itself; choose another "
            "folder"
        )


def _require_objectives(scenario: Scenario) -> None:
    from simulator.errors import InputError

    if not any(slo.targets for slo in (scenario.slo, *(c.slo for c in scenario.workload.classes))):
        raise InputError(
            "--check needs a limit to check: give one in slo, such as --set slo.p99_ttft_ms=500."
        )


def _exit_code(result: Result, check: bool) -> int:
    from simulator.metrics import missed

    summary = result.summary
    if summary["completed"] == 0:
        reasons = ", ".join(
            f"{count} {reason.replace('_', ' ')}"
            for reason, count in summary["rejected_by_reason"].items()
        )
        if not (summary["rejected"] or summary["unfinished"]):
            why = (
                f"all arrive before warmup_s {result.resolved.scenario.cut_s:g}"
                if summary["warmup_requests"]
                else f"none arrived until the clock stopped at {summary['simulated_s']:g} s"
            )
            typer.echo(f"error: no request is left to report on: {why}.", err=True)
            return NOTHING_COMPLETED
        typer.echo(
            f"error: no request completed: {summary['rejected']} of {summary['num_prompts']} were "
            f"rejected{f' ({reasons})' if reasons else ''} and {summary['unfinished']} were not "
            f"finished when the clock stopped at {summary['simulated_s']:.6g} s.",
            err=True,
        )
        return NOTHING_COMPLETED
    if check and missed(summary):
        names = ", ".join(
            (f"{v['class_name']}: " if v["class_name"] else "") + v["metric"]
            for v in missed(summary)
        )
        typer.echo(f"missed: {names}", err=True)
        return SLO_MISSED
    return 0
