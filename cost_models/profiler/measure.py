"""Time every case and write its row at once, so that an interrupted profile goes on."""

from __future__ import annotations

import csv
import datetime
import itertools
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cost_models.catalog import Model
from cost_models.errors import InputError
from cost_models.importers.own_csv import COLUMNS, provenance
from cost_models.profiler import attention, products
from cost_models.profiler.cases import Case, case, cases
from cost_models.profiler.clock import Clock, clock
from cost_models.profiler.collectives import all_reduce_us
from cost_models.profiler.extra import torch_module
from cost_models.profiler.memory import Pool

POOL_SHARE = 0.6  # of the free memory, for what is read; outputs and workspaces need the rest
CPU_POOL_BYTES = 2**30

Told = Callable[[int, int], None]


class Bench:
    """Times cases on one device.

    Parameters
    ----------
    device : cuda or cpu.
    dtype : of the weights: bf16 or fp8.
    """

    def __init__(self, device: str, dtype: str):
        torch = torch_module()
        if device == "cuda" and not torch.cuda.is_available():
            raise InputError("--device cuda: PyTorch finds no GPU; give --device cpu for a trial.")
        if device == "cpu":
            torch.set_num_threads(1)  # threads that wait for each other measure the waiting
        self.device, self.dtype = device, dtype
        free_bytes = torch.cuda.mem_get_info()[0] if device == "cuda" else CPU_POOL_BYTES
        self.pool = Pool(device, int(POOL_SHARE * free_bytes))
        self.clock: Clock = clock(device)
        self.attention = attention.find(self.pool)

    @property
    def facts(self) -> dict[str, str]:
        """What was measured and with what, for the head of the file."""
        torch = torch_module()
        device = platform.processor() or platform.machine()
        if self.device == "cuda":
            device = torch.cuda.get_device_name(0)
        return {
            "device": device,
            "dtype": self.dtype,
            "torch": torch.__version__,
            "attention": self.attention.name,
            "measured": "inside CUDA graphs" if self.device == "cuda" else "by the wall clock",
        }

    def why_not(self, of: Case) -> str | None:
        """Why a case cannot be measured here, if it cannot."""
        torch = torch_module()
        if of.op == "all_reduce":
            found = torch.cuda.device_count()
            if self.device == "cuda" and found < of["tp"]:
                return f"this machine has {found} GPU"
            return None
        if of.op == "gemm":
            elements: float = products.gemm_elements(of)
        elif of.op in products.SMALL:
            elements = products.small_elements(of)
        else:
            elements = attention.kv_elements(attention.batch_of(of), attention.heads_of(of))
        needed = elements * self.pool.width
        if needed > self.pool.most_bytes:
            return f"it needs {needed / 1e9:.1f} GB"
        return None

    def measure(self, todo: Sequence[Case]) -> Iterator[tuple[Case, float]]:
        """Each case with the microseconds of one call, as soon as they are known."""
        for op, group in itertools.groupby(todo, key=lambda of: of.op):
            if op == "all_reduce":  # its processes start once, not for every size
                reduces = list(group)
                sizes = [of["elements"] for of in reduces]
                times = all_reduce_us(reduces[0]["tp"], sizes, self.device)
                yield from zip(reduces, times, strict=True)
                continue
            for of in group:
                yield of, self.clock.microseconds(self._calls(of))

    def _calls(self, of: Case) -> list[Callable[[], Any]]:
        if of.op == "gemm":
            return products.gemm_calls(of, self.pool, self.dtype)
        if of.op in products.SMALL:
            return products.small_calls(of, self.pool)
        return self.attention.calls(attention.batch_of(of), attention.heads_of(of))


def profile(
    model: Model,
    tp: int,
    out: Path,
    *,
    device: str = "cuda",
    density: str = "minimal",
    told: Told = lambda done, total: None,
) -> tuple[int, dict[Case, str]]:
    """Measure a model's kernels into a CSV of our own form.

    A file that holds rows of the same device, software, model and `tp` is gone on with.

    Parameters
    ----------
    model, tp : whose shapes are measured, on one rank.
    out : the CSV file.
    device : cuda, or cpu for a trial.
    density : quick, minimal (about 200 cases) or dense.
    told : called after each case with how many are done and how many there are.

    Returns
    -------
    How many rows the file now holds, and why each case that was left out was.
    """
    wanted = cases(model, tp, density)
    bench = Bench(device, model.weight_dtype)
    facts = {**bench.facts, "model": model.name, "tensor_parallel": str(tp)}
    known = _known(out, facts)
    left_out = {of: why for of in wanted if (why := bench.why_not(of)) is not None}
    todo = [of for of in wanted if of not in known and of not in left_out]
    with out.open("a", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, COLUMNS, restval="")
        if not known and file.tell() == 0:
            facts["date"] = datetime.date.today().isoformat()
            file.writelines(f"# {name}: {value}\n" for name, value in facts.items())
            rows.writeheader()
        for k, (of, microseconds) in enumerate(bench.measure(todo), start=1):
            told(len(known) + k, len(known) + len(todo))
            rows.writerow({"op": of.op, "us": f"{microseconds:.4g}", **dict(of.sizes)})
            file.flush()
    return len(known) + len(todo), left_out


def _known(out: Path, facts: dict[str, str]) -> set[Case]:
    """Cases that the file holds already; refuses one of another device or model."""
    if not out.exists() or out.stat().st_size == 0:
        return set()
    written = provenance(out)
    for name, value in facts.items():
        if written.get(name) != value:
            raise InputError(
                f"{out}: holds a profile whose {name} is {written.get(name, 'not given')}, not "
                f"{value}; give another --out."
            )
    with out.open(newline="", encoding="utf-8") as file:
        rows: Iterable[dict[str, str]] = csv.DictReader(
            line for line in file if not line.startswith("#")
        )
        return {_case(row) for row in rows}


def _case(row: dict[str, str]) -> Case:
    """The case of a written row."""
    sizes = {name: value for name, value in row.items() if value and name not in ("op", "us")}
    return case(
        row["op"],
        **{name: int(value) if value.isdigit() else value for name, value in sizes.items()},
    )
