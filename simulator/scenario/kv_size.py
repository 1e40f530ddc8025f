"""KV cache of a replica: the blocks that fit, and the longest request that fits in them."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.catalog import EngineDefaults, Gpu, Model
from cost_models.memory import MemoryBudget, kv_budget
from cost_models.pipeline import stage_models
from simulator.errors import InputError
from simulator.kv_cache import buddy
from simulator.scenario.batch_limits import BatchLimits
from simulator.scenario.scenario import Scenario

# SGLang admits what is, with a page to spare, less than the free pages.
SGLANG_SPARE_PAGES = 2


@dataclass(frozen=True, kw_only=True)
class KvSize:
    """What `size_kv_cache` decides; `memory` is None where the scenario gives the blocks."""

    num_gpu_blocks: int
    block_size: int
    max_model_len: int
    gpu_memory_utilization: float
    memory: MemoryBudget | None


@dataclass(frozen=True, kw_only=True)
class _Replica:
    """What the size of a KV cache depends on."""

    scenario: Scenario
    model: Model
    gpu: Gpu
    defaults: EngineDefaults
    limits: BatchLimits
    block_size: int
    gpu_memory_utilization: float

    def memory(self, max_model_len: int) -> MemoryBudget | None:
        """The memory sum for a `max_model_len`; None where the scenario gives the blocks."""
        kv_cache = self.scenario.kv_cache
        if kv_cache.num_gpu_blocks is not None:
            return None
        lora = self.scenario.scheduler.lora
        return kv_budget(
            self.model,
            self.gpu,
            split=self.scenario.cluster.split,
            gpu_memory_utilization=self.gpu_memory_utilization,
            max_num_batched_tokens=self.limits.tokens_for(max_model_len),
            max_num_seqs=self.limits.max_num_seqs,
            block_size=self.block_size,
            defaults=self.defaults,
            max_loras=0 if lora is None else lora.max_loras,
            max_lora_rank=0 if lora is None else lora.max_lora_rank,
        )

    def fitting_tokens(self, memory: MemoryBudget | None) -> int:
        """Tokens of the longest request that the pool holds alone."""
        kv_cache = self.scenario.kv_cache
        blocks = memory.num_gpu_blocks if memory else kv_cache.num_gpu_blocks
        assert blocks is not None
        usable = blocks - 1 if kv_cache.allocator == "paged" else blocks
        if kv_cache.allocator == "buddy":
            usable = buddy.largest(usable)
        if self.scenario.scheduler.policy == "sglang":
            usable -= SGLANG_SPARE_PAGES
        return usable * self.block_size

    def fits(self, max_model_len: int) -> bool:
        """Whether an engine with this `max_model_len` starts."""
        try:
            return self.fitting_tokens(self.memory(max_model_len)) >= max_model_len
        except InputError:
            return False


def size_kv_cache(
    scenario: Scenario,
    model: Model,
    gpu: Gpu,
    defaults: EngineDefaults,
    limits: BatchLimits,
    notes: list[str],
) -> KvSize:
    """Blocks of the KV cache and max_model_len, as the engine finds them at its start.

    An engine refuses to start unless one request of max_model_len fits in its pool.  With
    max_model_len null we lower it to what fits, which the engine leaves to its operator.

    Raises
    ------
    InputError
        The model, or a request of the given max_model_len, does not fit.
    """
    kv_cache = scenario.kv_cache
    utilization = kv_cache.gpu_memory_utilization or defaults.gpu_memory_utilization
    block_size = kv_cache.block_size
    assert block_size is not None  # filled already
    replica = _Replica(
        scenario=scenario,
        model=model,
        gpu=gpu,
        defaults=defaults,
        limits=limits,
        block_size=block_size,
        gpu_memory_utilization=utilization,
    )
    if kv_cache.num_gpu_blocks is not None:
        _check_given_blocks(replica, kv_cache.num_gpu_blocks)
    elif kv_cache.gpu_memory_utilization is None:
        origin = f"{defaults.engine} {defaults.version}"
        notes.append(f"kv_cache.gpu_memory_utilization: {utilization:g}, the default of {origin}")
    length = _max_model_len(replica, notes)
    _check_unchunked(replica, length)
    _check_pages(replica)
    memory = replica.memory(length)
    if limits.tokens_for(length) > limits.max_num_batched_tokens:
        notes.append(
            f"scheduler.max_num_batched_tokens: raised to max_model_len, {length}, since "
            f"{scenario.scheduler.policy} computes prompts whole"
        )
    if memory is not None:
        notes.append(f"kv_cache.num_gpu_blocks: {memory.num_gpu_blocks}, from the memory sum")
    blocks = memory.num_gpu_blocks if memory else kv_cache.num_gpu_blocks
    assert blocks is not None
    return KvSize(
        num_gpu_blocks=blocks,
        block_size=block_size,
        max_model_len=length,
        gpu_memory_utilization=utilization,
        memory=memory,
    )


def _max_model_len(replica: _Replica, notes: list[str]) -> int:
    """max_model_len as given, if it fits; else the model's limit or what fits of it."""
    given, limit = replica.scenario.kv_cache.max_model_len, replica.model.max_position_embeddings
    if given is not None:
        if given > limit:
            raise InputError(
                f"kv_cache.max_model_len is {given}; {replica.model.name} has "
                f"{limit} positions, so give at most {limit}"
            )
        if not replica.fits(given):
            raise _too_long(replica, given)
        return given
    if replica.fits(limit):
        notes.append(f"kv_cache.max_model_len: {limit}, the limit of {replica.model.name}")
        return limit
    length = _longest_that_fits(replica, limit)
    notes.append(
        f"kv_cache.max_model_len: {length}, what fits of the {limit} of {replica.model.name}"
    )
    return length


