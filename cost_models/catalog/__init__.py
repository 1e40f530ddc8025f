"""What is known by name: GPUs, models and engine releases, as facts with their sources."""

from __future__ import annotations

from cost_models.catalog.devices import Gpu, gpu
from cost_models.catalog.files import names
from cost_models.catalog.model_config import model
from cost_models.catalog.model_shape import Model
from cost_models.catalog.releases import (
    EngineDefaults,
    HostTime,
    engine_defaults,
    read_host_time,
)

__all__ = [
    "EngineDefaults",
    "Gpu",
    "HostTime",
    "Model",
    "engine_defaults",
    "gpu",
    "model",
    "names",
    "read_host_time",
]
