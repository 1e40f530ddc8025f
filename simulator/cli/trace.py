"""`servecast trace`: what is in a recorded trace, and the same in another format."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from simulator.words import counted

if TYPE_CHECKING:
    from rich.table import Table

trace = typer.Typer(help="Look into recorded traces and convert them.", no_args_is_help=True)


class OnBadRow(StrEnum):
    """What to do with rows that cannot be used."""

    skip = "skip"
    error = "error"


class Turns(StrEnum):
    """When later turns of sessions arrive."""

    wait = "wait"
    as_recorded = "as-recorded"


class TimeUnit(StrEnum):
    """Unit of the times of a file with columns of its own."""

    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"
    date = "date"


Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="For any other table: arrival_s=NAME, prompt_tokens=NAME, ... (one option each).",
    ),
]
Unit = Annotated[TimeUnit, typer.Option(help="Unit of its times.")]
Turned = Annotated[
    Turns, typer.Option(help="Of sessions: wait for the turn before, or come as-recorded.")
]


def _key(turns: Turns) -> Literal["wait", "as_recorded"]:
    """The value of workload.trace.turns."""
    return "wait" if turns is Turns.wait else "as_recorded"


def _mapping(columns: list[str] | None) -> dict[str, str] | None:
    """The column options as a mapping from our names to the file's."""
    from simulator.errors import InputError

    if columns is None:
        return None
    for item in columns:
        if "=" not in item:
            raise InputError(f"--column {item}: write OURS=NAME, as in arrival_s=timestamp")
    return dict(item.split("=", 1) for item in columns)


@trace.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="CSV, JSON lines or Parquet; packed or not.")],
    format: Annotated[str, typer.Option(help="Its format; auto: told by columns.")] = "auto",
    on_bad_row: Annotated[
        OnBadRow, typer.Option(help="skip: count bad rows; error: stop at the first.")
    ] = OnBadRow.skip,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plots: Annotated[
        Path | None, typer.Option(help="Write a page of plots: .svg, .png or .pdf.")
    ] = None,
    turns: Turned = Turns.wait,
    column: Column = None,
    time_unit: Unit = TimeUnit.s,
) -> None:
    """Show a trace's rate, burstiness, lengths and oddities."""
    from json import dumps

    from simulator.workload.traces import read_trace
    from simulator.workload.traces.statistics import describe

    recorded = read_trace(
        file,
        format,
        on_bad_row=on_bad_row.value,
        turns=_key(turns),
        columns=_mapping(column),
        time_unit=time_unit.value,
    )
    if plots is not None:
        from simulator.workload.traces.figure import save_figure

        save_figure(recorded, plots)
    found = describe(recorded)
    if json:
        typer.echo(dumps(found, indent=2))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for line in _sentences(found):
        console.print(line, markup=False, soft_wrap=True)
    console.print(_lengths(found))
    for title in ("notes", "oddities"):
        for sentence in found[title]:
            console.print(f"{title}: {sentence}", markup=False, soft_wrap=True)


@trace.command()
def convert(
    file: Annotated[Path, typer.Argument(help="The trace to read.")],
    out: Annotated[Path, typer.Argument(help="The file to write; .gz packs it.")],
    to: Annotated[
        str, typer.Option(help="Format (see `servecast list traces`), or vllm, guidellm, aiperf.")
    ],
    format: Annotated[str, typer.Option(help="Format to read; auto: told by columns.")] = "auto",
    on_bad_row: Annotated[
        OnBadRow, typer.Option(help="error: stop at the first bad row; skip: count them.")
    ] = OnBadRow.error,
    turns: Turned = Turns.wait,
    column: Column = None,
    time_unit: Unit = TimeUnit.s,
) -> None:
    """Write a trace in another format, for a tool that replays it."""
    from simulator.errors import InputError
    from simulator.workload.traces import read_trace
    from simulator.workload.traces.registry import format_named
    from simulator.workload.traces.tools import TOOLS
    from simulator.workload.traces.write import write_trace

    if out.resolve() == file.resolve():
        raise InputError(f"{out} is the trace itself; name another file to write")
    tool = TOOLS.get(to)
    named = None if tool is not None else format_named(to)
    recorded = read_trace(
        file,
        format,
        on_bad_row=on_bad_row.value,
        turns=_key(turns),
        columns=_mapping(column),
        time_unit=time_unit.value,
    )
    layout = named if named is not None else TOOLS[to].layout(recorded)
    write_trace(recorded, out, layout)
    for note in recorded.notes:
        typer.echo(note)
    typer.echo(
        f"{out}: {counted(len(recorded), 'request')} written as {layout.name} ({layout.about})"
    )
    if tool is not None:
        typer.echo(f"replay it with: {tool.command(recorded, out)}")


