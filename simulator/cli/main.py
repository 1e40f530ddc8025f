"""The `servecast` command.

Command files import only typer at the top, so that ``servecast --help`` stays instant;
what they need to work is imported when they run.
"""

from __future__ import annotations

import gc
import sys
from typing import Annotated

import typer

from simulator.cli.calibrate import calibrate
from simulator.cli.capacity import capacity
from simulator.cli.catalogue import list_entries, show
from simulator.cli.compare import compare
from simulator.cli.conformance import conformance
from simulator.cli.cost import cost
from simulator.cli.from_command import from_command
from simulator.cli.init import init
from simulator.cli.profile import profile
from simulator.cli.run import run
from simulator.cli.sweep import sweep
from simulator.cli.trace import trace
from simulator.cli.validate import validate
from simulator.errors import InputError

app = typer.Typer(
    name="servecast",
    help="Simulate LLM serving: latency, throughput, goodput and cost, without a GPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing rich's help takes longer than everything else
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run)
app.command("compare")(compare)
app.command("sweep")(sweep)
app.command("capacity")(capacity)
app.command("cost")(cost)
app.command("calibrate")(calibrate)
app.command("profile")(profile)
app.command("validate")(validate)
app.command("conformance")(conformance)
app.add_typer(trace, name="trace")
app.command("init")(init)
app.command("from-command")(from_command)
app.command("list")(list_entries)
app.command("show")(show)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"servecast {version('servecast')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it and end."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; exit 2 for bad input, 130 when interrupted."""
    gc.set_threshold(100_000)  # loading modules makes no garbage, but many objects to look at
    try:
        app()
    except InputError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
