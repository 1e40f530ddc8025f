"""NCCL's collectives of NVIDIA's published kernel tables, see `aiconfigurator`.

`message_size` counts the elements of all ranks together: half a gigabyte in 1.4 ms among
eight H100 is three quarters of what their links carry.
"""

from __future__ import annotations

import pandas as pd

from cost_models.catalog import Gpu
from cost_models.collectives import Collective, CollectiveCalibration
from cost_models.fit import groups
from cost_models.importers import aiconfigurator, profile

OPERATIONS = ("all_gather", "reduce_scatter", "alltoall")
KEYS = ["operation", "ranks", "elements"]


def read(source: str, gpu: Gpu, version: str | None = None) -> CollectiveCalibration:
    """Tables of one GPU, in the wanted version or the newest.

    Raises
    ------
    InputError : for a GPU or version without such tables.
    """
    root = aiconfigurator.data_root(source)
    folder = aiconfigurator.folder_of(root, gpu)
    raw, found = aiconfigurator.read_table(root, folder, "comm", "nccl", "nccl_perf", version)
    table = raw[(raw["nccl_dtype"] == "half") & raw["op_name"].isin(OPERATIONS)].rename(
        columns={"op_name": "operation", "num_gpus": "ranks", "message_size": "elements"}
    )
    table = table.assign(seconds=table["latency"] * 1e-3)
    rejected: dict[str, int] = {}
    clean: pd.DataFrame = profile.clean(table, KEYS, "nccl", rejected)
    return CollectiveCalibration(
        schema_version=1,
        gpu=gpu.name,
        version=found,
        source=aiconfigurator.source_name(source),
        licence="Apache-2.0, NVIDIA Corporation",
        tables=[
            Collective(
                operation=operation,
                ranks=ranks,
                elements=[int(size) for size in rows["elements"]],
                seconds=[float(f"{value:.4g}") for value in rows["seconds"]],
            )
            for operation in OPERATIONS
            for (ranks,), rows in groups(clean[clean["operation"] == operation], "ranks")
        ],
    )
