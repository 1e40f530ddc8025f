"""`servecast sweep`: a scenario at many points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simulator.words import counted

if TYPE_CHECKING:
    from simulator.planning.sweep import Plan, Sampling, Store, Sweep
    from simulator.scenario import Scenario


def sweep(
    scenario: Annotated[str, typer.Argument(help="A scenario file, or a built-in name.")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "--grid",
            metavar="KEY=V,V,…",
            help="Several values: the grid. One: for all points. LO..HI or LO..HI:log: a range "
            "to sample. May be repeated.",
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", min=1, help="Draw N points instead of the grid."),
    ] = None,
    sampling: Annotated[
        str, typer.Option("--sampling", metavar="latin|random", help="How --sample draws.")
    ] = "latin",
    replicates: Annotated[
        int, typer.Option("--replicates", min=1, help="Random samples of each point.")
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Keep each run there, and the table."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the sweep in --out.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the points and end.")] = False,
    executor: Annotated[
        str, typer.Option("--executor", metavar="local|ray", help="Where runs are simulated.")
    ] = "local",
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Processes; by default one per core.")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="Of a Ray cluster; by default one started here.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed in place of the file's.")] = None,
) -> None:
    """Simulate a grid or samples of any keys; a table with the efficient points marked."""
    from simulator.cli.progress import ProgressBar, announce_compilation
    from simulator.planning.executors import by_name
    from simulator.planning.sweep import Store, grid, parse_axes, plan, run_plan, sample
    from simulator.scenario import Scenario
    from simulator.scenario.overrides import with_seed

    common, axes = parse_axes(settings or [])
    base = Scenario.from_yaml(scenario, [*common, *with_seed(None, seed)])
    points = (
        grid(axes)
        if samples is None
        else sample(axes, samples, check_sampling(sampling), base.seed)
    )
    planned = plan(base, points, replicates)
    store = None if out is None else Store(out)
    _check_resume(store, resume)
    if dry_run:
        _print_plan(planned, store if resume else None)
        return
    chosen = by_name(executor, jobs, address)
    announce_compilation()
    with ProgressBar(base.name, unit="runs") as progress:
        finished = run_plan(planned, chosen, store, resume=resume, progress=progress)
    _print(finished, out)
    if out is not None:
        _plot(finished, base, out)


def _plot(finished: Sweep, base: Scenario, out: Path) -> None:
    """The plots that the sweep has something to show in."""
    from simulator.report.plots import plot_pareto, plot_slo_region, save_plots
    from simulator.report.plots.sweep import objectives_ms, swept_keys

    table = finished.table
    figures = {"pareto": plot_pareto(table)}
    objectives, keys = objectives_ms(base), swept_keys(table)
    if objectives and keys and not any(key.startswith("slo") for key in keys):
        figures["slo_region"] = plot_slo_region(table, objectives)
    save_plots(figures, out)


def check_sampling(name: str) -> Sampling:
    """The way to draw points that `name` stands for."""
    from simulator.errors import InputError

    if name == "latin":
        return "latin"
    if name == "random":
        return "random"
    raise InputError(f"--sampling {name}: choose latin or random")


def _check_resume(store: Store | None, resume: bool) -> None:
    from simulator.errors import InputError

    if resume and store is None:
        raise InputError("--resume needs --out DIR, the folder of the sweep to go on with")


def _print_plan(plan: Plan, store: Store | None) -> None:
    done = {run.key for run in plan.runs if store is not None and store.read(run.key)}
    for point in plan.points:
        keys = {run.key for run in plan.runs if run.point == point.number}
        refused = plan.refused.get(point.number)
        note = f"  refused: {refused}" if refused else "  done" if keys and keys <= done else ""
        typer.echo(f"#{point.number} {point}{note}")
    typer.echo(
        f"{counted(len(plan.points), 'point')}, {counted(plan.replicates, 'replicate')}: "
        f"{counted(len(plan.runs), 'run')}, "
        f"{len(done)} of them done"
    )


def _print(finished: Sweep, out: Path | None) -> None:
    from simulator.cli.table import print_table
    from simulator.report.sweep import sweep_notes, sweep_table

    succeeded = bool((finished.table["status"] == "ok").any())
    if succeeded:
        print_table(sweep_table(finished))
    typer.echo(sweep_notes(finished, None if out is None else str(out)))
    if out is not None:
        typer.echo(f"written to {out}", err=True)
    if not succeeded:
        typer.echo("error: no run succeeded.", err=True)
        raise typer.Exit(1)
