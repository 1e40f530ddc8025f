"""How many requests and tokens a step may hold, as the engine decides it at its start."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.catalog import EngineDefaults, Gpu
from simulator.errors import InputError
from simulator.scenario.scheduler import SchedulerSpec

# Policies that compute a prompt in one step, so that the budget must hold the longest.
WHOLE_PROMPTS = ("continuous", "orca")


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """Limits of a step; the token budget may have to follow max_model_len.

    Attributes
    ----------
    max_num_seqs : requests running at once.
    max_num_batched_tokens : budget before max_model_len is known.
    whole_prompts : the budget is raised to max_model_len.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    whole_prompts: bool

    def tokens_for(self, max_model_len: int) -> int:
        """max_num_batched_tokens of an engine with this max_model_len."""
        if self.whole_prompts:
            return max(self.max_num_batched_tokens, max_model_len)
        return self.max_num_batched_tokens


def fill_batch_limits(
    spec: SchedulerSpec, defaults: EngineDefaults, gpu: Gpu, notes: list[str]
) -> BatchLimits:
    """Limits of a step, defaults taken from the engine release where the scenario has none.

    Raises
    ------
    InputError
        More requests than tokens: not even their decodes would fit in a step.
    """
    origin = f"the default of {defaults.engine} {defaults.version} on {gpu.name}"
    tokens, seqs = spec.max_num_batched_tokens, spec.max_num_seqs
    if tokens is None:
        tokens = defaults.max_num_batched_tokens
        notes.append(f"scheduler.max_num_batched_tokens: {tokens}, {origin}")
    if spec.policy == "static":
        return BatchLimits(
            max_num_seqs=_static_seqs(spec), max_num_batched_tokens=tokens, whole_prompts=False
        )
    chunks_alone = spec.policy == "sglang"  # its decodes have no budget
    if seqs is None:
        seqs = defaults.max_num_seqs if chunks_alone else min(defaults.max_num_seqs, tokens)
        limited = seqs < defaults.max_num_seqs
        notes.append(
            f"scheduler.max_num_seqs: {seqs}, "
            + ("lowered to max_num_batched_tokens" if limited else origin)
        )
    if tokens < seqs and not chunks_alone:
        raise InputError(
            f"scheduler.max_num_batched_tokens is {tokens}, less than scheduler.max_num_seqs "
            f"{seqs}: the decodes of a full batch would not fit in a step; raise the one or lower "
            "the other"
        )
    whole = spec.policy in WHOLE_PROMPTS
    unchunked = spec.policy == "chunked_prefill" and not spec.enable_chunked_prefill
    return BatchLimits(
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        whole_prompts=whole or (unchunked and spec.max_num_batched_tokens is None),
    )


def _static_seqs(spec: SchedulerSpec) -> int:
    batch_size = spec.static.batch_size
    if spec.max_num_seqs is not None and spec.max_num_seqs < batch_size:
        raise InputError(
            f"scheduler.static.batch_size is {batch_size}, more than scheduler.max_num_seqs "
            f"{spec.max_num_seqs}; raise the one or lower the other"
        )
    return spec.max_num_seqs or batch_size
