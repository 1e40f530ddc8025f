"""PyTorch, which only profiling needs."""

from __future__ import annotations

from typing import Any

from cost_models.errors import InputError


def torch_module() -> Any:
    """The torch package.

    Raises
    ------
    InputError : when it is not installed; names the extra.
    """
    try:
        import torch
    except ImportError:
        raise InputError(
            "profiling needs torch; install it with `pip install 'servecast[profile]'`."
        ) from None
    return torch
