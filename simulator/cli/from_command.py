"""`servecast from-command`: a scenario of the command lines that people have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simulator.command_lines import Translation


def from_command(
    commands: Annotated[
        list[str],
        typer.Argument(
            metavar='"vllm serve …" ["vllm bench serve …"]',
            help="Each command line in quotes; nothing of it is executed.",
        ),
    ],
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="On what; a command line does not tell.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the scenario there; else print it."),
    ] = None,
) -> None:
    """Turn `vllm serve` and `vllm bench serve` commands into a scenario that runs."""
    from simulator.command_lines import from_commands
    from simulator.errors import InputError
    from simulator.report.files import write_text
    from simulator.scenario import Scenario, resolve
    from simulator.scenario.overrides import Override, parse_override

    extra = [parse_override(text) for text in settings or ()]
    if gpu is not None:
        extra.append(Override(("cluster", "gpu"), gpu, "--gpu"))
    translation = from_commands(commands, extra)
    resolve(Scenario.from_mapping(translation.mapping))  # refuses what could not start
    text = _yaml(translation, gpu_is_told=any(o.path[:2] == ("cluster", "gpu") for o in extra))
    if out is None:
        typer.echo(text, nl=False)
        return
    if out.exists():
        raise InputError(f"--out {out}: is there already; choose another name")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}; make it first")
    write_text(out, text)
    typer.echo(f"written to {out}; run it with: servecast run {out}", err=True)


def _yaml(translation: Translation, *, gpu_is_told: bool) -> str:
    """The scenario's file, with what was not taken over as comments."""
    import textwrap

    import yaml

    lines = []
    for title, matters in (("Not simulated:", True), ("Plays no part:", False)):
        found = [told for told in translation.told if told.matters == matters]
        if found:
            lines.append(title)
        for told in found:
            lines += textwrap.wrap(f"{told.flag}: {told.why}", 90, initial_indent="  ",
                                   subsequent_indent="    ")  # fmt: skip
    if not gpu_is_told:
        lines.append("No --gpu was given: cluster.gpu is the default, h100_sxm.")
    header = "".join(f"# {line}\n" for line in lines)
    return header + yaml.safe_dump(translation.mapping, sort_keys=False, allow_unicode=True)
