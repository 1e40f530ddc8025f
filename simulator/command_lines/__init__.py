"""Scenarios of the command lines that people already have.

`words` takes a command apart, `serve` and `bench` say which keys its flags are, `told` why
the others play no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.command_lines import bench, serve
from simulator.command_lines.told import Told
from simulator.command_lines.words import Arity, Command, Kind, parse
from simulator.errors import InputError
from simulator.scenario import Scenario
from simulator.scenario.overrides import Override, apply_overrides

# What `vllm bench serve` does when nothing is said; overridden wherever something is.
_BASE = {
    "workload": {
        "arrivals": {"process": "burst"},
        "lengths": {"distribution": "fixed", "prompt_tokens": 1024, "output_tokens": 128},
        "num_requests": 1000,
    },
    "model": "llama-3.1-8b",
}


@dataclass(frozen=True)
class Translation:
    """A scenario made from commands.

    Attributes
    ----------
    mapping : what its file holds.
    told : what was not taken over, and why.
    """

    mapping: dict[str, Any]
    told: list[Told]


def from_commands(
    texts: Sequence[str], extra: Sequence[Override] = (), base_dir: Path | str = "."
) -> Translation:
    """The scenario of `vllm serve ...` and, if it is there, `vllm bench serve ...`.

    Parameters
    ----------
    texts : one command line each, in any order; none of it is executed.
    extra : settings that the commands do not tell, such as the GPU; they come last.
    base_dir : folder that paths are relative to.

    Raises
    ------
    InputError : for a command or a value that no scenario can be made of.
    """
    commands: dict[str, Command] = {}
    arities: dict[Kind, dict[str, Arity]] = {
        "serve": serve.arities(),
        "bench": bench.arities(),
    }
    for text in texts:
        command = parse(text, arities, serve.SHORT)
        if command.kind in commands:
            raise InputError(f"two commands of the kind vllm {command.kind} are given; give one")
        commands[command.kind] = command
    if "serve" not in commands:
        raise InputError('no engine is given; add its command, such as "vllm serve MODEL"')
    overrides, told = serve.translate(commands["serve"])
    told += _surroundings(commands)
    if "bench" in commands:
        more, why = bench.translate(commands["bench"])
        overrides, told = overrides + more, told + why
    else:
        why_not = "no load is given: 1,000 prompts at once, its defaults"
        told.append(Told("vllm bench serve", why_not, matters=True))
    overrides += extra
    Scenario.from_mapping(_BASE, base_dir).with_overrides(overrides)
    mapping = apply_overrides(_BASE, overrides)
    return Translation({"name": "from-command", **mapping}, told)


def _surroundings(commands: dict[str, Command]) -> list[Told]:
    """What stands before the programs."""
    return [
        Told(assignment.partition("=")[0], "an environment variable, which is not read", False)
        for command in commands.values()
        for assignment in command.environment
    ]
