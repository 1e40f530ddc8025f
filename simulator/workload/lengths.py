"""How long prompts and outputs are, in tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.workload.cdf_files import read_cdf
from simulator.workload.quantiles import QuantileTable
from simulator.workload.requests import LARGEST_COUNT, Floats, Ints
from simulator.workload.streams import normal_cdf

if TYPE_CHECKING:
    from simulator.scenario.lengths import LengthsSpec


class Lengths(NamedTuple):
    """(n,) int64 columns, >= 1, and sentences on how they came about."""

    prompt_tokens: Ints
    output_tokens: Ints
    notes: tuple[str, ...] = ()


def draw_lengths(
    spec: LengthsSpec, prompt_luck: Floats, output_luck: Floats, *, base_dir: Path
) -> Lengths:
    """Lengths of requests, one for each pair of standard normal numbers.

    Every distribution is a monotone image of the same two numbers, so that a request
    which is long under one stays long under another.

    Parameters
    ----------
    spec : a distribution of the scenario.
    prompt_luck, output_luck : (n,) float64, independent standard normal.
    base_dir : folder that a file of lengths is relative to.
    """
    n = len(prompt_luck)
    if spec.distribution == "fixed":
        return Lengths(np.full(n, spec.prompt_tokens), np.full(n, spec.output_tokens))
    if spec.distribution == "lognormal":
        prompt, notes = _lognormal(
            spec.mean_prompt_tokens, spec.prompt_cv, spec.max_prompt_tokens, prompt_luck, "prompt"
        )
        own = (1 - spec.correlation**2) ** 0.5
        both = spec.correlation * prompt_luck + own * output_luck
        output, more = _lognormal(
            spec.mean_output_tokens, spec.output_cv, spec.max_output_tokens, both, "output"
        )
        return Lengths(prompt, output, notes + more)
    if spec.distribution == "uniform":
        return Lengths(
            _uniform(spec.min_prompt_tokens, spec.max_prompt_tokens, prompt_luck),
            _uniform(spec.min_output_tokens, spec.max_output_tokens, output_luck),
        )
    if spec.distribution == "empirical":
        # Loads Arrow, which other distributions need not wait for.
        from simulator.workload.traces.read import read_lengths

        recorded = read_lengths(base_dir / spec.file, spec.tokens_per_word)
        rows = _index(len(recorded.prompt_tokens), prompt_luck)
        return Lengths(recorded.prompt_tokens[rows], recorded.output_tokens[rows], recorded.notes)
    if spec.distribution == "cdf":
        total = np.interp(normal_cdf(prompt_luck), *read_cdf(base_dir / spec.file))
        output = np.maximum(np.rint(total * spec.output_share), 1).astype(np.int64)
        prompt = np.maximum(np.rint(total).astype(np.int64) - output, 1)
        about = f"lengths: totals of {spec.file}, {spec.output_share:g} of each as output"
        return Lengths(prompt, output, (about,))
    if spec.distribution == "quantiles":
        table = QuantileTable.read(base_dir / spec.file)
    else:
        table = QuantileTable.named(spec.distribution)
    prompt, output = table.sample(normal_cdf(prompt_luck), normal_cdf(output_luck))
    return Lengths(prompt, output, (f"lengths: {table.about}",))


def _lognormal(
    mean: float, cv: float, longest: int | None, luck: Floats, what: str
) -> tuple[Ints, tuple[str, ...]]:
    """Mean and cv are of the distribution before it is rounded, to 1 at least, and cut."""
    variance = np.log1p(cv * cv)
    with np.errstate(over="ignore"):
        values = np.exp(np.log(mean) - variance / 2 + np.sqrt(variance) * luck)
    limit = LARGEST_COUNT if longest is None else longest
    tokens = np.rint(np.clip(values, 1, limit)).astype(np.int64)
    cut = int(np.count_nonzero(values > limit))
    if not cut:
        return tokens, ()
    return tokens, (
        f"lengths: {cut:,} of {len(luck):,} {what}s were longer than {limit:,} and cut to that",
    )


def _uniform(low: int, high: int, luck: Floats) -> Ints:
    return low + _index(high - low + 1, luck)


def _index(count: int, luck: Floats) -> Ints:
    """Each of 0 ... count - 1 equally often."""
    return np.minimum((normal_cdf(luck) * count).astype(np.int64), count - 1)
