"""Files of ServeGen: one client's rates over time and its distributions of lengths.

`chunk-N-trace.csv` has, without a header, the start of a window in s, requests/s, cv, and the
name and two parameters of the gaps' distribution, the shape first; no name: no requests.
`chunk-N-dataset.json` has, by the time from which they hold, the shares of lengths in tokens.
"""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.workload.rates import RateCurve
from simulator.workload.requests import LARGEST_COUNT, Floats, Ints

FILES = re.compile(r"chunk-(\d{1,9})-trace\.csv")
WINDOW_S = 600.0  # length of a window that no other one follows
SHAPES = (0.02, 1e4)
_SHARE = r"\d{1,10}: \d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_SHARES = re.compile(rf"\{{{_SHARE}(?:, {_SHARE})*\}}", re.ASCII)


class Lengths(NamedTuple):
    """Token counts and the running sum of their shares, 1 at the end."""

    tokens: Ints
    until: Floats


class Client(NamedTuple):
    """One client.

    Attributes
    ----------
    edge_s : (w + 1,) starts of the windows and the end of the last.
    rate : (w,) requests/s.
    shape, weibull : (w,) of the gaps' distribution, a Weibull or else a gamma one.
    since_s : (d,) when each pair of distributions of lengths begins to hold.
    shares : (d) what the file says of input_tokens and of output_tokens then.
    """

    path: Path
    number: int
    edge_s: Floats
    rate: Floats
    shape: Floats
    weibull: NDArray[np.bool_]
    since_s: Floats
    shares: list[tuple[Any, Any]]

    @property
    def curve(self) -> RateCurve:
        """The rate over the time since the first window."""
        return RateCurve(self.edge_s - self.edge_s[0], self.rate, self.rate, repeats=False)

    def lengths(self, k: int) -> tuple[Lengths, Lengths]:
        """Distributions number `k` of the prompt and the output lengths."""
        prompt, output = self.shares[k]
        where = f"{self.path}, {self.since_s[k]:g}"
        return (
            _lengths(f"{where}, input_tokens", prompt),
            _lengths(f"{where}, output_tokens", output),
        )


def read_clients(folder: Path) -> list[Client]:
    """All clients of a folder.

    Raises
    ------
    InputError
        names the file, the line or key, and what is allowed.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder, as format servegen needs; see format: auto")
    numbers = sorted(int(m[1]) for p in folder.iterdir() if (m := FILES.fullmatch(p.name)))
    if not numbers:
        raise InputError(
            f"{folder} is a folder without chunk-N-trace.csv files; name the trace file in it, or "
            "a folder of ServeGen's data such as data/language/m-small"
        )
    return [_client(folder, number) for number in numbers]


def _client(folder: Path, number: int) -> Client:
    trace, dataset = (folder / f"chunk-{number}-{end}" for end in ("trace.csv", "dataset.json"))
    rows = []
    try:
        with trace.open(encoding="utf-8-sig", newline="") as file:
            rows = [
                _window(f"{trace}, line {line}", row)
                for line, row in enumerate(csv.reader(file), 1)
                if row
            ]
        stored = json.loads(dataset.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, ValueError, RecursionError, csv.Error) as error:
        raise InputError(f"{folder}, client {number}: cannot be read ({error})") from None
    starts = np.array([row[0] for row in rows])
    if not len(starts) or (np.diff(starts) <= 0).any():
        raise InputError(f"{trace}: the starts of its windows must go up, in one line or more")
    last = starts[-1] - starts[-2] if len(starts) > 1 else WINDOW_S
    times = _distributions(dataset, stored)
    return Client(
        dataset,
        number,
        np.append(starts, starts[-1] + last),
        np.array([row[1] for row in rows]),
        np.array([row[2] for row in rows]),
        np.array([row[3] for row in rows]),
        np.array(list(times), np.float64),
        list(times.values()),
    )


def _window(where: str, row: list[str]) -> tuple[float, float, float, bool]:
    """Start, rate, and shape and kind of the gaps' distribution."""
    if len(row) != 6:
        raise InputError(
            f"{where}: has {len(row)} cells; a window has 6: start, rate, cv, name and two "
            "parameters of the gaps' distribution"
        )
    start_s = _number(where, "start", row[0], 0.0, 1e12)
    if not row[3]:
        return start_s, 0.0, 1.0, False
    rate = _number(where, "rate", row[1], 0.0, 1e9)
    if row[3] not in ("Gamma", "Weibull", "Exponential"):
        raise InputError(
            f"{where}: gaps distributed as {row[3]!r}; known are Gamma, Weibull, Exponential"
        )
    shape = 1.0 if row[3] == "Exponential" else _number(where, "shape", row[4], *SHAPES)
    return start_s, rate, shape, row[3] == "Weibull"


def _number(where: str, what: str, cell: str, least: float, most: float) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise InputError(f"{where}: {what} {cell!r} is not a number from {least:g} to {most:g}")
    return value


def _distributions(path: Path, stored: Any) -> dict[float, tuple[Any, Any]]:
    """What is said of both lengths, by time; times without requests are left out."""
    found = {}
    for key, fields in stored.items() if isinstance(stored, dict) else ():
        since_s = _number(str(path), "time", key, 0.0, 1e12)
        if not isinstance(fields, dict) or not {"input_tokens", "output_tokens"} <= set(fields):
            raise InputError(f"{path}, {key}: needs input_tokens and output_tokens")
        if "{}" not in (fields["input_tokens"], fields["output_tokens"]):
            found[since_s] = (fields["input_tokens"], fields["output_tokens"])
    if not found or list(found) != sorted(found):
        raise InputError(f"{path}: needs lengths for one time or more, in order of the times")
    return found


def _lengths(where: str, written: Any) -> Lengths:
    """The distribution that a text such as ``{322: 0.5, 406: 0.5}`` is."""
    if not isinstance(written, str) or not _SHARES.fullmatch(written):
        raise InputError(f"{where}: is not written as {{tokens: share, ...}}")
    pairs = [pair.split(": ") for pair in written[1:-1].split(", ")]
    tokens = np.array([int(t) for t, _ in pairs], np.int64)
    until = np.cumsum([float(share) for _, share in pairs])
    if tokens.max() > LARGEST_COUNT or not 0 < until[-1] < np.inf:
        raise InputError(f"{where}: shares must sum to more than 0, of at most a billion tokens")
    return Lengths(tokens, until / until[-1])
