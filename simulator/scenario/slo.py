"""Service level objectives: limits of statistics, and limits that each request must meet."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from pydantic import ConfigDict, RootModel, model_validator
from pydantic_core import PydanticCustomError

from simulator.scenario.base import Positive

METRICS = ("ttft", "tpot", "itl", "e2el", "queue")
GOODPUT_KEYS = ("ttft_ms", "tpot_ms", "e2el_ms")
_STATISTICS = ("p50", "p90", "p95", "p99", "mean")
_PATTERN = rf"(?:p(\d+(?:\.\d+)?)|mean)_({'|'.join(METRICS)})_ms"


class SloTarget(NamedTuple):
    """A limit on a statistic over requests, such as ``p99_ttft_ms: 500``."""

    key: str
    metric: str  # one of METRICS
    percentile: float | None  # 0 < percentile < 100; None: the mean
    limit_ms: float


class GoodputThreshold(NamedTuple):
    """A limit that a request must meet to count as good, such as ``ttft_ms: 500``."""

    key: str
    metric: str
    limit_ms: float


def _parse_target(key: str, limit_ms: float) -> SloTarget | None:
    match = re.fullmatch(_PATTERN, key)
    if match is None:
        return None
    percentile = match[1]
    value = float(percentile) if percentile is not None else None
    if value is not None and not 0 < value < 100:
        return None
    return SloTarget(key, match[2], value, limit_ms)


class SloSpec(RootModel[dict[str, Positive]]):
    """Limits in milliseconds, by key: ``p99_ttft_ms``, ``mean_itl_ms``, ... or ``ttft_ms``."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        strict=True,
        json_schema_extra={
            "propertyNames": {"anyOf": [{"pattern": f"^{_PATTERN}$"}, {"enum": [*GOODPUT_KEYS]}]}
        },
    )

    root: dict[str, Positive] = {}

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        for key in data:
            if key not in GOODPUT_KEYS and _parse_target(str(key), 0.0) is None:
                names = [f"{s}_{m}_ms" for m in METRICS for s in _STATISTICS] + list(GOODPUT_KEYS)
                near = difflib.get_close_matches(str(key), names, 1)
                raise PydanticCustomError(
                    "unknown_key",
                    "unknown key",
                    {
                        "key": str(key),
                        "near": near,
                        "allowed": ["p99_ttft_ms", "mean_itl_ms", "...", *GOODPUT_KEYS],
                    },
                )
        return {key: limit for key, limit in data.items() if limit is not None}

    @property
    def targets(self) -> tuple[SloTarget, ...]:
        """Limits on percentiles and means, in the order of the file."""
        parsed = (_parse_target(key, limit) for key, limit in self.root.items())
        return tuple(target for target in parsed if target is not None)

    @property
    def goodput(self) -> tuple[GoodputThreshold, ...]:
        """Limits for each request, in the order of the file."""
        return tuple(
            GoodputThreshold(key, key.removesuffix("_ms"), limit)
            for key, limit in self.root.items()
            if key in GOODPUT_KEYS
        )

    @property
    def ttft_limit_ms(self) -> float | None:
        """When a first token is due: the tightest limit on TTFT, of requests or of a percentile."""
        limits = [threshold.limit_ms for threshold in self.goodput if threshold.metric == "ttft"]
        limits += [
            target.limit_ms
            for target in self.targets
            if target.metric == "ttft" and target.percentile is not None
        ]
        return min(limits, default=None)

    def __bool__(self) -> bool:
        return bool(self.root)
