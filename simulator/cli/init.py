"""`servecast init`: a commented scenario to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    file: Annotated[Path, typer.Argument(help="File to write.")] = Path("scenario.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a commented scenario that runs as it is."""
    from importlib.resources import files

    from simulator.errors import InputError

    if file.exists() and not force:
        raise InputError(f"{file} exists; name another file, or overwrite it with --force")
    template = files("simulator.cli").joinpath("template.yaml").read_text(encoding="utf-8")
    try:
        file.write_text(template, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from None
    typer.echo(f"wrote {file}; edit it, then: servecast run {file}")
