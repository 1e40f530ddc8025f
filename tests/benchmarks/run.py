"""Print the table of speeds: ``python tests/benchmarks/run.py [SECTION ...]``.

Sections: throughput, reference, queue, startup, million, sweep; all if none is named.  Figures are
processor time, the least of several runs, except where both times are shown.  On a busy
machine even that is up to a half more than on an idle one, so the load is printed.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import command_speed
import engine_speed
import sweep_speed

SECTIONS = {
    "throughput": engine_speed.throughput,
    "reference": engine_speed.against_reference,
    "queue": engine_speed.step_under_queue,
    "startup": command_speed.start_up,
    "million": command_speed.million,
    "sweep": sweep_speed.sweep,
}


def main(names: list[str]) -> None:
    """Print the sections as one Markdown table."""
    unknown = sorted(set(names) - set(SECTIONS))
    if unknown:
        sys.exit(f"unknown section {unknown[0]}: choose from {', '.join(SECTIONS)}")
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}\n"
    )
    print("| what | measured | floor |\n|---|---|---|")
    for name in names or SECTIONS:
        for what, figure, floor in SECTIONS[name]():
            print(f"| {what} | {figure} | {floor} |", flush=True)
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
