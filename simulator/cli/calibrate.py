"""`servecast calibrate`: measured kernels in, coefficients and their error out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from cost_models.catalog import Gpu


PICTURES = (".png", ".svg", ".pdf")


def calibrate(
    out: Annotated[Path, typer.Option(help="The JSON file to write.")],
    profile: Annotated[
        str | None,
        typer.Argument(
            metavar="PROFILE",
            help="aiconfigurator-core for the installed package, a folder of such tables, a "
            "folder of Vidur's mlp.csv, attention.csv and all_reduce.csv, or a CSV of your own "
            "(columns op, us and sizes).",
        ),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(help="A GPU of the catalogue that was measured.")
    ] = None,
    from_benchmark: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Fit the engine's own time instead, to JSON of vllm bench serve --save-result or "
            "a CSV of measured runs; give it once per file.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw measured over fitted: .png, .svg or .pdf."),
    ] = None,
    tp: Annotated[int | None, typer.Option(min=1, help="Of JSON results that do not say.")] = None,
    engine: Annotated[str, typer.Option(help="The engine whose kernels were measured.")] = "vllm",
    dtype: Annotated[
        str,
        typer.Option(
            help="bf16, fp8, fp8_block or nvfp4; experts for mixture-of-experts layers, mla for "
            "latent attention, nccl for messages between GPUs."
        ),
    ] = "bf16",
    engine_version: Annotated[
        str | None, typer.Option(help="Version of the tables; default the newest of each.")
    ] = None,
) -> None:
    """Fit coefficients to measured kernels and report how well they fit."""
    from cost_models import catalog
    from cost_models.calibration import dump
    from simulator.cli.host_time import fit_host_time
    from simulator.errors import InputError

    if (profile is None) == (not from_benchmark):
        raise InputError(
            "give either a PROFILE of kernels or results of a benchmark with --from-benchmark."
        )
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: the folder {out.parent} does not exist.")
    try:
        from cost_models import calibrate as fitting
        from cost_models.importers import aiconfigurator, own_csv, vidur
    except ImportError as error:
        raise InputError(
            f"calibrating needs {error.name}; install it with `pip install 'servecast[calibrate]'`."
        ) from None
    if profile is None:
        fit_host_time(from_benchmark or [], gpu, tp, engine_version, out)
        return
    if gpu is None:
        raise InputError("--gpu: say which GPU of the catalogue the profile measures.")
    device = catalog.gpu(gpu)
    if plot is not None and (dtype in ("experts", "mla", "nccl") or plot.suffix not in PICTURES):
        raise InputError(
            f"--plot {plot}: give a .png, .svg or .pdf file, and a profile of dense kernels."
        )
    if dtype == "experts":
        _experts(profile, device, engine, engine_version, out)
        return
    if dtype == "mla":
        _latent(profile, device, engine, engine_version, out)
        return
    if dtype == "nccl":
        from cost_models.importers import aiconfigurator_nccl

        tables = aiconfigurator_nccl.read(profile, device, engine_version)
        out.write_text(dump(tables), encoding="utf-8")
        _print({}, {"nccl": tables.version}, out)
        return
    if profile != aiconfigurator.SOURCE and not Path(profile).exists():
        raise InputError(
            f"{profile}: no such file or folder; give {aiconfigurator.SOURCE} for the installed "
            "package, a folder of tables, or a CSV of your own."
        )
    if profile.endswith(".csv"):
        measured = own_csv.read(Path(profile), device, engine, dtype, engine_version)
    elif vidur.is_one(profile):
        measured = vidur.read(Path(profile), device, engine, dtype, engine_version)
    else:
        measured = aiconfigurator.read(profile, device, engine, dtype, engine_version)
    fitted = fitting.calibrate(measured, device)
    out.write_text(dump(fitted), encoding="utf-8")
    if plot is not None:
        from simulator.report.plots.calibration import plot_calibration

        plot_calibration(measured, fitted).savefig(plot, dpi=150)
    _print(fitted.report, fitted.versions, out)


def _experts(profile: str, gpu: Gpu, engine: str, engine_version: str | None, out: Path) -> None:
    """Mixture-of-experts layers of every weight type that the profile has."""
    from cost_models.calibrate_experts import calibrate_experts
    from cost_models.calibration import dump
    from cost_models.importers import aiconfigurator, aiconfigurator_moe

    tables, version = aiconfigurator_moe.read(profile, gpu, engine, engine_version)
    source = aiconfigurator.source_name(profile)
    fitted = calibrate_experts(
        tables, gpu, engine, version, source, "Apache-2.0, NVIDIA Corporation"
    )
    out.write_text(dump(fitted), encoding="utf-8")
    report = {f"experts, {dtype}": found.report for dtype, found in fitted.dtypes.items()}
    _print(report, {"experts": version}, out)


def _latent(profile: str, gpu: Gpu, engine: str, engine_version: str | None, out: Path) -> None:
    """Latent attention over KV caches of every type that the profile has."""
    from cost_models.calibrate_latent import calibrate_latent
    from cost_models.calibration import dump
    from cost_models.importers import aiconfigurator, aiconfigurator_mla

    modules, version, rejected = aiconfigurator_mla.read(profile, gpu, engine, engine_version)
    source = aiconfigurator.source_name(profile)
    fitted = calibrate_latent(
        modules, gpu, engine, version, source, "Apache-2.0, NVIDIA Corporation", rejected
    )
    out.write_text(dump(fitted), encoding="utf-8")
    report = {
        f"{name}, {dtype} cache": facts
        for dtype, found in fitted.dtypes.items()
        for name, facts in found.report.items()
    }
    _print({**report, "rejected_rows": rejected}, {"mla": version}, out)


def _print(report: dict[str, Any], versions: dict[str, str], out: Path) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Fit of {out.name}", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("operation")
    table.add_column("error of")
    for name in ("rows", "mean", "95 %", "bias"):
        table.add_column(name, justify="right")
    notes = []
    for operation, facts in report.items():
        for name, value in facts.items():
            if isinstance(value, dict) and "mape_pct" in value:
                table.add_row(
                    operation,
                    name,
                    f"{value['rows']:,}",
                    f"{value['mape_pct']:.1f} %",
                    f"{value['p95_pct']:.1f} %",
                    f"{value['bias_pct']:+.1f} %",
                )
            elif value:
                notes.append(f"{operation}, {name}: {value}")
    console = Console()
    console.print(table, highlight=False)
    for note in notes:
        console.print(note, highlight=False)
    if len(set(versions.values())) > 1:
        told = ", ".join(f"{name} {version}" for name, version in versions.items())
        console.print(f"the tables are of different versions: {told}", highlight=False)
    console.print(f"written: {out}", highlight=False)
