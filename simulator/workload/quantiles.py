"""Prompt and output lengths of a service as a table of quantiles.

A table stands in for a trace that cannot be shipped, or that nobody may see.  It holds
quantiles of the prompt lengths and, for each tenth of the requests by prompt length,
quantiles of their output lengths; so outputs depend on prompts as they did, also where
the dependence is no correlation (in the Azure conversation trace short and long prompts
both get short answers).  Between two quantiles lengths are spread evenly.

``python -m simulator.workload.quantiles TRACE ABOUT > tables/NAME.json`` makes one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from simulator.errors import InputError
from simulator.workload.requests import LARGEST_COUNT, Floats, Ints

# Finer towards the ends, where a straight line between quantiles would be far off.
PROMPT_PROBABILITIES = (
    0.0, 0.001, 0.005, *np.arange(1, 99 + 1) / 100, 0.995, 0.998, 0.999, 1.0,
)  # fmt: skip
OUTPUT_PROBABILITIES = (0.0, 0.01, *np.arange(1, 48) / 48, 0.99, 0.995, 0.998, 1.0)
BANDS = 10


@dataclass(frozen=True, eq=False)
class QuantileTable:
    """Joint distribution of prompt and output lengths.

    Attributes
    ----------
    about : what it was made from.
    prompt_probability, prompt_tokens : (p,) points of the quantile function, from
        probability 0 to 1.
    output_probability : (q,) probabilities from 0 to 1.
    output_tokens : (bands, q) quantiles of the outputs of requests whose prompt is in
        the 1st, 2nd, ... of `bands` equal parts by rank.
    """

    about: str
    prompt_probability: Floats
    prompt_tokens: Floats
    output_probability: Floats
    output_tokens: Floats

    @classmethod
    def named(cls, name: str) -> QuantileTable:
        """A table of the package."""
        folder = resources.files("simulator.workload") / "tables"
        stored = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        about = stored.pop("about")
        return cls(about, **{key: np.array(value, np.float64) for key, value in stored.items()})

    @classmethod
    def read(cls, path: Path) -> QuantileTable:
        """A table of a file, checked."""
        columns = ("prompt_probability", "prompt_tokens", "output_probability", "output_tokens")
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            table = cls(str(stored["about"]), *(np.array(stored[c], np.float64) for c in columns))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"{path}: no table of quantiles can be read from it ({type(error).__name__}: "
                f"{error}); `servecast trace synthesize` writes one"
            ) from None
        table._check(path)
        return table

    def _check(self, path: Path) -> None:
        pairs = [
            (self.prompt_probability, np.atleast_2d(self.prompt_tokens)),
            (self.output_probability, np.atleast_2d(self.output_tokens)),
        ]
        for probability, tokens in pairs:
            shaped = probability.ndim == 1 and tokens.ndim == 2
            if not shaped or len(probability) != tokens.shape[1] or not len(tokens):
                raise InputError(f"{path}: its quantiles and probabilities differ in number")
            rising = (np.diff(probability) > 0).all() and (np.diff(tokens, axis=1) >= 0).all()
            whole = (probability[0], probability[-1]) == (0.0, 1.0)
            if not (rising and whole and tokens.min() >= 1 and tokens.max() <= LARGEST_COUNT):
                raise InputError(
                    f"{path}: probabilities must go up from 0 to 1, and token counts from 1 on"
                )

    @classmethod
    def of(cls, about: str, prompt_tokens: Ints, output_tokens: Ints) -> QuantileTable:
        """The table of recorded lengths, rounded to whole tokens."""
        order = np.argsort(prompt_tokens, kind="stable")
        return cls(
            about,
            np.array(PROMPT_PROBABILITIES),
            np.rint(np.quantile(prompt_tokens, PROMPT_PROBABILITIES)),
            np.array(OUTPUT_PROBABILITIES),
            np.array([
                np.rint(np.quantile(output_tokens[rows], OUTPUT_PROBABILITIES))
                for rows in np.array_split(order, BANDS)
            ]),
        )  # fmt: skip

    def sample(self, prompt_rank: Floats, output_rank: Floats) -> tuple[Ints, Ints]:
        """Lengths at these ranks: (n,) numbers in [0, 1], the output's within its band."""
        prompt = np.interp(prompt_rank, self.prompt_probability, self.prompt_tokens)
        bands = len(self.output_tokens)
        band = np.minimum((prompt_rank * bands).astype(np.int64), bands - 1)
        # One line over all bands: band b lies on [b, b + 1].
        place = (np.arange(bands)[:, None] + self.output_probability).ravel()
        output = np.interp(band + output_rank, place, self.output_tokens.ravel())
        return np.rint(prompt).astype(np.int64), np.rint(output).astype(np.int64)

    def to_json(self) -> str:
        """The form that `named` reads."""

        def line(values: Floats) -> str:
            return json.dumps([round(float(v), 6) if v % 1 else int(v) for v in values])

        bands = ",\n".join(f"    {line(band)}" for band in self.output_tokens)
        return (
            f'{{\n  "about": {json.dumps(self.about)},\n'
            f'  "prompt_probability": {line(self.prompt_probability)},\n'
            f'  "prompt_tokens": {line(self.prompt_tokens)},\n'
            f'  "output_probability": {line(self.output_probability)},\n'
            f'  "output_tokens": [\n{bands}\n  ]\n}}\n'
        )


def main(arguments: Sequence[str]) -> None:
    """Write the table of a trace to standard output."""
    from simulator.workload.traces.read import read_lengths

    path, about = arguments
    recorded = read_lengths(path)
    table = QuantileTable.of(about, recorded.prompt_tokens, recorded.output_tokens)
    sys.stdout.write(table.to_json())


if __name__ == "__main__":
    main(sys.argv[1:])
