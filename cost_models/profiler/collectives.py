"""All-reduce over the GPUs of one machine (or processes, on a CPU)."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from cost_models.profiler.clock import clock
from cost_models.profiler.extra import torch_module


def all_reduce_us(tp: int, elements: list[int], device: str) -> list[float]:
    """Microseconds of an all-reduce of each size (bf16) over `tp` ranks, by the slowest rank.

    Collectives of PyTorch: NCCL on GPUs, Gloo on a CPU.  An engine's own kernels for small
    sizes can be faster.
    """
    from torch import multiprocessing

    torch_module()
    with tempfile.TemporaryDirectory() as folder:
        results = multiprocessing.get_context("spawn").SimpleQueue()
        arguments = (tp, elements, device, str(Path(folder) / "meet"), results)
        workers = multiprocessing.spawn(_rank, arguments, nprocs=tp, join=False)
        found = [results.get() for _ in range(tp)]
        workers.join()
    return [max(times) for times in zip(*found, strict=True)]


def _rank(rank: int, tp: int, elements: list[int], device: str, meet: str, results: Any) -> None:
    import torch
    from torch import distributed

    if device == "cuda":
        torch.cuda.set_device(rank)
    backend = "nccl" if device == "cuda" else "gloo"
    distributed.init_process_group(backend, init_method=f"file://{meet}", rank=rank, world_size=tp)
    timer = clock(device, alike=True)
    times = []
    for size in elements:
        tensor = torch.zeros(size, dtype=torch.bfloat16, device=device)
        times.append(timer.microseconds([functools.partial(distributed.all_reduce, tensor)]))
    results.put(times)
    distributed.destroy_process_group()
