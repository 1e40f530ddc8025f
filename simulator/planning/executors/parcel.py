"""Files of a scenario, packed for a machine that does not have them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Parcel:
    """A folder and files named relative to it, ``..`` included.

    Attributes
    ----------
    files : bytes of each, by its path from the lowest folder that holds all of them.
    base : path of the folder from there.
    """

    files: dict[str, bytes]
    base: str

    @classmethod
    def of(cls, names: Iterable[str], base_dir: Path) -> Parcel:
        """Pack the files that `names` are, seen from `base_dir`."""
        base = os.path.abspath(base_dir)
        paths = sorted({os.path.normpath(os.path.join(base, name)) for name in names})
        top = os.path.commonpath([base, *map(os.path.dirname, paths)])
        return cls(
            {os.path.relpath(path, top): Path(path).read_bytes() for path in paths},
            os.path.relpath(base, top),
        )

    def unpack(self, folder: Path) -> Path:
        """Write the files below `folder`; returns what stands for the folder they were named from.

        Raises
        ------
        OSError : where there is no room.
        """
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        base = folder / self.base
        base.mkdir(parents=True, exist_ok=True)
        return base
