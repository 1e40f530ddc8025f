"""Reading a user's CSV file."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from cost_models.errors import InputError


def read_csv(path: Path, comment: str | None = None) -> pd.DataFrame:
    """The table in a file; what follows `comment` on a line is left out.

    Raises
    ------
    InputError : when it cannot be read, or is no CSV.
    """
    try:
        return pd.read_csv(path, comment=comment)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path}: cannot be read as CSV ({error}).") from None
