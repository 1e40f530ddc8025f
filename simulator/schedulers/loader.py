"""Find a policy by name: one of ours, or a user's as module:attr."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from simulator.engine.advance import Compose
from simulator.errors import InputError

BUILT_IN = ("static", "continuous", "orca", "sglang", "chunked_prefill")
# What chunked_prefill is compiled to with options, apart from it.
WITH_OPTIONS = ("step_options", "offloading", "decode_pool", "multi_lora")


def load_policy(name: str, base_dir: Path) -> Compose:
    """The ``compose`` function of a policy.

    Parameters
    ----------
    name : a built-in name; or ``package.module:attr``; or ``path/to/file.py:attr``, the path
        relative to `base_dir`.

    Raises
    ------
    InputError
        Nothing is found there, or it cannot be called.
    """
    if name in BUILT_IN or name in WITH_OPTIONS:
        return cast(Compose, importlib.import_module(f"simulator.schedulers.{name}").compose)
    return cast(Compose, load_attr(name, base_dir, "scheduler.policy", "(engine, r, now)"))


def load_attr(name: str, base_dir: Path, key: str, arguments: str) -> Callable[..., Any]:
    """The user's function ``module:attr`` or ``path/to/file.py:attr``.

    Parameters
    ----------
    key : of the scenario that names it.
    arguments : what it is called with, for the message where it is missing.
    """
    where, _, attribute = name.rpartition(":")
    module = _load_module(where, base_dir, f"{key} is {name}")
    found = getattr(module, attribute, None)
    if not isinstance(found, Callable):  # type: ignore[arg-type]
        raise InputError(
            f"{key} is {name}, but {where} has no function {attribute}; define "
            f"{attribute}{arguments} there"
        )
    return cast(Callable[..., Any], found)


def _load_module(where: str, base_dir: Path, about: str) -> ModuleType:
    if not where.endswith(".py"):
        try:
            return importlib.import_module(where)
        except ImportError as error:
            raise InputError(
                f"{about}, but the module cannot be imported ({error}); give "
                "an importable module or path/to/file.py:attr"
            ) from error
    path = (base_dir / where).resolve()
    if not path.is_file():
        raise InputError(
            f"{about}, but there is no file {path}; give the path of a Python "
            "file, relative to the scenario's folder"
        )
    # Numba's cache beside the file finds the module by name in later processes, so equal
    # content must have the same name wherever it lies, and other content another one.
    content = hashlib.sha256(path.read_bytes()).hexdigest()
    module_name = f"_servecast_policy_{path.stem}_{content[:16]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None  # it ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(
            f"{about}, but {path} fails on import ({type(error).__name__}: {error}); mend it"
        ) from error
    return module
