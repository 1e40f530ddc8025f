"""The identity of a scenario: equal hashes give equal results."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from cost_models import calibration, effects
from cost_models.catalog import files, model
from simulator.errors import InputError
from simulator.scenario.files import code, code_file, data_files
from simulator.scenario.pools import POOLS

# Raised whenever the same scenario starts to give other results.
SEMANTICS_VERSION = 1


def hash_of(mapping: dict[str, Any], base_dir: Path) -> str:
    """SHA-256, in hex, of a scenario and of the contents of the files that it names.

    Parameters
    ----------
    mapping : the scenario in plain types, defaults included; its name does not count.
    base_dir : folder to which its relative paths refer.
    """
    scenario = json.loads(json.dumps({k: v for k, v in mapping.items() if k != "name"}))
    for named in data_files(scenario):
        named.rename(file_sha256(base_dir / named.path))
    text = json.dumps(
        {"semantics": SEMANTICS_VERSION, "scenario": scenario, "facts": _facts(mapping, base_dir)},
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    )
    return hashlib.sha256(text.encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256, in hex, of a file's bytes, or of the names and bytes of a folder's files."""
    if path.is_dir():
        inside = sorted(p for p in path.iterdir() if p.is_file())
        listed = "".join(f"{p.name} {file_sha256(p)}\n" for p in inside)
        return hashlib.sha256(listed.encode()).hexdigest()
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _facts(mapping: dict[str, Any], base_dir: Path) -> dict[str, str]:
    """Digests of catalogue entries, coefficients and code of the user's that it works with."""
    if mapping["cluster"].get("pools"):
        return _facts_of_pools(mapping, base_dir)
    cluster = mapping["cluster"]
    spec = mapping["model"] if isinstance(mapping["model"], dict) else {"name": mapping["model"]}
    spec = {**spec, "name": at_base(spec["name"], base_dir)}
    paths = {
        "model": files.find("models", spec["name"]),
        "gpu": files.find("gpus", at_base(cluster["gpu"], base_dir)),
        "engine": files.find("engines", cluster["engine"]),
    }
    if mapping["cost_model"]["kind"] == "calibrated":
        gpu_name, engine = paths["gpu"].stem, cluster["engine"]
        for what, path in calibration.files_used(model(spec), gpu_name, engine).items():
            if path.is_file():  # the user's own may stand in
                paths[f"coefficients {what}"] = path
        measured_effects = effects.path(gpu_name, engine)
        if measured_effects is not None:
            paths["effects"] = measured_effects
    cost = mapping["cost_model"]
    for key in ("path", "host"):
        if cost.get(key):
            paths[f"cost_model.{key}"] = base_dir / cost[key]
    for index, path in enumerate(cost.get("coefficients", ())):
        paths[f"cost_model.coefficients {index}"] = base_dir / path
    for named in code(mapping):
        source = code_file(named, base_dir)
        if source is not None:
            paths[f"code of {named.key}"] = source
    return {key: file_sha256(path) for key, path in paths.items()}


def _facts_of_pools(mapping: dict[str, Any], base_dir: Path) -> dict[str, str]:
    """What both pools work with, each like a cluster of its own."""
    found: dict[str, str] = {}
    for name in POOLS:
        gpu = mapping["cluster"]["pools"][name].get("gpu", mapping["cluster"]["gpu"])
        one = {**mapping, "cluster": {**mapping["cluster"], "gpu": gpu, "pools": None}}
        found |= {f"{name} {key}": value for key, value in _facts(one, base_dir).items()}
    return found


def at_base(name: str, base_dir: Path) -> str:
    """A catalogue name as it is; the path of a user's file seen from `base_dir`."""
    path = base_dir / name
    return str(path) if path.is_file() else name
