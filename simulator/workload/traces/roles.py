"""From what formats tell to what a trace is made of: lengths, sessions, priorities."""

from __future__ import annotations

import numpy as np

from simulator.workload.traces.layout import Columns
from simulator.workload.traces.sessions import by_parent


def in_our_terms(columns: Columns) -> Columns:
    """Columns as a `Trace` has them, from those that formats tell in another way."""
    columns = dict(columns)
    if "new_tokens" in columns:
        columns["prompt_tokens"] = columns["prefix_tokens"] + columns.pop("new_tokens")
    if "parent" in columns:
        names = by_parent(columns["id"].tolist(), columns.pop("parent").tolist())
        columns["session"] = np.array(names, object)
    if "urgency" in columns:
        columns["priority"] = -columns.pop("urgency")
    if "group" in columns and "group_tokens" in columns:
        grouped = columns["group"] != ""
        columns["group_tokens"] = np.where(grouped, columns["group_tokens"], 0)
        columns["prompt_tokens"] = columns["prompt_tokens"] + columns["group_tokens"]
    if "server_tokens" in columns:
        counted = columns.pop("server_tokens")
        alone = columns.get("group", np.full(len(counted), "")) == ""
        told = alone & (counted > 0)
        columns["prompt_tokens"] = np.where(told, counted, columns["prompt_tokens"])
    if "block_runs" in columns:
        runs, blocks = columns.pop("block_runs"), columns.get("blocks")
        columns["blocks"] = runs if blocks is None else np.where(runs == b"", blocks, runs)
    return columns
