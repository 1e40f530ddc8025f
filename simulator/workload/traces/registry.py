"""The formats that are read, and how a file's format is found."""

from __future__ import annotations

import difflib

from simulator.errors import InputError
from simulator.workload.traces.apex import APEX
from simulator.workload.traces.azure import AZURE
from simulator.workload.traces.bailian import BAILIAN
from simulator.workload.traces.blis import BLIS
from simulator.workload.traces.burstgpt import BURSTGPT
from simulator.workload.traces.dynamo import DYNAMO
from simulator.workload.traces.layout import Layout
from simulator.workload.traces.llmservingsim import LLMSERVINGSIM
from simulator.workload.traces.mooncake import MOONCAKE, TIMED_TRACE
from simulator.workload.traces.own import OWN
from simulator.workload.traces.source import Source
from simulator.workload.traces.splitwise import SPLITWISE
from simulator.workload.traces.texts import holds_texts
from simulator.workload.traces.tracelab import TRACELAB
from simulator.workload.traces.tracelab_rounds import TRACELAB_ROUNDS
from simulator.workload.traces.vidur import VIDUR
from simulator.workload.traces.weka import WEKA

FORMATS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        AZURE,
        BURSTGPT,
        VIDUR,
        SPLITWISE,
        MOONCAKE,
        TIMED_TRACE,
        DYNAMO,
        BAILIAN,
        LLMSERVINGSIM,
        BLIS,
        WEKA,
        TRACELAB,
        TRACELAB_ROUNDS,
        APEX,
        OWN,
    )
}


def find_format(source: Source, names: list[str], format: str) -> tuple[Layout, str]:
    """The layout for a file with these columns, and the reason for it."""
    if format != "auto":
        return _named(source, names, format), "as asked"
    matching = [
        layout
        for layout in FORMATS.values()
        if source.kind in layout.kinds and not layout.missing(names)
    ]
    # Formats with some columns in common differ in the others: most of its own wins.
    known = {la.name: la.known(names) for la in matching}
    most = max(map(len, known.values()), default=0)
    best = [la for la in matching if len(known[la.name]) == most]
    if len(best) == 1:
        return best[0], f"since it has {', '.join(known[best[0].name])}"
    if best:
        raise InputError(
            f"{source.path}: its columns fit {' and '.join(la.name for la in best)} alike "
            f"({'; '.join(f'{la.name}: {la.about}' for la in best)}); say which with format"
        )
    if holds_texts(names):
        raise InputError(
            f"{source.path} holds texts and no times; give workload.arrivals, and the file as "
            "workload.lengths: {distribution: empirical, file: ..., tokens_per_word: ...}"
        )
    if {"t_s", "rate_rps"} <= set(names):
        raise InputError(
            f"{source.path} holds rates and no requests; give it as workload.arrivals: "
            "{process: diurnal, file: ...}, with workload.lengths"
        )
    formats = "; ".join(
        f"{la.name}: {', '.join(la.required)}" for la in FORMATS.values() if source.kind in la.kinds
    )
    raise InputError(
        f"{source.path}: no known trace format has its columns ({few(names)}); known are "
        f"{formats}; rename the columns, or check that the first line is the header"
    )


def format_named(name: str) -> Layout:
    """The format of this name."""
    if name not in FORMATS:
        close = difflib.get_close_matches(name, FORMATS, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        known = ", ".join((*FORMATS, "servegen (a folder, only read)"))
        raise InputError(f"trace format {name!r} is not known; {hint}known: {known}")
    return FORMATS[name]


def _named(source: Source, names: list[str], format: str) -> Layout:
    layout = format_named(format)
    if source.kind not in layout.kinds:
        raise InputError(
            f"{source.path} is {source.kind}, but format {format} is written as "
            f"{' or '.join(layout.kinds)}; use format: auto, or another file"
        )
    missing = layout.missing(names)
    if missing:
        raise InputError(
            f"{source.path} has no column {', '.join(missing)}, which format {format} needs; "
            f"it has {few(names)}; use format: auto, or rename the columns"
        )
    return layout


def few(names: list[str]) -> str:
    """Names for a sentence, without flooding it."""
    shown = [name if len(name) <= 40 else name[:37] + "..." for name in names[:10]]
    shown = [name if name.isprintable() else ascii(name) for name in shown]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
