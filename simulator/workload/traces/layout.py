"""How a trace format is declared: which columns it has and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from simulator.workload.traces.cells import CellKind
from simulator.workload.traces.records import Record
from simulator.workload.traces.source import Kind

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Field:
    """One column of a format.

    Attributes
    ----------
    role : what it is to the simulator: arrival, prompt_tokens, output_tokens, id,
        class_name, priority, max_tokens, or a name that only a `Check` reads.
    names : what the column or JSON key is called; the first is the usual one.
    kind : how its cells are written.
    required : whether a file without it has another format.
    default : value where an optional cell is empty; a column without one only serves the
        layout's checks.
    tells : whether a file's having it speaks for this format.
    """

    role: str
    names: tuple[str, ...]
    kind: CellKind
    required: bool = True
    default: int | float | str | bytes | None = None
    tells: bool = True

    def find(self, names: Iterable[str]) -> str | None:
        """This column among `names`, case and outer blanks aside; None when absent."""
        known = {name.strip().casefold(): name for name in names}
        return next((known[n.casefold()] for n in self.names if n.casefold() in known), None)


@dataclass(frozen=True)
class Check:
    """A rule between the cells of a row.

    Attributes
    ----------
    roles : the cells it looks at; a file that lacks one is not checked.
    holds : whether all is well, for numbers and for whole columns alike.
    rule : what is wrong with the row otherwise.
    """

    roles: tuple[str, ...]
    holds: Callable[..., Any]
    rule: str


@dataclass(frozen=True)
class Layout:
    """A trace format.

    Attributes
    ----------
    name : as in ``trace.format``.
    about : what writes or reads it, one line.
    kinds : ways of writing rows in which it comes.
    fields : its columns.
    unused : columns that matter in the source but not here yet, each with the sentence
        that says so.
    checks : rules between the cells of a row.
    block_tokens : tokens of a prompt that one of its block ids stands for.
    part_block : whether a prompt's last block, in part, has an id: True, False, or None for
        either way.
    local_ids : block ids are only the same within a session.
    outer : keys of an object that holds several requests, instead of `fields`' columns.
    unroll : the rows of such an object, with cells named as in `fields`.
    roll : such an object of the rows of one session, for writing.
    """

    name: str
    about: str
    kinds: tuple[Kind, ...]
    fields: tuple[Field, ...]
    unused: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    block_tokens: int | None = None
    part_block: bool | None = True
    local_ids: bool = False
    outer: tuple[str, ...] = ()
    unroll: Callable[[Record], Iterator[Record]] | None = None
    roll: Callable[[list[dict[str, Any]]], dict[str, Any]] | None = None

    @property
    def required(self) -> tuple[str, ...]:
        """Usual names of the columns that must be there."""
        return tuple(f.names[0] for f in self.fields if f.required)

    @property
    def written(self) -> bool:
        """Whether files of this format can be written, not only read."""
        return self.unroll is None or self.roll is not None

    def known(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that are columns of this format."""
        names = list(names)
        found = (f.find(names) for f in self.fields if f.tells)
        columns = [name for name in found if name is not None]
        return columns + [key for key in self.outer if key in names and key not in columns]

    def missing(self, names: Iterable[str]) -> list[str]:
        """Usual names of required columns that are not among `names`."""
        names = list(names)
        if self.outer and set(self.outer) <= set(names):
            return []
        return [f.names[0] for f in self.fields if f.required and f.find(names) is None]
