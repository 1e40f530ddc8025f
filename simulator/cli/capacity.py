"""`servecast capacity`: how much a system carries within its limits, and what to change next."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simulator.planning.capacity.search import Option
    from simulator.scenario import Scenario

SLO_MISSED = 3
MOST_MODEL_ERROR = 10


def capacity(
    scenario: Annotated[str, typer.Argument(help="A scenario file, or a built-in name.")],
    slo: Annotated[
        list[str] | None,
        typer.Option(
            "--slo", metavar="[CLASS.]KEY=MS", help="A limit, such as p99_ttft_ms=500; repeatable."
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Requests/s (or clients) to plan for.")
    ] = None,
    max_rate: Annotated[
        bool, typer.Option("--max-rate", help="Greatest rate of the scenario's replicas.")
    ] = False,
    replicas: Annotated[
        int | None, typer.Option("--replicas", min=1, help="Greatest rate of so many replicas.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=1, help="The same, of so many GPUs.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option("--budget", metavar="$/H", help="Most dollars per hour of all GPUs."),
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search", metavar="KEY=V,V,…", help="Try all combinations; cheapest wins. Repeatable."
        ),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="NAME,…",
            help="all, n-1, traffic, prompts, outputs, max_tokens, bursts, gpu, fp8, model, or "
            "'NAME: KEY=VALUE'.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key; may be repeated."),
    ] = None,
    precision: Annotated[
        float, typer.Option(help="Half-width of the rate's confidence interval, relative.")
    ] = 0.03,
    replicates: Annotated[
        int, typer.Option(min=2, help="At most so many replicates to reach it.")
    ] = 12,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit", metavar="S", help="Answer with what is known after so many seconds."
        ),
    ] = None,
    model_error: Annotated[
        float | None, typer.Option(min=0, help="Relative error of step costs, for the model band.")
    ] = None,
    changes: Annotated[
        bool, typer.Option("--changes/--no-changes", help="Try what would carry more.")
    ] = True,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 3 if the load asked for is not carried.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed in place of the file's.")] = None,
) -> None:
    """Greatest rate within the limits, or least replicas for a rate; what limits, what next."""
    from simulator.cli.progress import Status, announce_compilation
    from simulator.metrics.slo import refuse_unmeasurable
    from simulator.planning.capacity import find_capacity
    from simulator.planning.capacity.search import parse_axes
    from simulator.planning.capacity.search import search as search_options
    from simulator.planning.capacity.what_if import parse_what_if, refuse_unknown_keys
    from simulator.report.capacity import capacity_report
    from simulator.report.files import to_json

    _refuse_nonsense(rate, max_rate, replicas or gpus, precision, budget, model_error, time_limit)
    questions = parse_what_if(what_if or [])
    described = _scenario(scenario, settings or [], slo or [], seed, replicas, gpus)
    refuse_unmeasurable(described)
    refuse_unknown_keys(described, questions)
    announce_compilation()
    size = rate is not None and replicas is None and gpus is None and not max_rate
    axes = parse_axes(search or [])
    options: list[Option] = []
    with Status() as status:
        if axes:
            options = search_options(described, axes, rate=rate, budget=budget, say=status)
            described = _with_option(described, options[0], size)
        found = find_capacity(
            described,
            rate=rate,
            size=size,
            precision=precision,
            replicates=(min(4, replicates), replicates),
            model_error=model_error,
            try_changes=changes,
            what_if=questions,
            time_limit_s=math.inf if time_limit is None else time_limit,
            say=status,
        )
    found = replace(found, options=options)
    typer.echo(to_json(found.to_mapping()) if as_json else capacity_report(found), nl=not as_json)
    over = budget is not None and found.dollars_per_hour > budget
    if over:
        typer.echo(f"over the budget: ${found.dollars_per_hour:.2f}/h", err=True)
    if check and (over or not found.met):
        typer.echo(f"missed: {found.asked:.4g} {found.unit}", err=True)
        raise typer.Exit(SLO_MISSED)


def _scenario(
    source: str,
    settings: list[str],
    slo: list[str],
    seed: int | None,
    replicas: int | None,
    gpus: int | None,
) -> Scenario:
    """The scenario with what the options set in it."""
    from simulator.errors import InputError
    from simulator.scenario import Scenario
    from simulator.scenario.overrides import parse_override, with_seed
    from simulator.scenario.pools import copies

    scenario = Scenario.from_yaml(source, with_seed(settings, seed))
    names = [spec.name for spec in scenario.workload.classes]
    for text in slo:
        who, dot, key = text.rpartition(".") if "." in text.partition("=")[0] else ("", "", text)
        if dot and who not in names:
            raise InputError(
                f"--slo {text}: {who!r} is no class of the workload"
                + (f"; there are {', '.join(names)}" if names else ", which has none")
            )
        place = f"workload.classes.{names.index(who)}.slo" if dot else "slo"
        if "=" not in key:
            raise InputError(f"--slo {text}: give a key and a limit in ms, as p99_ttft_ms=500")
        scenario = scenario.with_overrides([parse_override(f"{place}.{key}", "--slo")])
    if gpus is not None:
        each = scenario.cluster.split.gpus
        if replicas is not None or gpus % each:
            raise InputError(
                f"--gpus {gpus}: give --replicas or --gpus, not both"
                if replicas is not None
                else f"--gpus {gpus} is no multiple of the {each} GPUs of a replica"
            )
        replicas = gpus // each
    return scenario if replicas is None else scenario.with_overrides(copies(scenario, replicas))


def _with_option(scenario: Scenario, option: Option, size: bool) -> Scenario:
    """The scenario of the cheapest option, with its replicas where they are given."""
    from simulator.scenario.pools import copies

    chosen = scenario.with_overrides(option.settings)
    return chosen.with_overrides(copies(chosen, 1 if size else option.replicas))


def _refuse_nonsense(
    rate: float | None,
    max_rate: bool,
    given: int | None,
    precision: float,
    budget: float | None,
    model_error: float | None,
    time_limit: float | None,
) -> None:
    from simulator.errors import InputError

    for option, value in (("--rate", rate), ("--budget", budget), ("--time-limit", time_limit)):
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise InputError(f"{option} {value:g}: give a number above 0")
    if model_error is not None and not model_error < MOST_MODEL_ERROR:
        raise InputError(
            f"--model-error {model_error:g}: give a share below {MOST_MODEL_ERROR}, such as 0.1"
        )
    if rate is not None and max_rate and given is None:
        raise InputError("--rate and --max-rate ask for opposite things; give one of the two")
    if not 0 < precision < 1:
        raise InputError(f"--precision {precision:g}: give a number between 0 and 1, such as 0.03")
