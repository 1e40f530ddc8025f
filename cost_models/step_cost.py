"""`StepCost`: the price of one engine step, whichever model of cost stands behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models import kernel
from cost_models.errors import InputError
from cost_models.kernel import CostTables

if TYPE_CHECKING:
    from cost_models.calibration import Calibration
    from cost_models.catalog import Gpu, Model
    from cost_models.parallelism import Parallelism


class Batch(NamedTuple):
    """The aggregates of one step: all that its price depends on.

    The fields are `kernel.step_time`'s arguments, in its order.
    """

    tokens: int
    decode_seqs: int
    decode_context: int
    max_context: int
    prefill_seqs: int
    prefill_tokens: int
    prefill_area: float
    prefill_kv: int
    scheduled_seqs: int

    @classmethod
    def of(
        cls,
        decode_contexts: Sequence[int] = (),
        prefills: Sequence[tuple[int, int]] = (),
    ) -> Batch:
        """Sum up a step given sequence by sequence.

        Parameters
        ----------
        decode_contexts : context of each decoding sequence, its new token included (≥ 1).
        prefills : (chunk, past) of each prompt: tokens computed now (≥ 1) and before (≥ 0).

        Raises
        ------
        InputError : for a context or chunk below 1, or a past below 0.
        """
        contexts = [int(context) for context in decode_contexts]
        chunks = [(int(chunk), int(past)) for chunk, past in prefills]
        for context in contexts:
            if context < 1:
                raise InputError(
                    f"decode context {context}: a context counts the new token, so it is 1 or more."
                )
        for chunk, past in chunks:
            if chunk < 1 or past < 0:
                raise InputError(
                    f"prefill (chunk {chunk}, past {past}): a chunk is 1 token or more and its "
                    "past 0 or more."
                )
        prefill_tokens = sum(chunk for chunk, _ in chunks)
        return cls(
            tokens=len(contexts) + prefill_tokens,
            decode_seqs=len(contexts),
            decode_context=sum(contexts),
            max_context=max(contexts, default=0),
            prefill_seqs=len(chunks),
            prefill_tokens=prefill_tokens,
            prefill_area=float(sum(chunk * (past + chunk / 2) for chunk, past in chunks)),
            prefill_kv=sum(past + chunk for chunk, past in chunks),
            scheduled_seqs=len(contexts) + len(chunks),
        )


class Frontend(NamedTuple):
    """The API server in front of an engine.

    Attributes
    ----------
    wait_s : of a request, however many there are.
    busy_s_per_token : of a prompt, while the prompts after it wait.
    """

    wait_s: float = 0.0
    busy_s_per_token: float = 0.0

    def alone_s(self, prompt_tokens: ArrayLike) -> NDArray[np.float64]:
        """Seconds of requests that wait for no other."""
        tokens = np.asarray(prompt_tokens, dtype=np.float64)
        seconds: NDArray[np.float64] = self.wait_s + tokens * self.busy_s_per_token
        return seconds


NO_FRONTEND = Frontend()


@dataclass(frozen=True)
class OpTime:
    """One operation of a step, summed over the layers, on one GPU.

    Attributes
    ----------
    name : the operation's usual name.
    seconds : its share of the step's GPU time.
    flops, bytes : what it computes and what it must read and write; None if not modelled.
    source : where the number comes from.
    """

    name: str
    seconds: float
    flops: float | None = None
    bytes: float | None = None
    source: str = ""


@dataclass(frozen=True)
class StepTime:
    """The price of one step, in seconds; `ops` add up to `gpu_s`."""

    gpu_s: float
    host_s: float
    total_s: float
    ops: tuple[OpTime, ...]


class CostForm(Protocol):
    """What a model of cost gives to `StepCost`."""

    @property
    def provenance(self) -> str:
        """Where the numbers come from and their measured error, in a line or two."""

    def tables(self, max_tokens: int, max_seqs: int) -> CostTables:
        """Tables that hold every step of up to `max_tokens` tokens and `max_seqs` sequences."""

    def ops(self, batch: Batch) -> tuple[OpTime, ...]:
        """The step, operation by operation."""


@runtime_checkable
class ApartForm(Protocol):
    """A model of cost that tells apart what engines that share experts do for themselves."""

    def apart(
        self, max_tokens: int, max_seqs: int
    ) -> tuple[CostTables, NDArray[np.float64], NDArray[np.float64]]:
        """As `RooflineForm.apart` does."""


class StepCost:
    """Seconds of one engine step.

    Made by `StepCost.linear` or `StepCost.load`; asked in Python through `step`, or in
    compiled loops by handing `tables(...)` to `cost_models.kernel.step_time`.

    Attributes
    ----------
    form : the model of cost behind it.
    frontend : what a request passes before it is in the engine's queue.
    """

    def __init__(self, form: CostForm, frontend: Frontend = NO_FRONTEND):
        self.form = form
        self.frontend = frontend

    @classmethod
    def linear(cls, t_mem_s: float, t_flop_s_per_token: float, t_seq_s: float = 0.0) -> StepCost:
        """Price a step as ``t_mem_s + tokens·t_flop_s_per_token + sequences·t_seq_s``.

        Parameters
        ----------
        t_mem_s : seconds per step, whatever it holds: weights / memory bandwidth.
        t_flop_s_per_token : seconds per token: 2 · parameters / FLOP/s.
        t_seq_s : seconds per scheduled sequence.
        """
        from cost_models.linear import LinearForm

        return cls(LinearForm(t_mem_s, t_flop_s_per_token, t_seq_s))

    @classmethod
    def table(
        cls, path: str | Path, allow_extrapolation: bool = False, max_context: int | None = None
    ) -> StepCost:
        """Step times of a CSV file, see `cost_models.step_table`.

        Raises
        ------
        InputError : for a file that is no such table, or whose rows end too early.
        """
        from cost_models.step_table import StepTableForm

        return cls(StepTableForm(Path(path), allow_extrapolation, max_context))

    @classmethod
    def load(
        cls,
        model: str | Path | Mapping[str, Any] | Model,
        gpu: str | Gpu,
        tp: int = 1,
        engine: str = "vllm",
        engine_version: str | None = None,
        kind: str = "calibrated",
        max_num_seqs: int | None = None,
        async_scheduling: bool = False,
        without: Collection[str] = (),
        coefficients: Collection[Path] = (),
        host: Path | None = None,
        split: Parallelism | None = None,
    ) -> StepCost:
        """A calibrated price of a model's steps on `tp` GPUs.

        Parameters
        ----------
        model, gpu : catalogue names, files, or what `cost_models.catalog` gives for them.
        tp : tensor-parallel size.
        engine, engine_version : whose kernels and host time; None is the newest release.
        kind : ``"calibrated"``, or ``"datasheet"`` for other GPUs' efficiencies of the peaks;
            for the other kinds use `StepCost.linear` and `StepCost.table`.
        max_num_seqs : decides the captured CUDA-graph sizes; None is the engine's default.
        async_scheduling : the host schedules the next step while the GPU works on this one.
        without : effects beyond the kernels that are switched off, see `cost_models.effects`.
        coefficients : calibrations of the user's, in place of shipped ones of their data type.
        host : a file with the engine's own time; None is the release's.
        split : in place of `tp`, where there is more than tensor parallelism.

        Raises
        ------
        InputError : for unknown names, heads that do not split over `tp`, or no calibration.
        """
        from cost_models import calibration, catalog, datasheet, effects
        from cost_models.parallelism import Parallelism
        from cost_models.roofline import RooflineForm

        if kind not in ("calibrated", "datasheet"):
            raise InputError(
                f"cost_model.kind = {kind!r}: StepCost.load makes 'calibrated' and 'datasheet'; "
                "StepCost.linear takes constants, StepCost.table a file."
            )
        shape = model if isinstance(model, catalog.Model) else catalog.model(model)
        device = gpu if isinstance(gpu, catalog.Gpu) else catalog.gpu(gpu)
        defaults = catalog.engine_defaults(engine, engine_version, device)
        if defaults.fp8_kv_read_as_bf16:
            shape = replace(shape, kv_dtype="bf16")
        own = calibration.own(coefficients, device.name, engine)
        measured = [mine.effects for mine in own.values() if mine.effects is not None]
        beyond = measured[0] if measured else effects.load(device.name, engine)
        host_time = defaults.host if host is None else catalog.read_host_time(host)

        def kernels(dtype: str) -> Calibration:
            if dtype in own:
                return own[dtype]
            if kind == "datasheet":
                return datasheet.load(device, engine, dtype)
            return calibration.load(device.name, engine, dtype)

        return cls(
            RooflineForm(
                shape,
                device,
                split or Parallelism(tp),
                {dtype: kernels(dtype) for dtype in calibration.dtypes_used(shape)},
                host_time,
                max_num_seqs or defaults.max_num_seqs,
                effects.less(beyond, without),
                async_scheduling,
            ),
            Frontend(host_time.per_request_s, host_time.per_prompt_token_s),
        )

    @property
    def provenance(self) -> str:
        """Where the numbers come from and their measured error, in a line or two."""
        return self.form.provenance

    @property
    def floor(self) -> float:
        """Seconds of the smallest step: one sequence decodes one token at context 1."""
        return self.step(decode_contexts=[1]).total_s

    def tables(self, max_tokens: int, max_seqs: int) -> CostTables:
        """Arrays for `kernel.step_time`.

        Parameters
        ----------
        max_tokens : the most tokens, padding included, that a step can reach.
        max_seqs : the most sequences that a step can schedule.
        """
        if max_tokens < 1 or max_seqs < 1:
            raise InputError(
                f"cost tables for {max_tokens} tokens and {max_seqs} sequences: both are 1 or more."
            )
        return self.form.tables(int(max_tokens), int(max_seqs))

    def apart(
        self, max_tokens: int, max_seqs: int
    ) -> tuple[CostTables, NDArray[np.float64], NDArray[np.float64]]:
        """`tables` of what an engine does for itself, and what all that share experts do.

        Raises
        ------
        InputError : for a model of cost that does not tell them apart.
        """
        if not isinstance(self.form, ApartForm):
            raise InputError(
                "cluster.data_parallel: engines that share experts are priced by cost_model.kind "
                "calibrated alone; choose it, or a model without experts."
            )
        return self.form.apart(int(max_tokens), int(max_seqs))

    def step(
        self,
        decode_contexts: Sequence[int] = (),
        prefills: Sequence[tuple[int, int]] = (),
    ) -> StepTime:
        """Price one step given sequence by sequence.

        Parameters
        ----------
        decode_contexts : context of each decoding sequence, its new token included (≥ 1).
        prefills : (chunk, past) of each prompt: tokens computed now (≥ 1) and before (≥ 0).

        Raises
        ------
        InputError : for an empty step, a context or chunk below 1, or a past below 0.
        """
        batch = Batch.of(decode_contexts, prefills)
        if batch.tokens == 0:
            raise InputError("an empty step has no price: give a decode context or a prefill.")
        tables = self.tables(batch.tokens, batch.scheduled_seqs)
        gpu_s, host_s = kernel.step_time(tables, *batch)
        return StepTime(
            gpu_s=float(gpu_s),
            host_s=float(host_s),
            total_s=float(gpu_s + host_s),
            ops=self.form.ops(batch),
        )
