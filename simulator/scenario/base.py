"""What all sections of a scenario share: strict, frozen, and clear about keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError, PydanticKnownError

# Beyond these nothing is a plan, and sums of integers or what is divided by them could overflow.
LARGEST_COUNT = 1_000_000_000
LARGEST_NUMBER = 1e15
SMALLEST_NUMBER = 1e-15  # above 0
MOST_HOST_GIB = 16_384.0  # of host memory per GPU: its blocks have a table
Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]
NonNegativeCount = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]


def _no_less_than_smallest(value: float) -> float:
    if value < SMALLEST_NUMBER:
        raise PydanticKnownError("greater_than_equal", {"ge": SMALLEST_NUMBER})
    return value


Positive = Annotated[float, Field(gt=0, le=LARGEST_NUMBER), AfterValidator(_no_less_than_smallest)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST_NUMBER)]
Share = Annotated[float, Field(gt=0, le=1)]


class Section(BaseModel):
    """A mapping of the scenario file.

    Strict: ``"8"`` is no number and ``true`` no count.  Unknown and missing keys are
    looked for here rather than left to pydantic, so that the error can list the keys
    that this section does have.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        allowed = list(cls.model_fields)
        for key in data:
            if key not in cls.model_fields:
                raise PydanticCustomError(
                    "unknown_key", "unknown key", {"key": str(key), "allowed": allowed}
                )
        for key, field in cls.model_fields.items():
            if field.is_required() and key not in data:
                raise PydanticCustomError(
                    "missing_key", "missing key", {"key": key, "about": field.description or ""}
                )
        return data
