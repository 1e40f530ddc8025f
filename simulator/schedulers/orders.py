"""In which order the waiting queue is served: one of ours by name, or a user's function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulator.engine.queue import ARRIVAL_ORDER, Order
from simulator.engine.state import BY_DEADLINE, BY_KEY, BY_REMAINING, FAIR
from simulator.errors import InputError
from simulator.schedulers.loader import load_attr
from simulator.workload.requests import Requests

Floats = NDArray[np.float64]


def make_order(
    name: str,
    requests: Requests,
    *,
    ttft_limit_s: Floats | None = None,
    base_dir: Path = Path(),
) -> Order:
    """The order called `name` for these requests.

    Parameters
    ----------
    name : fcfs, sjf, srpt, priority, edf, fair; or ``package.module:attr`` or
        ``path/to/file.py:attr``, a function of the `Requests` that returns a key for each of
        them, the path relative to `base_dir`.
    ttft_limit_s : (N,) float64 from arrival to the first token that is due, for edf; inf
        where none is.

    Raises
    ------
    InputError
        A user's function is not there, or does not return a number for each request.
    """
    if name == "fcfs":
        return ARRIVAL_ORDER
    if name == "fair":
        return Order(FAIR)
    if name == "sjf":
        return Order(BY_KEY, requests.predicted_tokens)
    if name == "srpt":
        return Order(BY_REMAINING, requests.predicted_tokens)
    if name == "priority":
        return Order(BY_KEY, requests.priority.astype(np.float64))
    if name == "edf":
        return Order(BY_DEADLINE, ttft_limit_s)
    return Order(BY_KEY, _own_key(name, requests, base_dir))


def _own_key(name: str, requests: Requests, base_dir: Path) -> Floats:
    returned = load_attr(name, base_dir, "scheduler.order", "(requests)")(requests)
    try:
        key = np.asarray(returned, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"scheduler.order is {name}, which returns no array of numbers ({error}); return one "
            "key for each request"
        ) from error
    if key.shape != (len(requests),):
        raise InputError(
            f"scheduler.order is {name}, which returns an array of shape {key.shape} for "
            f"{len(requests)} requests; return one key for each"
        )
    if np.isnan(key).any():
        row = int(np.isnan(key).argmax())
        raise InputError(
            f"scheduler.order is {name}, whose key of request {requests.id_of(row)} is not a "
            "number; return one for each request (predicted_tokens are numbers only with a "
            "workload.predictor)"
        )
    return key