@trace.command()
def synthesize(
    file: Annotated[Path, typer.Argument(help="The trace to be like.")],
    out: Annotated[Path, typer.Option(help="Scenario file to write; lengths go beside it.")],
    format: Annotated[str, typer.Option(help="Format to read; auto: told by columns.")] = "auto",
    on_bad_row: Annotated[
        OnBadRow, typer.Option(help="error: stop at the first bad row; skip: count them.")
    ] = OnBadRow.error,
    class_column: Annotated[
        str | None, typer.Option(help="Column that names the class of each request.")
    ] = None,
    turns: Turned = Turns.wait,
    column: Column = None,
    time_unit: Unit = TimeUnit.s,
    model: Annotated[str, typer.Option(help="Model of the scenario.")] = "llama-3.1-8b",
    json: Annotated[bool, typer.Option("--json", help="Print the fidelity as JSON.")] = False,
) -> None:
    """Write a scenario that is statistically like a trace and holds none of its rows."""
    from json import dumps

    from simulator.workload.synthesis.twin import synthesize as make

    section: dict[str, Any] = {
        "path": str(file),
        "format": format,
        "on_bad_row": on_bad_row.value,
        "turns": _key(turns),
        "columns": _mapping(column),
        "time_unit": time_unit.value,
    }
    if class_column is not None:
        section["class_column"] = class_column
    twin = make(section, out, model)
    if json:
        typer.echo(dumps([row._asdict() for row in twin.likeness], indent=2))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=SIMPLE_HEAD)
    for head in ("measure", "trace", "twin", "KS distance"):
        table.add_column(head, justify="left" if head == "measure" else "right")
    for row in twin.likeness:
        values = ["" if v is None else f"{v:.4g}" for v in row[1:3]]
        distance = "" if row.distance is None else f"{row.distance:.3f}"
        table.add_row(row.measure, *values, distance)
    console.print(table)
    for note in twin.notes:
        console.print(note, markup=False, soft_wrap=True)
    written = ", ".join(str(path) for path in twin.files)
    console.print(f"written: {written}", markup=False, soft_wrap=True)


def _sentences(found: dict[str, Any]) -> list[str]:
    """The figures that are no table."""
    lines = [f"requests             {found['requests']:,} ({counted(found['rows_read'], 'row')})"]
    lines.append(f"span                 {found['span_s']:,.1f} s")
    if found["rate"] is not None:
        what = "sessions" if found["sessions"] else "requests"
        lines.append(f"rate                 {found['rate']:.4g} {what}/s")
    if found["gap_cv"] is not None:
        lines.append(f"CV of the gaps       {found['gap_cv']:.3g} (Poisson: 1)")
    if found["index_of_dispersion"]:
        widths = ", ".join(f"{v:.3g} at {w} s" for w, v in found["index_of_dispersion"].items())
        lines.append(f"index of dispersion  {widths} (Poisson: 1)")
    if found["length_correlation"] is not None:
        lines.append(f"rank correlation     {found['length_correlation']:.2f} (prompt, output)")
    if found["sessions"]:
        sessions = found["sessions"]
        lines.append(
            f"sessions             {sessions['count']:,}, {sessions['mean_turns']:.3g} turns on "
            f"average, {sessions['max_turns']} at most"
        )
        if sessions["mean_think_s"] is not None:
            lines.append(
                f"think time           mean {sessions['mean_think_s']:.4g} s, median "
                f"{sessions['median_think_s']:.4g} s"
            )
    if found["prefix_reuse"] is not None:
        lines.append(f"prefix reuse         {found['prefix_reuse']:.1%} of the prompt tokens")
    return lines


def _lengths(found: dict[str, Any]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    table.add_column("tokens")
    for column in ("prompt", "output"):
        table.add_column(column, justify="right")
    for measure, prompt in found["prompt_tokens"].items():
        table.add_row(measure, f"{prompt:,.0f}", f"{found['output_tokens'][measure]:,.0f}")
    return table
