"""`servecast list` and `servecast show`: what is known by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


class Kind(StrEnum):
    """The catalogues."""

    models = "models"
    gpus = "gpus"
    engines = "engines"
    schedulers = "schedulers"
    orders = "orders"
    scenarios = "scenarios"
    traces = "traces"
    calibrations = "calibrations"


def list_entries(kind: Annotated[Kind, typer.Argument(help="Which catalogue.")]) -> None:
    """List a catalogue."""
    _print(_LISTS[kind]())


def show(
    name: Annotated[str, typer.Argument(help="A name that `list` prints, or `schema`.")],
) -> None:
    """Show one entry of a catalogue, or the JSON Schema of scenario files."""
    from cost_models.catalog import files
    from simulator.errors import InputError
    from simulator.scenario import ORDERS, POLICIES, builtin_scenarios
    from simulator.scenario.unsupported import nearest
    from simulator.workload.traces import FORMATS, servegen

    catalogues: list[tuple[Iterable[str], Callable[[str], None]]] = [
        (builtin_scenarios(), _show_scenario),
        (POLICIES, _show_policy),
        (ORDERS, _show_order),
        ((*FORMATS, servegen.NAME), _show_trace),
        (files.names("models"), _show_model),
        (files.names("gpus"), _show_gpu),
        (files.names("engines"), _show_engine),
        (("schema",), _show_schema),
    ]
    found = [show_entry for names, show_entry in catalogues if name in names]
    if not found:
        near = nearest(name, [known for names, _ in catalogues for known in names])
        hint = f"did you mean {near}?" if near else "see servecast list --help"
        raise InputError(f"nothing is called {name!r}; {hint}")
    for show_entry in found:  # sglang is a policy and an engine
        show_entry(name)


def _table(title: str, *columns: str) -> Table:
    """An empty table; columns that start with ``>`` are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for index, column in enumerate(columns):
        table.add_column(
            column.removeprefix(">"),
            justify="right" if column.startswith(">") else "left",
            no_wrap=index == 0,
        )
    return table


def _print(what: Any) -> None:
    from rich.console import Console

    Console().print(what, highlight=False)


def _models() -> Table:
    from cost_models.catalog import files, model

    table = _table(
        "Models (a Hugging Face config.json works as well)",
        "name", ">params, 1e9", ">layers", ">KV heads", ">max tokens", ">weights, GB",
        ">KV, kB/token",
    )  # fmt: skip
    for name in files.names("models"):
        m = model(name)
        table.add_row(
            name,
            f"{m.params_total / 1e9:.1f}",
            str(m.num_layers),
            str(m.num_kv_heads),
            str(m.max_position_embeddings),
            f"{m.weight_bytes(1) / 1e9:.1f}",
            f"{m.kv_bytes_per_token(1) / 1e3:.0f}",
        )
    return table


def _gpus() -> Table:
    from cost_models.catalog import files, gpu

    table = _table(
        "GPUs (peaks are dense; a price is a reference that cluster.price_per_gpu_hour overrides)",
        "name", "title", ">memory, GB", ">TB/s", ">bf16 TFLOP/s", ">W", ">$/h",
    )  # fmt: skip
    for name in files.names("gpus"):
        g = gpu(name)
        table.add_row(
            name,
            g.title,
            f"{g.memory_bytes / 1e9:.0f}",
            f"{g.memory_bandwidth_bytes_per_s / 1e12:.2f}",
            f"{g.peak_flops('bf16') / 1e12:.0f}",
            f"{g.tdp_w:.0f}",
            f"{g.price_per_gpu_hour:.2f}",
        )
    return table


def _engines() -> Table:
    from cost_models.catalog import files

    table = _table(
        "Engines (a release holds until the next one; servecast show NAME for its defaults)",
        "name", "releases",
    )  # fmt: skip
    for name in files.names("engines"):
        releases = files.read_mapping(files.find("engines", name))["releases"]
        table.add_row(name, ", ".join(str(release["version"]) for release in releases))
    return table


def _schedulers() -> Table:
    from simulator.scenario import POLICIES

    table = _table("Schedulers (your own: scheduler.policy: module:attr)", "name", "rule")
    for name, rule in POLICIES.items():
        table.add_row(name, rule)
    return table


def _orders() -> Table:
    from simulator.scenario import ORDERS

    table = _table("Orders of the queue (your own: scheduler.order: module:attr)", "name", "rule")
    for name, rule in ORDERS.items():
        table.add_row(name, rule)
    return table


def _scenarios() -> Table:
    from simulator.scenario import builtin_scenarios
    from simulator.scenario.builtin import question_of

    table = _table("Scenarios (run one: servecast run NAME)", "name", "question")
    for name, path in builtin_scenarios().items():
        table.add_row(name, question_of(path))
    return table


