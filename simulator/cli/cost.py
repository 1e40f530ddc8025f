"""`servecast cost`: one engine step, operation by operation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.errors import InputError

if TYPE_CHECKING:
    from cost_models import StepCost, StepTime
    from cost_models.catalog import Gpu, Model
    from cost_models.parallelism import Parallelism

LARGEST_BATCH = 65_536


def cost(
    model: Annotated[str, typer.Argument(help="A catalogue name, or a Hugging Face config.json.")],
    gpu: Annotated[str, typer.Option(help="A GPU of the catalogue, or a file like its entries.")],
    tp: Annotated[int, typer.Option(help="Tensor-parallel size.")] = 1,
    pp: Annotated[int, typer.Option(min=1, help="Pipeline stages.")] = 1,
    dp: Annotated[
        int, typer.Option(min=1, help="Engines that share experts, all with this step.")
    ] = 1,
    ep: Annotated[bool, typer.Option("--ep", help="Experts are dealt out over the GPUs.")] = False,
    decode: Annotated[
        list[str] | None,
        typer.Option(metavar="BxCTX", help="B sequences that decode at CTX tokens of context."),
    ] = None,
    prefill: Annotated[
        list[str] | None,
        typer.Option(metavar="CHUNK@PAST", help="A chunk of a prompt after PAST tokens of it."),
    ] = None,
    weight_dtype: Annotated[
        str | None, typer.Option(help="bf16, fp8, fp8_block, nvfp4 or mxfp4.")
    ] = None,
    kv_dtype: Annotated[str | None, typer.Option(help="bf16 or fp8.")] = None,
    engine: Annotated[str, typer.Option(help="Whose kernels and host time.")] = "vllm",
    engine_version: Annotated[str | None, typer.Option(help="Release; default the newest.")] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option(min=1, help="The engine's limit; default its own.")
    ] = None,
    coefficients: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Of servecast calibrate, in place of the shipped ones."),
    ] = None,
    host: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The engine's own time: calibrate --from-benchmark."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="EFFECT", help="Switch off an effect beyond the kernels."),
    ] = None,
    datasheet: Annotated[
        bool, typer.Option("--datasheet", help="For a GPU that nobody measured.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Price one step, operation by operation, and say what sets its pace."""
    from cost_models import StepCost, catalog
    from cost_models.parallelism import Parallelism

    spec = {"name": model, "weight_dtype": weight_dtype, "kv_dtype": kv_dtype}
    shape, device = catalog.model(spec), catalog.gpu(gpu)
    contexts = [context for text in decode or [] for context in _decodes(text)]
    chunks = [_prefill(text) for text in prefill or []]
    if not contexts and not chunks:
        contexts = _decodes("32x2048")
    split = Parallelism(tp, pp, dp, ep)
    _refuse_beyond_the_model(contexts, chunks, shape)
    seqs = len(contexts) + len(chunks)
    if max_num_seqs is not None and seqs > max_num_seqs:
        raise InputError(
            f"--max-num-seqs {max_num_seqs}: the step has {seqs} sequences; give as many or more."
        )
    price = StepCost.load(
        shape,
        device,
        split=split,
        engine=engine,
        engine_version=engine_version,
        kind="datasheet" if datasheet else "calibrated",
        max_num_seqs=max_num_seqs,
        without=without or (),
        coefficients=coefficients or (),
        host=host,
    )
    step = price.step(contexts, chunks)
    facts = _facts(price, step, shape, device)
    facts["does_not_fit"] = _does_not_fit(
        shape, device, split, engine, engine_version, max_num_seqs
    )
    if plot is not None:
        _draw(plot, price, step, shape, device, tp, contexts)
    if as_json:
        import json

        typer.echo(json.dumps(facts, indent=1, ensure_ascii=False))
    else:
        what = " + ".join([*(decode or []), *(f"prefill {text}" for text in prefill or [])])
        _print(facts, f"{shape.name} on {split.gpus} x {device.name}: {what or '32x2048'}")


def _does_not_fit(
    model: Model,
    gpu: Gpu,
    split: Parallelism,
    engine: str,
    engine_version: str | None,
    max_num_seqs: int | None,
) -> str | None:
    """Why no engine of this size could take the step; None where one could."""
    from cost_models.catalog import engine_defaults
    from cost_models.memory import kv_budget

    defaults = engine_defaults(engine, engine_version, gpu)
    try:
        kv_budget(model, gpu, split=split, max_num_seqs=max_num_seqs, defaults=defaults)
    except InputError as reason:
        return str(reason)
    return None


