"""`servecast validate`: predictions beside measured serving results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from simulator.validation.score import Prediction, Scores

TITLES = {
    "ttft_ms_mean": "TTFT ms",
    "tpot_ms_mean": "TPOT ms",
    "output_tok_per_s": "tokens/s",
}


def validate(
    measured: Annotated[
        list[Path],
        typer.Argument(
            metavar="MEASURED...",
            help="CSV of measured runs, or JSON of vllm bench serve --save-result.",
        ),
    ],
    gpu: Annotated[str | None, typer.Option(help="GPU of JSON results that do not say.")] = None,
    tp: Annotated[int | None, typer.Option(min=1, help="Tensor-parallel size of these.")] = None,
    engine_version: Annotated[
        str | None, typer.Option(help="Release to price with, instead of the rows' own.")
    ] = None,
    max_num_seqs: Annotated[int | None, typer.Option(min=1, help="Of JSON results.")] = None,
    max_num_batched_tokens: Annotated[
        int | None, typer.Option(min=1, help="Of JSON results.")
    ] = None,
    weight_dtype: Annotated[str | None, typer.Option(help="Of JSON results.")] = None,
    kv_dtype: Annotated[str | None, typer.Option(help="Of JSON results.")] = None,
    host: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The engine's own time, as calibrate --from-benchmark wrote it."
        ),
    ] = None,
    aiconfigurator: Annotated[
        bool,
        typer.Option(
            "--aiconfigurator",
            help="Print beside it how far off AIConfigurator is on the same rows (closed loops).",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Simulate measured runs and print how far off the predictions are."""
    from simulator.cli.progress import ProgressBar, announce_compilation
    from simulator.validation import score
    from simulator.validation.read import read

    beside = None
    if aiconfigurator:
        from simulator.validation.aiconfigurator import predict

        beside = predict

    given = {
        "gpu": gpu,
        "tp": tp,
        "engine_version": engine_version,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens,
        "weight_dtype": weight_dtype,
        "kv_dtype": kv_dtype,
    }
    announce_compilation()
    rows = [row for path in measured for row in read(path, given)]
    with ProgressBar("rows") as bar:
        scores = score.validate(rows, lambda done: bar(done, len(rows)), host, beside)
    groups = score.by_group(scores.predictions)
    if as_json:
        import json

        facts = {
            "rows": [prediction.as_dict() for prediction in scores.predictions],
            "groups": groups,
            "left_out": scores.left_out,
            "doubts": [[*group, reason] for group, reason in scores.doubts.items()],
        }
        typer.echo(json.dumps(facts, indent=1, ensure_ascii=False))
    else:
        _print(scores, groups)


def _print(scores: Scores, groups: list[dict[str, Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if _on_terminal() else 160)
    if scores.predictions:
        rows = Table(box=SIMPLE_HEAD, title="measured → predicted (error)", title_justify="left")
        for name in ("row", "GPU", "model", "conditions"):
            rows.add_column(name)
        for title in TITLES.values():
            rows.add_column(title, justify="right")
        for prediction in scores.predictions:
            row = prediction.row
            cells = [_cell(prediction, name) for name in TITLES]
            rows.add_row(row.where, row.gpu, row.group[2], row.conditions, *cells)
        console.print(rows, highlight=False)

        table = Table(box=SIMPLE_HEAD, title="error by group, %", title_justify="left")
        for name in ("engine", "GPU", "model", "result"):
            table.add_column(name)
        for name in ("rows", "bias", "median", "p90", "worst"):
            table.add_column(name, justify="right")
        for group in groups:
            who = (group["engine"], group["gpu"], group["model"])
            for name, errors in group["errors"].items():
                table.add_row(*who, name, *_figures(errors))
                if name in group["aiconfigurator"]:
                    theirs = _figures(group["aiconfigurator"][name])
                    table.add_row("", "", "", "  AIConfigurator", *theirs, style="dim")
        console.print(table, highlight=False)
        console.print("bias is the mean signed error; median and p90 are of its size", style="dim")
    for who, reason in scores.doubts.items():
        console.print(f"{' '.join(who)}: {reason}", highlight=False, soft_wrap=True)
    left_out = sum(scores.left_out.values())
    console.print(
        f"rows simulated: {len(scores.predictions)}, left out: {left_out}", highlight=False
    )
    for reason, count in scores.left_out.items():
        console.print(f"{count:6d}  {reason}", highlight=False, soft_wrap=True)


def _figures(errors: dict[str, float]) -> tuple[str, ...]:
    return (
        str(errors["rows"]),
        f"{errors['bias_pct']:+.1f}",
        f"{errors['median_pct']:.1f}",
        f"{errors['p90_pct']:.1f}",
        f"{errors['worst_pct']:+.1f}",
    )


def _on_terminal() -> bool:
    import sys

    return sys.stdout.isatty()


def _cell(prediction: Prediction, name: str) -> str:
    error = prediction.errors_pct.get(name)
    if error is None:
        return ""
    measured, predicted = prediction.row.results[name], prediction.predicted[name]
    return f"{measured:.4g} → {predicted:.4g} ({error:+.1f} %)"
