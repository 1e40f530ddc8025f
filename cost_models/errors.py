"""The one error a user can cause."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input, told in one sentence.

    The sentence names the file, line or key, the value found, what is allowed and what
    to do.  Commands print it as it is and exit with code 2.
    """
