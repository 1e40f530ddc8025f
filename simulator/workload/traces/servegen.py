"""Requests drawn from ServeGen's clients, each with its own rates, burstiness and lengths.

Source: Y. Xiang et al., "ServeGen: Workload Characterization and Generation of Large Language
Model Serving in Production", arXiv:2505.09999.
"""

from __future__ import annotations

from math import gamma
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.workload.requests import Floats, Ints
from simulator.workload.streams import Purpose, Streams
from simulator.workload.traces.servegen_files import Client, read_clients
from simulator.workload.traces.trace import Trace

NAME = "servegen"
ABOUT = "a folder of ServeGen's chunk-N-trace.csv and chunk-N-dataset.json: requests are drawn"
MOST = 50_000_000


def draw_servegen(
    folder: Path,
    streams: Streams,
    *,
    skip_s: float = 0.0,
    duration_s: float | None = None,
    limit: int | None = None,
) -> Trace:
    """Requests of all clients of a folder, in a window of their time.

    Parameters
    ----------
    skip_s, duration_s : the window; it becomes time 0 and on.
    limit : only so many requests, the first ones.

    Raises
    ------
    InputError
        names the file, the line or key, and what is allowed; or the window has too many.
    """
    clients = read_clients(folder)
    start_s = min(float(c.edge_s[0]) for c in clients) + skip_s
    end_s = max(float(c.edge_s[-1]) for c in clients)
    if duration_s is not None:
        end_s = min(start_s + duration_s, end_s)
    if limit is not None:
        end_s = _soon_enough(clients, start_s, end_s, limit)
    expected = _expected(clients, end_s) - _expected(clients, start_s)
    if expected > MOST:
        raise InputError(
            f"{folder}: its {len(clients)} clients send about {expected:,.0f} requests in this "
            "window; take less with workload.trace.duration_s or limit"
        )
    drawn = [_draw(client, streams, start_s, end_s) for client in clients]
    arrival_s, prompt, output = (np.concatenate(column) for column in zip(*drawn, strict=True))
    order = np.argsort(arrival_s, kind="stable")[:limit]
    prompt, output = prompt[order], output[order]
    notes = [f"{folder.name}: {len(order):,} requests drawn from {len(clients):,} ServeGen clients"]
    empty = int(np.count_nonzero((prompt == 0) | (output == 0)))
    if empty:
        notes.append(f"{folder.name}: {empty:,} requests have a length of 0; taken as 1")
    return Trace(
        path=str(folder),
        format=NAME,
        arrival_s=arrival_s[order] - start_s,
        prompt_tokens=np.maximum(prompt, 1),
        output_tokens=np.maximum(output, 1),
        extra={},
        rows_read=len(order),
        skipped={},
        notes=tuple(notes),
    )


def _expected(clients: list[Client], until_s: float) -> float:
    """Mean number of requests of all clients before a moment."""
    return sum(c.curve.expected(max(0.0, until_s - float(c.edge_s[0]))) for c in clients)


def _soon_enough(clients: list[Client], start_s: float, end_s: float, limit: int) -> float:
    """An earlier end, by which `limit` requests have almost surely come."""
    enough = _expected(clients, start_s) + 1.2 * limit + 100 * limit**0.5
    edges = np.unique(np.concatenate([c.edge_s for c in clients]))
    edges = edges[(edges > start_s) & (edges < end_s)]
    low, high = 0, len(edges)
    while low < high:
        middle = (low + high) // 2
        reached = _expected(clients, float(edges[middle])) >= enough
        low, high = (low, middle) if reached else (middle + 1, high)
    return float(edges[low]) if low < len(edges) else end_s


def _draw(
    client: Client, streams: Streams, start_s: float, end_s: float
) -> tuple[Floats, Ints, Ints]:
    """Times and lengths of one client's requests in [start_s, end_s)."""
    start_s, end_s = np.clip([start_s, end_s], client.edge_s[0], client.edge_s[-1]).tolist()
    first, last = _expected([client], start_s), _expected([client], end_s)
    units = _units(client, first, last, streams.generator(Purpose.ARRIVALS, client.number))
    arrival_s = client.curve.times(units) + client.edge_s[0]
    holds = np.maximum(np.searchsorted(client.since_s, arrival_s, "right") - 1, 0)
    lengths = np.zeros((2, len(units)), np.int64)
    luck = [
        streams.generator(purpose, client.number).random(len(units))
        for purpose in (Purpose.PROMPT_LENGTHS, Purpose.OUTPUT_LENGTHS)
    ]
    for k in np.unique(holds).tolist():
        rows = np.flatnonzero(holds == k)
        for i, (tokens, until) in enumerate(client.lengths(k)):
            place = np.searchsorted(until, luck[i][rows], "right")
            lengths[i, rows] = tokens[np.minimum(place, len(tokens) - 1)]
    return arrival_s, lengths[0], lengths[1]


def _units(client: Client, first: float, last: float, random: np.random.Generator) -> Floats:
    """A stationary process of rate 1 from `first` to `last`, with the gaps of the windows."""
    edges = client.curve.at_edges()
    units = np.empty(0)
    while not len(units) or units[-1] < last:
        begun = float(units[-1]) if len(units) else first
        # The n-th gap has the shape of the window that it falls in on average.
        place = begun + np.arange(int(last - begun) + 64)
        window = np.clip(np.searchsorted(edges, place, "right") - 1, 0, len(client.rate) - 1)
        gaps = _gaps(client.shape[window], client.weibull[window], random)
        if not len(units):
            gaps[0] = _rest(client.shape[window[0]], bool(client.weibull[window[0]]), random)
        units = np.concatenate((units, begun + np.cumsum(gaps)))
    return units[units < last]


def _gaps(shape: Floats, weibull: NDArray[np.bool_], random: np.random.Generator) -> Floats:
    """Gaps of mean 1, each of its own distribution."""
    gaps = random.standard_gamma(shape) / shape
    places = np.flatnonzero(weibull)
    mean = np.array([gamma(1 + 1 / k) for k in shape[places].tolist()])
    gaps[places] = random.weibull(shape[places]) / mean
    return np.asarray(gaps)


def _rest(shape: float, weibull: bool, random: np.random.Generator) -> float:
    """What is left, at a random moment, of the gap of mean 1 that the moment falls in.

    Such a gap is longer than others, by its length as a weight: this adds 1 to the shape of a
    gamma distribution; a Weibull gap's power `shape` is exponential, and becomes a gamma
    variable of shape 1 + 1 / shape.
    """
    if weibull:
        gap = random.standard_gamma(1 + 1 / shape) ** (1 / shape) / gamma(1 + 1 / shape)
    else:
        gap = random.standard_gamma(1 + shape) / shape
    return float(gap * random.random())
