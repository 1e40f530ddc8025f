"""What is simulated: one validated, frozen description with a hash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from simulator.errors import InputError
from simulator.scenario.base import NonNegative, NonNegativeCount, Section
from simulator.scenario.builtin import builtin_scenarios, find_scenario
from simulator.scenario.cluster import ClusterSpec, ModelSpec
from simulator.scenario.combinations import check_combinations
from simulator.scenario.cost_model import CalibratedCost, CostModelSpec
from simulator.scenario.errors import first_problem, show
from simulator.scenario.hashing import hash_of
from simulator.scenario.kv_cache import KvCacheSpec
from simulator.scenario.overrides import Override, apply_overrides, parse_override
from simulator.scenario.overrides import Path as KeyPath
from simulator.scenario.scheduler import SchedulerSpec
from simulator.scenario.slo import SloSpec
from simulator.scenario.source import line_of, plain, read_mapping
from simulator.scenario.unsupported import first_unsupported
from simulator.scenario.workload import WorkloadSpec


def _model_by_name(value: Any) -> Any:
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, Mapping):
        raise ValueError(
            f"model is {show(value)}; it must be a catalogue name such as llama-3.1-8b, the path "
            "of a Hugging Face config.json, or a mapping with name, weight_dtype and kv_dtype"
        )
    return value


def _warm_up(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value != "auto" and not (number and 0 <= value <= 1e15):
        raise ValueError(
            f"warmup_s is {show(value)}; it must be a finite number of at least 0, or auto"
        )
    return value


def _place(key: KeyPath, overrides: Sequence[Override], path: Path | None, text: str) -> str:
    """Where a wrong key was given, as the start of a sentence about it."""
    for other in reversed(overrides):  # the last one stands
        shorter = min(len(other.path), len(key))
        if other.path[:shorter] == key[:shorter]:
            return f"{other.option}: "
    if path is None:
        return ""
    line = line_of(text, key)
    return f"{path} line {line}: " if line else f"{path}: "


class Scenario(Section):
    """A workload, a model, the machines and rules that serve it, and what is asked of them.

    Make one with `from_yaml` or `from_mapping`; both raise `InputError` with one sentence
    for anything that is not a scenario.  Sections are attributes named as in the file.
    """

    name: Annotated[str, Field(min_length=1)] = "scenario"
    workload: WorkloadSpec
    """what arrives"""
    model: Annotated[ModelSpec, BeforeValidator(_model_by_name)]
    """what is served: a catalogue name or the path of a Hugging Face config.json"""
    cluster: ClusterSpec = ClusterSpec()
    scheduler: SchedulerSpec = SchedulerSpec()
    kv_cache: KvCacheSpec = KvCacheSpec()
    cost_model: CostModelSpec = CalibratedCost()
    slo: SloSpec = SloSpec()
    warmup_s: Annotated[NonNegative | Literal["auto"], BeforeValidator(_warm_up)] = 0.0
    """requests that arrive earlier are left out of the metrics; auto: found from the latencies"""
    seed: NonNegativeCount = 0

    @model_validator(mode="before")
    @classmethod
    def _empty_sections(cls, data: Any) -> Any:
        """A section whose lines are all commented out is its defaults."""
        if not isinstance(data, Mapping):
            return data
        optional = ("cluster", "scheduler", "kv_cache", "cost_model", "slo")
        return {k: v for k, v in data.items() if v is not None or k not in optional}

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        check_combinations(self)
        return self

    _given: dict[str, Any] = PrivateAttr(default_factory=dict)
    _base_dir: Path = PrivateAttr(default=Path())

    @property
    def cut_s(self) -> float:
        """`warmup_s` as a number: 0 as long as it is still to be found, from a run."""
        return 0.0 if self.warmup_s == "auto" else self.warmup_s

    @property
    def base_dir(self) -> Path:
        """Folder to which relative paths of the scenario refer."""
        return self._base_dir

    @classmethod
    def from_yaml(cls, source: str | Path, overrides: Iterable[str | Override] = ()) -> Self:
        """Scenario of a YAML file, or of a built-in name.

        Parameters
        ----------
        source : path of a file, or a name that ``servecast list scenarios`` prints.
        overrides : ``"a.b=value"`` each, applied in order; values are read as YAML.

        Raises
        ------
        InputError
            No such file, not YAML, or not a valid scenario.
        """
        path = find_scenario(source)
        data, text = read_mapping(path)
        data.setdefault("name", path.stem)
        parsed = [parse_override(item) for item in overrides]
        # A built-in scenario names no files; those of the overrides are where the user is.
        builtin = path in builtin_scenarios().values()
        return cls._build(data, Path() if builtin else path.parent, parsed, path, text)

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any], base_dir: str | Path = ".") -> Self:
        """Scenario of a mapping with the keys of the YAML file.

        `base_dir` is the folder to which relative paths refer.
        """
        return cls._build(plain(data, "scenario"), Path(base_dir))

    def with_overrides(self, overrides: Iterable[str | Override]) -> Self:
        """Copy with keys changed: ``scenario.with_overrides(["cluster.replicas=2"])``."""
        parsed = [parse_override(item) for item in overrides]
        return self._build(self._given, self._base_dir, parsed)

    def moved_to(self, base_dir: Path) -> Self:
        """The same with its files in another folder."""
        return self._build(self._given, base_dir)

    @classmethod
    def _build(
        cls,
        data: dict[str, Any],
        base_dir: Path,
        overrides: Sequence[Override] = (),
        path: Path | None = None,
        text: str = "",
    ) -> Self:
        given = apply_overrides(data, overrides)
        checked = plain(given, "scenario")
        problem = first_unsupported(checked)
        if problem is None:
            try:
                scenario = cls.model_validate(checked)
            except ValidationError as error:
                problem = first_problem(error)
        if problem is not None:
            key_path, sentence = problem
            where = _place(key_path, overrides, path, text)
            raise InputError(where + sentence)
        scenario._given = given
        scenario._base_dir = base_dir
        return scenario

    @model_serializer(mode="wrap")
    def _short_model(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        model = data.get("model")
        if isinstance(model, dict) and all(v is None for k, v in model.items() if k != "name"):
            data["model"] = model["name"]
        return data

    def to_mapping(self) -> dict[str, Any]:
        """Every key that has a value, as plain types; `from_mapping` takes it back."""
        data: dict[str, Any] = self.model_dump(mode="json", exclude_none=True)
        return data

    def to_yaml(self) -> str:
        """YAML of every key that has a value; `from_yaml` reads it back.

        Relative paths stay as they are: keep the file in the same folder.
        """
        return yaml.safe_dump(self.to_mapping(), sort_keys=False, allow_unicode=True)

    def hash(self) -> str:
        """SHA-256 of all that results depend on, but the replicate number.

        The name does not count; files count by what is in them, not by their path.
        """
        return hash_of(self.to_mapping(), self._base_dir)