def _draw(
    file: Path,
    price: StepCost,
    step: StepTime,
    model: Model,
    gpu: Gpu,
    tp: int,
    contexts: list[int],
) -> None:
    from simulator.report.plots.cost import plot_cost

    if file.suffix not in (".png", ".svg", ".pdf") or not file.parent.is_dir():
        raise InputError(f"--plot {file}: give a .png, .svg or .pdf file in a folder that exists.")
    context = round(sum(contexts) / len(contexts)) if contexts else 2048
    plot_cost(price, step, model, gpu, tp, context).savefig(file, dpi=150)


def _refuse_beyond_the_model(
    contexts: list[int], chunks: list[tuple[int, int]], model: Model
) -> None:
    longest = max([*contexts, *(chunk + past for chunk, past in chunks)])
    if longest > model.max_position_embeddings:
        raise InputError(
            f"a context of {longest} tokens is more than the {model.max_position_embeddings} "
            f"positions of {model.name}; give a shorter one"
        )


def _decodes(text: str) -> list[int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None or int(match[1]) < 1 or int(match[2]) < 1:
        raise InputError(
            f"--decode {text!r}: write sequences x context, both 1 or more, like 32x2048."
        )
    if int(match[1]) > LARGEST_BATCH:
        raise InputError(f"--decode {text!r}: at most {LARGEST_BATCH} sequences fit in a step.")
    return [int(match[2])] * int(match[1])


def _prefill(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)(?:@(\d+))?", text)
    if match is None or int(match[1]) < 1:
        raise InputError(
            f"--prefill {text!r}: write chunk@past, the chunk 1 token or more, like 512@1024."
        )
    return int(match[1]), int(match[2] or 0)


def _facts(price: StepCost, step: StepTime, model: Model, gpu: Gpu) -> dict[str, Any]:
    """What both forms of output print."""
    from cost_models.bounds import bound, share_of_peak
    from cost_models.roofline import RooflineForm

    dtype = model.weight_dtype
    ops = []
    for op in step.ops:
        peak = share_of_peak(op, gpu, dtype if op.name.endswith("_proj") else "bf16")
        ops.append(
            {
                "name": op.name,
                "ms": op.seconds * 1e3,
                "share": op.seconds / step.total_s,
                "pct_of_peak": None if peak is None else 100 * peak,
                "flops": op.flops,
                "bytes": op.bytes,
                "source": op.source,
            }
        )
    facts = {
        "step_ms": step.total_s * 1e3,
        "gpu_ms": step.gpu_s * 1e3,
        "host_ms": step.host_s * 1e3,
        "ops": ops,
        "bound": bound(step, gpu, dtype).sentence(step.total_s),
        "provenance": price.provenance.splitlines(),
    }
    if isinstance(price.form, RooflineForm):
        facts["compute_bound_from_tokens"] = price.form.compute_bound_from_tokens
    return facts


def _print(facts: dict[str, Any], title: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("operation")
    for name in ("ms", "share", "of peak", "GFLOP", "MB"):
        table.add_column(name, justify="right")
    table.add_column("source")

    def number(value: float | None, scale: float, form: str) -> str:
        return "" if value is None else format(value * scale, form)

    for op in facts["ops"]:
        table.add_row(
            op["name"],
            f"{op['ms']:.3f}",
            f"{op['share']:.1%}",
            number(op["pct_of_peak"], 1, ".0f") + (" %" if op["pct_of_peak"] else ""),
            number(op["flops"], 1e-9, ",.1f"),
            number(op["bytes"], 1e-6, ",.1f"),
            op["source"],
        )
    table.add_section()
    table.add_row("GPU", f"{facts['gpu_ms']:.3f}", f"{facts['gpu_ms'] / facts['step_ms']:.1%}")
    table.add_row("host", f"{facts['host_ms']:.3f}", f"{facts['host_ms'] / facts['step_ms']:.1%}")
    table.add_row("step", f"{facts['step_ms']:.3f}", "100.0%", style="bold")
    console = Console()
    console.print(table, highlight=False)
    turn = facts.get("compute_bound_from_tokens")
    if turn is not None:
        console.print(
            f"{facts['bound']}; the layers turn from memory to compute at about {turn} tokens "
            "per step.",
            highlight=False,
        )
    for line in facts["provenance"]:
        console.print(line, highlight=False)
    if facts["does_not_fit"]:
        console.print(f"note: {facts['does_not_fit']}", highlight=False)
