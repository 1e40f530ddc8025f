"""`servecast profile`: time a model's kernels on the GPU at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def profile(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model of the catalogue, or a config.json.")
    ],
    out: Annotated[Path, typer.Option(help="The CSV file to write, or to go on with.")],
    tp: Annotated[int, typer.Option(help="Tensor-parallel size whose shapes are measured.")] = 1,
    weights: Annotated[str, typer.Option(help="Data type of the weights: bf16 or fp8.")] = "bf16",
    device: Annotated[str, typer.Option(help="cuda, or cpu for a trial.")] = "cuda",
    density: Annotated[
        str, typer.Option(help="quick (a trial), minimal (about 200 cases) or dense.")
    ] = "minimal",
) -> None:
    """Time a model's kernels on this machine's GPU into a CSV for `calibrate`.

    Needs the extra servecast[profile].  An interrupted profile goes on where it stopped when
    the command is given again.
    """
    import dataclasses

    from cost_models import catalog
    from cost_models.profiler.cases import SIZES
    from cost_models.profiler.measure import profile as measure
    from cost_models.profiler.products import DTYPES
    from simulator.cli.progress import ProgressBar
    from simulator.errors import InputError

    for option, value, allowed in (
        ("--density", density, SIZES),
        ("--device", device, ("cuda", "cpu")),
        ("--weights", weights, DTYPES),
    ):
        if value not in allowed:
            raise InputError(f"{option} {value}: choose from {', '.join(allowed)}.")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: the folder {out.parent} does not exist.")
    shapes = dataclasses.replace(catalog.model(model), weight_dtype=weights)
    with ProgressBar("Measuring", "cases") as bar:
        rows, left_out = measure(
            shapes,
            tp,
            out,
            device=device,
            density=density,
            told=bar,
        )
    print(f"{rows} cases: {out}")
    for of, why in left_out.items():
        sizes = ", ".join(f"{name} {value}" for name, value in of.sizes)
        print(f"left out: {of.op}, {sizes}: {why}")
