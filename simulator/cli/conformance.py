"""``servecast conformance``: is our schedule the engine's own?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def conformance(
    folder: Annotated[Path, typer.Argument(help="Folder of recorded schedules.")],
) -> None:
    """Replay schedules recorded from a real engine and compare them step by step."""
    from simulator.conformance.compare import first_difference
    from simulator.conformance.workload import find_cases, load_case

    paths = find_cases(folder)
    differences = 0
    for path in paths:
        case = load_case(path)
        difference = first_difference(case)
        if difference:
            differences += 1
            typer.echo(f"{case.name}: {difference}")
    typer.echo(f"{len(paths) - differences} of {len(paths)} identical")
    if differences:
        raise typer.Exit(1)