def _traces() -> Table:
    from simulator.workload.traces import FORMATS, servegen

    table = _table("Trace formats (workload.trace.format)", "name", "what", "columns")
    for name, layout in FORMATS.items():
        table.add_row(name, layout.about, ", ".join(layout.required))
    table.add_row(servegen.NAME, servegen.ABOUT, "")
    return table


def _calibrations() -> Group:
    from rich.console import Group

    from cost_models import calibration, latent

    table = _table(
        "Calibrations: mean and 95th percentile error of kernels left out of the fit, %",
        "name", "versions", ">GEMM", ">decode attention", ">prefill attention",
    )  # fmt: skip
    for gpu, engine, dtype in calibration.shipped():
        versions, report = calibration.report_of(gpu, engine, dtype)
        decodes = [facts for name, facts in report.items() if name.startswith("decode")]
        table.add_row(
            f"{gpu} {engine} {dtype}",
            ", ".join(versions),
            _error(report["gemm"], "left-out widths", "roofline"),
            "; ".join(_error(facts, "left-out sizes", "roofline") for facts in decodes),
            _error(report.get("prefill attention", {}), "fit"),
        )
    for gpu, engine, dtype, cache in latent.shipped():
        table.add_row(
            f"{gpu} {engine} mla {dtype}",
            "",
            "",
            _error(cache.report["decode attention"], "left-out sizes", "roofline"),
            _error(cache.report["prefill attention"], "fit"),
        )
    return Group(table, _expert_calibrations())


def _expert_calibrations() -> Table:
    from cost_models import experts

    table = _table(
        "Experts: of tokens left out of a table, of shapes left out of the fit that others take, %",
        "name", ">tokens", ">shapes", ">shapes, dealt out",
    )  # fmt: skip
    for gpu, engine, dtype, layer in experts.shipped():
        table.add_row(
            f"{gpu} {engine} experts {dtype}",
            _error(layer.report, "left-out tokens"),
            _error(layer.report, "left-out shapes", "roofline"),
            _error(layer.report, "left-out shapes, dealt out"),
        )
    return table


def _error(report: dict[str, Any], *names: str) -> str:
    """Mean / 95th percentile of the first of these errors that a report has."""
    found = next((report[name] for name in names if report.get(name)), None)
    return "" if found is None else f"{found['mape_pct']:.1f} / {found['p95_pct']:.0f}"


_LISTS = {
    Kind.models: _models,
    Kind.gpus: _gpus,
    Kind.engines: _engines,
    Kind.schedulers: _schedulers,
    Kind.orders: _orders,
    Kind.scenarios: _scenarios,
    Kind.traces: _traces,
    Kind.calibrations: _calibrations,
}


def _show_scenario(name: str) -> None:
    """A scenario as its file has it, to be read or redirected into a file of one's own."""
    from simulator.scenario import find_scenario

    typer.echo(find_scenario(name).read_text(encoding="utf-8"), nl=False)


def _show_policy(name: str) -> None:
    from simulator.scenario import POLICIES

    typer.echo(f"scheduler.policy: {name}\n  {POLICIES[name]}")


def _show_order(name: str) -> None:
    from simulator.scenario import ORDERS

    typer.echo(f"scheduler.order: {name}\n  {ORDERS[name]}")


def _show_trace(name: str) -> None:
    from simulator.workload.traces import FORMATS, servegen

    about, columns = servegen.ABOUT, ""
    if name != servegen.NAME:
        about, columns = FORMATS[name].about, "; " + ", ".join(FORMATS[name].required)
    typer.echo(f"workload.trace.format: {name}\n  {about}{columns}")


def _show_model(name: str) -> None:
    from dataclasses import asdict

    from cost_models.catalog import model

    _print_facts(name, asdict(model(name)))


def _show_gpu(name: str) -> None:
    from cost_models.catalog import gpu

    _print_facts(name, gpu(name).model_dump())


def _show_engine(name: str) -> None:
    from cost_models.catalog import files

    typer.echo(files.find("engines", name).read_text(encoding="utf-8"), nl=False)


def _show_schema(name: str) -> None:
    from simulator.scenario.schema import SCHEMA_FILE

    typer.echo(SCHEMA_FILE.read_text(encoding="utf-8"), nl=False)


def _print_facts(title: str, facts: dict[str, Any]) -> None:
    table = _table(title, "fact", "value")
    table.columns[1].overflow = "fold"
    for key, value in facts.items():
        table.add_row(key, _fact(value))
    _print(table)


def _fact(value: Any) -> str:
    """A value of a catalogue's entry, whose parts may be mappings too."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_fact(part)}" for key, part in value.items())
    if isinstance(value, tuple):
        return " ".join(map(_fact, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float) and value >= 1e6:
        return f"{value:.3e}"
    return str(value)
