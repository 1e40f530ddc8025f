"""Where requests come from: a recorded trace, or arrivals and lengths drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from simulator.scenario.arrivals import ArrivalsSpec
from simulator.scenario.base import Count, NonNegative, NonNegativeCount, Positive, Section, Share
from simulator.scenario.classes import ClassSpec, check_classes
from simulator.scenario.lengths import LengthsSpec
from simulator.scenario.lora import AdaptersSpec
from simulator.scenario.sessions import SessionsSpec

DEFAULT_NUM_REQUESTS = 10_000


class TraceSpec(Section):
    """A recorded trace, or a window of one."""

    path: Annotated[str, Field(min_length=1)]
    """trace file, or folder of ServeGen's clients, relative to the scenario file"""
    format: str = "auto"
    """auto: told by the columns; or the name of a format"""
    rate_scale: Positive = 1.0
    """2.0 replays twice as fast"""
    limit: Count | None = None
    """only the first N requests (of the window)"""
    skip_s: NonNegative = 0.0
    """start this many seconds into the trace"""
    duration_s: Positive | None = None
    """take this many seconds of the trace"""
    keep_share: Share | None = None
    """keep this share of the requests (or sessions), chosen at random"""
    copies: Count = 1
    """superimpose so many copies, each shifted in time by chance"""
    jitter_s: NonNegative = 0.0
    """spread arrivals over so many seconds, the recording's bin: 3 for Mooncake, 1 for BurstGPT"""
    on_bad_row: Literal["error", "skip"] = "error"
    """skip: leave bad rows out, count and report them"""
    class_column: str | None = None
    """column that names the class of each request"""
    columns: dict[str, str] | None = None
    """for a file of any columns: {arrival_s: its name there, prompt_tokens: ..., ...}"""
    time_unit: Literal["s", "ms", "us", "ns", "date"] = "s"
    """unit of the times of such a file"""
    turns: Literal["wait", "as_recorded"] = "wait"
    """turns of sessions: wait for the turn before to end, and think; or arrive at recorded times"""
    block_tokens: Count | None = None
    """prompt tokens that a block id (hash_ids) stands for; null: as the format has it"""


class LognormalError(Section):
    """A predictor that multiplies the true output length by lognormal noise."""

    lognormal_error: NonNegative
    """sigma of the logarithm of the noise; 0 predicts exactly"""


def _predictor_kind(value: Any) -> str:
    is_noisy = isinstance(value, Mapping | LognormalError)
    return LognormalError.__name__ if is_noisy else str(value)


PredictorSpec = Annotated[
    Annotated[Literal["oracle"], Tag("oracle")]
    | Annotated[Literal["class_mean"], Tag("class_mean")]
    | Annotated[LognormalError, Tag(LognormalError.__name__)],
    Discriminator(_predictor_kind),
]


class WorkloadSpec(Section):
    """A trace, or arrivals and lengths; and what clients declare and limit."""

    trace: TraceSpec | None = None
    arrivals: ArrivalsSpec | None = None
    lengths: LengthsSpec | None = None
    sessions: SessionsSpec | None = None
    """conversations of several turns: arrivals start sessions, lengths are those of each turn's
    new text"""
    num_requests: Count | None = None
    """requests of a statistical workload; 10,000 if duration_s is not given either"""
    duration_s: Positive | None = None
    """arrivals stop then"""
    horizon_s: Positive | None = None
    """the clock stops then; what has not finished is counted as unfinished"""
    prompt_tokens_scale: Positive = 1.0
    """1.5 makes every prompt half as long again"""
    output_tokens_scale: Positive = 1.0
    """1.5 makes every output half as long again: what if answers are longer than planned for"""
    max_prompt_tokens: Count | None = None
    """longer prompts are cut to this (counted and reported); null: none is"""
    max_output_tokens: Count | None = None
    """longer outputs are cut to this; null: none is"""
    on_too_long: Literal["reject", "truncate"] = "reject"
    """prompt + output > max_model_len: as the engine does, or cut to what fits"""
    max_tokens: Count | None = None
    """output limit that clients declare; null: max_model_len - prompt"""
    max_concurrency: Count | None = None
    """client-side limit on requests in flight"""
    shared_prefix_tokens: NonNegativeCount | None = None
    """leading tokens of each prompt that all prompts have in common: a system prompt"""
    predictor: PredictorSpec | None = None
    """predicts output lengths, for scheduler.order: sjf and srpt"""
    adapters: AdaptersSpec | None = None
    """LoRA adapters that requests ask for, with scheduler.lora"""
    classes: Annotated[tuple[ClassSpec, ...], Field(strict=False)] = ()

    @model_validator(mode="before")
    @classmethod
    def _default_count(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        if all(data.get(key) is None for key in ("trace", "num_requests", "duration_s")):
            return {**data, "num_requests": DEFAULT_NUM_REQUESTS}
        return data

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if self.trace is not None:
            self._check_trace_alone()
        else:
            self._check_statistical()
        self._check_seats()
        check_classes(
            self.classes,
            shared_arrivals=self.arrivals is not None,
            traced=self.trace is not None,
            told_by_column=self.trace is not None and self.trace.class_column is not None,
        )
        return self

    def _check_trace_alone(self) -> None:
        assert self.trace is not None
        if self.arrivals is not None and self.lengths is not None:
            raise ValueError(
                "workload.arrivals and workload.trace exclude each other where workload.lengths "
                "is given too, since nothing of the trace would be left; remove one of the three"
            )
        if self.arrivals is not None and self.trace.rate_scale != 1.0:
            raise ValueError(
                f"workload.trace.rate_scale is {self.trace.rate_scale:g}, but workload.arrivals "
                "take the place of the trace's; change their rate instead"
            )
        remedies = {
            "num_requests": "use workload.trace.limit",
            "duration_s": "use workload.trace.duration_s",
            "sessions": "a trace of sessions brings its own",
        }
        for key, remedy in remedies.items():
            if getattr(self, key) is not None:
                raise ValueError(
                    f"workload.{key} and workload.trace exclude each other: {remedy}; "
                    f"remove one of the two"
                )

    def _check_statistical(self) -> None:
        own_arrivals = bool(self.classes) and all(c.arrivals is not None for c in self.classes)
        own_lengths = bool(self.classes) and all(c.lengths is not None for c in self.classes)
        if self.arrivals is None and not own_arrivals:
            raise ValueError("workload needs a trace, or arrivals and lengths; arrivals is missing")
        if self.lengths is None and not own_lengths:
            raise ValueError(
                "workload.lengths is missing; give it, or a workload.trace, which brings its own"
            )
        if (
            self.arrivals is not None
            and self.arrivals.process in ("burst", "closed_loop")
            and self.duration_s is not None
        ):
            raise ValueError(
                f"workload.duration_s is {self.duration_s:g}, but {self.arrivals.process} arrivals "
                "do not end with time; give workload.num_requests, or workload.horizon_s to stop "
                "the clock"
            )

    def _check_seats(self) -> None:
        closed = self.arrivals is not None and self.arrivals.process == "closed_loop"
        if closed and self.max_concurrency is not None:
            raise ValueError(
                f"workload.max_concurrency is {self.max_concurrency}, but closed_loop arrivals "
                "have their own limit, workload.arrivals.concurrency; remove one of the two"
            )
