"""The one error a user can cause; see `cost_models.errors`."""

from cost_models.errors import InputError

__all__ = ["InputError"]