def _longest_that_fits(replica: _Replica, limit: int) -> int:
    """Largest max_model_len, a multiple of the block size, with which the engine starts.

    Found by bisection: for a policy that computes prompts whole, a longer max_model_len
    also takes memory away from the pool.
    """
    block_size = replica.block_size
    low, high = 0, limit // block_size + 1  # in blocks: low fits (0: unknown), high does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if replica.fits(middle * block_size) else (low, middle)
    if low == 0:
        # Not even one block: the memory sum says why.
        replica.memory(block_size)
        raise _too_long(replica, block_size)
    return low * block_size


def _too_long(replica: _Replica, length: int) -> InputError:
    memory = replica.memory(length)  # raises with the sum where the model itself does not fit
    fitting = replica.fitting_tokens(memory)
    remedy = (
        "a larger num_gpu_blocks"
        if memory is None
        else (
            "more tensor_parallel, a higher gpu_memory_utilization or fewer max_num_batched_tokens"
        )
    )
    return InputError(
        f"kv_cache.max_model_len is {length}, but the KV cache of a replica holds "
        f"{fitting} tokens; lower max_model_len to {fitting}, or give {remedy}"
    )


def _check_given_blocks(replica: _Replica, num_gpu_blocks: int) -> None:
    """Refuse blocks that the GPU has no room for; the linear cost model needs no GPU."""
    if replica.scenario.cost_model.kind == "linear":
        return
    split, block_size = replica.scenario.cluster.split, replica.block_size
    for stage in stage_models(replica.model, split.pp):
        block_bytes = block_size * stage.kv_bytes_per_token(split.tp)
        room = replica.gpu.memory_bytes - split.weight_bytes(stage)
        if num_gpu_blocks * block_bytes > room:
            raise InputError(
                f"kv_cache.num_gpu_blocks is {num_gpu_blocks}, but beside the weights of "
                f"{replica.model.name} a {replica.gpu.name} with {split} has room for "
                f"at most {max(0, room // block_bytes)} blocks of {block_size} tokens"
            )


def _check_unchunked(replica: _Replica, max_model_len: int) -> None:
    """Without chunking, a prompt longer than the budget could never be computed."""
    spec = replica.scenario.scheduler
    tokens = replica.limits.tokens_for(max_model_len)
    unchunked = spec.policy == "chunked_prefill" and not spec.enable_chunked_prefill
    if unchunked and tokens < max_model_len:
        raise InputError(
            f"scheduler.max_num_batched_tokens is {tokens}, less than max_model_len "
            f"{max_model_len}, and scheduler.enable_chunked_prefill is false: a longer prompt "
            "could never be computed; raise the budget, lower kv_cache.max_model_len, or leave "
            "chunking on"
        )


def _check_pages(replica: _Replica) -> None:
    """The chunks of SGLang are whole pages, but for a prompt's last."""
    tokens = replica.limits.max_num_batched_tokens
    if replica.scenario.scheduler.policy == "sglang" and tokens < replica.block_size:
        raise InputError(
            f"scheduler.max_num_batched_tokens is {tokens}, less than a page of "
            f"kv_cache.block_size {replica.block_size} tokens, of which sglang's chunks are made; "
            "raise the one or lower the other"
        )
