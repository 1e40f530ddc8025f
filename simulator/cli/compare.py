"""`servecast compare`: the same arrivals through several variants."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simulator.planning.compare import Comparison


def compare(
    scenario: Annotated[str, typer.Argument(help="A scenario file, or a built-in name.")],
    variants: Annotated[
        list[str] | None,
        typer.Option(
            "--variant", metavar="'NAME: KEY=VALUE, …'", help="A variant; give at least two."
        ),
    ] = None,
    schedulers: Annotated[
        str | None,
        typer.Option("--schedulers", metavar="P,P,…", help="One variant per scheduling policy."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key in all variants."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="For compare.png, and then compare.json too."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print compare.json instead.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed in place of the file's.")] = None,
    replicates: Annotated[
        int,
        typer.Option("--replicates", min=1, help="Runs of each, to tell a difference from chance."),
    ] = 1,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Processes; by default one per core.")
    ] = None,
) -> None:
    """Send the same requests through variants; one table, one plot, and why they differ."""
    from simulator.cli.progress import ProgressBar, announce_compilation
    from simulator.planning.compare import compare as compare_variants
    from simulator.planning.executors import cores
    from simulator.planning.variants import collect_variants
    from simulator.report.output import prepare_folder
    from simulator.scenario import Scenario
    from simulator.scenario.overrides import with_seed

    chosen = collect_variants(variants or [], schedulers)
    common = Scenario.from_yaml(scenario, with_seed(settings, seed))
    folder = out if out is not None else Path()
    prepare_folder(folder)
    announce_compilation()
    bars: list[ProgressBar] = []

    def bar(name: str, unit: str) -> ProgressBar:
        for earlier in bars:
            earlier.close()
        bars.append(ProgressBar(name, unit))
        return bars[-1]

    try:
        comparison = compare_variants(
            common, chosen, replicates=replicates, jobs=jobs or cores(), progress=bar
        )
    finally:
        for one in bars:
            one.close()
    _write(comparison, folder, with_json=out is not None)
    _print(comparison, folder, as_json)
    empty = [name for name, s in comparison.summaries.items() if s["completed"] == 0]
    if empty:
        typer.echo(f"error: no request completed in {', '.join(empty)}.", err=True)
        raise typer.Exit(1)


def _write(comparison: Comparison, folder: Path, *, with_json: bool) -> None:
    from simulator.report.files import to_json, write_atomically, write_text

    figure = comparison.plot()
    write_atomically(
        folder / "compare.png",
        lambda path: figure.savefig(path, format="png", dpi=120, metadata={"Software": None}),
    )
    if with_json:
        write_text(folder / "compare.json", to_json(comparison.to_mapping()))


def _print(comparison: Comparison, folder: Path, as_json: bool) -> None:
    from simulator.cli.table import print_table
    from simulator.report.comparison import comparison_notes, comparison_table
    from simulator.report.files import to_json

    if as_json:
        typer.echo(to_json(comparison.to_mapping()), nl=False)
    else:
        first = next(iter(comparison.summaries.values()))
        same = "the same " if comparison.same_requests else ""
        several = comparison.replicates > 1
        times = f", in each of {comparison.replicates} replicates" if several else ""
        count = f"{same}{first['num_prompts']:.0f} requests"
        typer.echo(f"{first['name']}: {count} through each variant{times}")
        print_table(comparison_table(comparison))
        typer.echo(comparison_notes(comparison))
    typer.echo(f"plot: {folder / 'compare.png'}", err=True)
