"""A user's own step times, interpolated linearly.

CSV columns, times in ms of a whole step on the GPU:

``tokens, step_ms``
    steps by the number of tokens that they compute (decodes and prompt chunks alike);
``decode_seqs, context, step_ms``
    in the same file, with `tokens` left empty: steps that only decode, by the number of
    sequences and the context of each.  What a context costs beyond the shortest one of the
    table is added to mixed steps too.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cost_models import kernel
from cost_models.errors import InputError
from cost_models.kernel import CostTables
from cost_models.step_cost import Batch, OpTime

Array = NDArray[np.float64]

FEWEST_ROWS = 2  # of a line


class StepTableForm:
    """Step times from a CSV file.

    Parameters
    ----------
    path : the file.
    allow_extrapolation : go on along the last piece beyond the rows; else refuse.
    max_context : the longest context that steps can have, tokens; None if unknown.

    Raises
    ------
    InputError : for a file that is no such table, or one that does not reach far enough.
    """

    def __init__(
        self, path: Path, allow_extrapolation: bool = False, max_context: int | None = None
    ):
        self.path, self.allow_extrapolation = path, allow_extrapolation
        by_tokens, by_context = _read(path)
        self.tokens, self.token_s = by_tokens
        self.contexts = np.array(sorted({context for _, context in by_context}), np.float64)
        self.seqs = np.array(sorted({seqs for seqs, _ in by_context}), np.float64)
        missing = [
            (int(n), int(c)) for n in self.seqs for c in self.contexts if (n, c) not in by_context
        ]
        if missing:
            raise InputError(
                f"{path}: decodes of {missing[0][0]} sequences at context {missing[0][1]} are "
                "missing; give every context for every number of sequences."
            )
        self.decode_s = np.array([[by_context[n, c] for c in self.contexts] for n in self.seqs])
        if max_context is not None and len(self.contexts):
            self._check(max_context, self.contexts[-1], "a context", "kv_cache.max_model_len")

    def _check(self, wanted: int, last: float, what: str, key: str) -> None:
        if wanted > last and not self.allow_extrapolation:
            raise InputError(
                f"cost_model.path {self.path}: its rows end at {what} of {last:.0f}, and steps can "
                f"have {wanted}; add rows, lower {key}, or set cost_model.allow_extrapolation."
            )

    @property
    def provenance(self) -> str:
        """The file and what it covers."""
        reach = f"up to {self.tokens[-1]:.0f} tokens"
        if len(self.contexts):
            reach += f", {self.seqs[-1]:.0f} sequences at context {self.contexts[-1]:.0f}"
        return f"table: {self.path.name}, {reach}, linear between rows; error not measured"

    def tables(self, max_tokens: int, max_seqs: int) -> CostTables:
        """The rows at every number of tokens, and at contexts of powers of two."""
        self._check(max_tokens, self.tokens[-1], "a step", "scheduler.max_num_batched_tokens")
        every = np.arange(max_tokens + 1, dtype=np.float64)
        tokens_s = _line(self.tokens, self.token_s, every)
        coef = np.zeros(kernel.NUM_COEF)
        coef[kernel.TOKENS_SLOPE] = max(0.0, float(tokens_s[-1] - tokens_s[-2]))
        coef[kernel.TOKENS_BASE] = tokens_s[-1] - max_tokens * coef[kernel.TOKENS_SLOPE]
        decode_tokens_s, attention_s = np.zeros(0), np.zeros((0, 0))
        if len(self.seqs):
            self._check(max_seqs, self.seqs[-1], "a decode", "scheduler.max_num_seqs")
            decode_tokens_s, attention_s = self._decodes(max_seqs)
        return CostTables(
            tokens_s=tokens_s,
            decode_tokens_s=decode_tokens_s,
            logits_s=np.zeros(max_seqs + 1),
            decode_attention_s=attention_s,
            coef=coef,
        )

    def _decodes(self, max_seqs: int) -> tuple[Array, Array]:
        """Decodes at the shortest context, and what longer ones add."""
        rows = np.arange(max_seqs + 1, dtype=np.float64)
        by_seqs = np.array([_line(self.seqs, column, rows) for column in self.decode_s.T]).T
        last = 2 ** math.ceil(math.log2(max(2.0, self.contexts[-1])))
        knots = 2.0 ** np.arange(math.log2(last) + 1)
        at_knots = np.array([_line(self.contexts, row, knots) for row in by_seqs])
        shortest_s = by_seqs[:, 0]
        attention_s = np.zeros((max_seqs + 1, len(knots) + 1))
        attention_s[1:, :-1] = np.maximum(0.0, at_knots[1:] - shortest_s[1:, None])
        shortest_s[0] = 0.0
        return shortest_s, attention_s

    def ops(self, batch: Batch) -> tuple[OpTime, ...]:
        """The step as one operation."""
        tables = self.tables(batch.tokens, max(1, batch.scheduled_seqs))
        gpu_s, _ = kernel.step_time(tables, *batch)
        return (OpTime("step", float(gpu_s), source=self.path.name),)


def _line(x: Array, y: Array, at: Array) -> Array:
    """Piecewise linear; beyond the rows along the last piece, and never below 0."""
    result: Array = np.interp(at, x, y)
    if len(x) >= FEWEST_ROWS:
        for beyond, (i, j) in ((at > x[-1], (-2, -1)), (at < x[0], (0, 1))):
            slope = (y[j] - y[i]) / (x[j] - x[i])
            result[beyond] = y[i] + slope * (at[beyond] - x[i])
    return np.maximum(0.0, result)


def _read(path: Path) -> tuple[tuple[Array, Array], dict[tuple[float, float], float]]:
    """Seconds by tokens, in rising order, and by (sequences, context)."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
            columns = reader.fieldnames or ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cost_model.path {path}: cannot be read ({error}).") from None
    if not {"tokens", "step_ms"} <= set(columns):
        raise InputError(
            f"cost_model.path {path}: has columns {', '.join(columns) or 'none'}; needed are "
            "tokens and step_ms, and for decodes decode_seqs and context."
        )
    by_tokens: dict[float, float] = {}
    by_context: dict[tuple[float, float], float] = {}
    for line, row in enumerate(rows, start=2):
        step_s = _number(row, "step_ms", path, line) * 1e-3
        if row["tokens"]:
            by_tokens[_number(row, "tokens", path, line)] = step_s
        else:
            seqs = _number(row, "decode_seqs", path, line)
            by_context[seqs, _number(row, "context", path, line)] = step_s
    if len(by_tokens) < FEWEST_ROWS:
        raise InputError(
            f"cost_model.path {path}: has {len(by_tokens)} rows by tokens; a line needs 2 or more."
        )
    tokens = np.array(sorted(by_tokens))
    return (tokens, np.array([by_tokens[m] for m in tokens])), by_context


def _number(row: dict[str, str], column: str, path: Path, line: int) -> float:
    text = row.get(column) or ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise InputError(
            f"cost_model.path {path}, line {line}: {column} is {text!r}; give a number above 0."
        )
    return value
