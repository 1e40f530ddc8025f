"""One measured serving run: its conditions and its results."""

from __future__ import annotations

from dataclasses import dataclass


class CannotSimulateError(Exception):
    """Why a measured row is left out; rows are counted by this text."""


# Results that are compared: name in a measured row -> key of a run's summary.
METRICS = {
    "ttft_ms_mean": "mean_ttft_ms",
    "ttft_ms_p50": "median_ttft_ms",
    "ttft_ms_p99": "p99_ttft_ms",
    "tpot_ms_mean": "mean_tpot_ms",
    "tpot_ms_p50": "median_tpot_ms",
    "tpot_ms_p99": "p99_tpot_ms",
    "itl_ms_mean": "mean_itl_ms",
    "e2e_ms_mean": "mean_e2el_ms",
    "e2e_ms_p50": "median_e2el_ms",
    "queue_ms_mean": "mean_queue_ms",
    "makespan_s": "duration",
    "req_per_s": "request_throughput",
    "output_tok_per_s": "output_throughput",
    "total_tok_per_s": "total_token_throughput",
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was run and what came out.

    Attributes
    ----------
    where : file and line, or file, of the row.
    engine, engine_version, gpu, model, weight_dtype, kv_dtype : as the catalogue names them.
    tp, ep : tensor-parallel size; whether experts were dealt out over these GPUs.
    load : closed_loop, poisson, constant, burst, batch or trace.
    load_value : concurrency, requests per second or batch size.
    prompt_tokens, output_tokens : (shortest, longest), uniform between.
    requests : (arrival_s, prompt_tokens, output_tokens) of each, for a trace.
    num_requests : None takes ten times the load.
    async_scheduling, enable_prefix_caching : None is the release's default.
    results : by the names of `METRICS`.
    doubt : why the figures cannot be those of the conditions told, see `plausibility`.
    """

    where: str
    engine: str
    engine_version: str | None
    gpu: str
    model: str
    weight_dtype: str
    kv_dtype: str
    tp: int
    load: str
    load_value: float
    prompt_tokens: tuple[int, int]
    output_tokens: tuple[int, int]
    results: dict[str, float]
    ep: bool = False
    requests: tuple[tuple[float, int, int], ...] = ()
    num_requests: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enable_chunked_prefill: bool = True
    async_scheduling: bool | None = None
    enable_prefix_caching: bool | None = None
    num_gpu_blocks: int | None = None
    max_model_len: int | None = None
    gpu_memory_utilization: float | None = None
    doubt: str = ""

    @property
    def group(self) -> tuple[str, str, str]:
        """Rows are summed up by engine release, GPU and model, doubtful ones apart."""
        release = f"{self.engine} {self.engine_version or ''}".strip()
        doubtful = ", doubtful" if self.doubt else ""
        return release, self.gpu, f"{self.model} {self.weight_dtype}{doubtful}"

    @property
    def conditions(self) -> str:
        """The row in a few words."""
        lengths = f"{_range(self.prompt_tokens)}/{_range(self.output_tokens)}"
        gpus = f"tp{self.tp}{' ep' if self.ep else ''}"
        return f"{gpus} {lengths} {self.load} {self.load_value:g}"


def _range(tokens: tuple[int, int]) -> str:
    return str(tokens[0]) if tokens[0] == tokens[1] else f"{tokens[0]}-{tokens[1]}"
