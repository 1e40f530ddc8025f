"""What vLLM's scheduler did otherwise in earlier releases.

Read in vllm/v1/core/sched/scheduler.py and block_pool.py of these releases, and observed by
running them; releases between them were not told apart.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Rules that changed between releases; the defaults are those of 0.33.

    Attributes
    ----------
    cap_alone : long_prefill_token_threshold holds for a request that is alone too.
    self_preemption_ends_scan : with an order by priority, nobody behind a running request
        that preempts itself is scheduled in that step; else the scan goes on.
    unhashed_last : blocks without a hash are released to the end of the free list, like
        cached ones, so that they push these out; else to the front.
    skips_unchunkable : without chunking, a prompt over what is left of the budget lets
        those behind it pass; those skipped return to the front in reverse order.  Else it
        stops admission.
    has_watermark, has_full_isl_check : the release has these options.
    """

    cap_alone: bool = False
    self_preemption_ends_scan: bool = False
    unhashed_last: bool = False
    skips_unchunkable: bool = False
    has_watermark: bool = True
    has_full_isl_check: bool = True

    def limits(self) -> dict[str, float]:
        """The rules that the engine is told, as fields of `simulator.engine.state.LIMITS`."""
        return {k: v for k, v in asdict(self).items() if not k.startswith("has_")}


NEWEST = "0.33.0"
RULES = {
    NEWEST: Rules(),
    "0.20.0": Rules(
        cap_alone=True, self_preemption_ends_scan=True, unhashed_last=True, has_watermark=False
    ),
    "0.11.2": Rules(
        cap_alone=True,
        self_preemption_ends_scan=True,
        unhashed_last=True,
        skips_unchunkable=True,
        has_watermark=False,
        has_full_isl_check=False,
    ),
}
