"""Sessions of a service as quantiles: how many turns, think times, how long first prompts are.

A table stands in for recorded sessions that cannot be shared; `servecast trace synthesize`
writes one.  Between two quantiles values are spread evenly.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from simulator.errors import InputError
from simulator.workload.requests import LARGEST_COUNT, Floats, Ints

PROBABILITIES = np.array([0.0, 0.01, *np.arange(1, 40) / 40, 0.99, 0.995, 0.998, 0.999, 1.0])
LEAST = {"turns": 1.0, "think_s": 0.0, "first_prompt_tokens": 1.0}


@dataclass(frozen=True, eq=False)
class SessionTable:
    """Quantile functions, each (q,), at `probability` from 0 to 1."""

    about: str
    probability: Floats
    turns: Floats
    think_s: Floats
    first_prompt_tokens: Floats

    @classmethod
    def of(
        cls, about: str, turns: Ints, think_s: Floats, first_prompt_tokens: Ints
    ) -> SessionTable:
        """The table of recorded sessions."""
        columns = [
            np.quantile(values if len(values) else [0.0], PROBABILITIES)
            for values in (turns, think_s, first_prompt_tokens)
        ]
        return cls(about, PROBABILITIES, *(np.round(column, 6) for column in columns))

    @classmethod
    def read(cls, path: Path) -> SessionTable:
        """A table of a file, checked; `InputError` names the file and what is wrong."""
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            columns = [np.array(stored[c], np.float64) for c in ("probability", *LEAST)]
            table = cls(str(stored["about"]), *columns)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"{path}: no table of sessions can be read from it ({type(error).__name__}: "
                f"{error}); `servecast trace synthesize` writes one"
            ) from None
        p = table.probability
        if p.ndim != 1 or len(p) < 2 or (p[0], p[-1]) != (0, 1) or not (np.diff(p) > 0).all():
            raise InputError(f"{path}: probability must go up from 0 to 1")
        for name, least in LEAST.items():
            values: Floats = getattr(table, name)
            if values.shape != p.shape or not (np.diff(values) >= 0).all():
                raise InputError(f"{path}: {name} needs {len(p)} numbers that do not go down")
            if not least <= values[0] <= values[-1] <= LARGEST_COUNT:
                raise InputError(f"{path}: {name} must be from {least:g} to {LARGEST_COUNT:,}")
        return table

    def whole(self, name: str, rank: Floats) -> Ints:
        """Whole numbers of a column at these ranks."""
        return np.rint(self.at(name, rank)).astype(np.int64)

    def at(self, name: str, rank: Floats) -> Floats:
        """Values of a column at these ranks, in [0, 1]."""
        return np.asarray(np.interp(rank, self.probability, getattr(self, name)))

    def mean_turns(self) -> float:
        """Mean number of turns."""
        return float(np.trapezoid(self.turns, self.probability))

    def to_json(self) -> str:
        """The form that `read` reads."""
        columns = {k: v if isinstance(v, str) else v.tolist() for k, v in asdict(self).items()}
        lines = [f"  {json.dumps(name)}: {json.dumps(column)}" for name, column in columns.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"
