"""Memory that the timed calls read: one pool, of which each call gets another part."""

from __future__ import annotations

import math
from typing import Any

from cost_models.profiler.extra import torch_module

COLD_CACHES = 3  # calls read this many times the cache before one meets its input again
CPU_CACHE_BYTES = 32 * 2**20
MOST_COPIES = 64
PIECE = 2**24  # random numbers that are drawn; larger tensors repeat them


class Pool:
    """Random numbers on a device; zeros would draw less power and run faster.

    They are bf16 on a GPU, and float32 on a CPU, which computes bf16 very slowly.

    Parameters
    ----------
    device : cuda or cpu.
    most_bytes : how large the pool may grow.
    """

    def __init__(self, device: str, most_bytes: int):
        self.torch = torch_module()
        self.device, self.most_bytes = device, most_bytes
        if device == "cuda":
            self.dtype, self.width = self.torch.bfloat16, 2
            self.cache_bytes = int(self.torch.cuda.get_device_properties(0).L2_cache_size)
        else:
            self.dtype, self.width = self.torch.float32, 4
            self.cache_bytes = CPU_CACHE_BYTES
        self.numbers = self.random(self.cache_bytes * COLD_CACHES // self.width)

    def random(self, *shape: int) -> Any:
        """A new tensor, normally distributed."""
        torch = self.torch
        numbers = torch.empty(shape, dtype=self.dtype, device=self.device)
        flat = numbers.view(-1)
        piece = torch.randn(min(len(flat), PIECE), device=self.device).to(self.dtype)
        for start in range(0, len(flat), PIECE):
            end = min(start + PIECE, len(flat))
            flat[start:end] = piece[: end - start]
        return numbers

    def parts(self, *shape: int) -> list[Any]:
        """Tensors of this shape in different places of the pool.

        As many as it takes for none to be in the cache when its turn comes again.
        """
        elements = math.prod(shape)
        wanted = -(-COLD_CACHES * self.cache_bytes // (self.width * elements))
        room = self.most_bytes // (self.width * elements)
        copies = max(1, min(wanted, room, MOST_COPIES))
        if copies * elements > len(self.numbers):
            self.numbers = None  # before the larger one is made
            self.numbers = self.random(copies * elements)
        return [self.numbers[i * elements : (i + 1) * elements].view(*shape) for i in range(copies)]
