"""A command line taken apart: which program, and each flag with its values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from simulator.errors import InputError

Kind = Literal["serve", "bench"]
Arity = Literal["switch", "one", "many"]

_IMAGE = re.compile(r"vllm/vllm-openai(?::v?(\d+\.\d+(?:\.\d+)?)\S*)?")
_MODULE = "vllm.entrypoints.openai.api_server"
_SCRIPT = "benchmark_serving.py"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_NEGATIVE = re.compile(r"-\d+(\.\d+)?")


class Option(NamedTuple):
    """A flag as it was written, its name without dashes, and its values."""

    written: str
    name: str
    values: list[str]


@dataclass
class Command:
    """A command line.

    Attributes
    ----------
    kind : what it starts.
    positional : words that belong to no flag.
    options : flags in order.
    version : of the engine, where the name of a container image tells it.
    environment : variables that are set in front of it.
    """

    kind: Kind
    positional: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    version: str | None = None
    environment: list[str] = field(default_factory=list)


def parse(
    text: str, arities: Mapping[Kind, Mapping[str, Arity]], short: Mapping[str, str]
) -> Command:
    """Take a command line apart; nothing in it is executed or expanded.

    Parameters
    ----------
    text : as in a shell, continued lines included.
    arities : how many values each known flag of a program has.  An unknown flag has one if
        a word that is no flag follows.
    short : name of each flag that is written with one dash.

    Raises
    ------
    InputError : quotes that do not match, or neither `vllm serve` nor `vllm bench serve`.
    """
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise InputError(f"{_short(text)}: {error}; check its quotes") from None
    command, rest = _program(words, text)
    known = arities[command.kind]
    while rest:
        word = rest.pop(0)
        if not _is_flag(word):
            command.positional.append(word)
            continue
        written, equals, value = word.partition("=")
        name = _name(written, short)
        values = [value] if equals else []
        arity = known.get(name, known.get(name.split(".")[0], "one"))
        most = {"switch": 0, "one": 1, "many": len(rest)}[arity] if not equals else 0
        while rest and most > 0 and not _is_flag(rest[0]):
            values.append(rest.pop(0))
            most -= 1
        command.options.append(Option(written, name, values))
    return command


def _program(words: list[str], text: str) -> tuple[Command, list[str]]:
    """The program, and the words behind it."""
    environment = []
    while words and _ASSIGNMENT.fullmatch(words[0]):
        environment.append(words.pop(0))
    for place, word in enumerate(words):
        after = words[place + 1 :]
        image = _IMAGE.fullmatch(word)
        if word.split("/")[-1] == "vllm" and after[:1] == ["serve"]:
            return Command("serve", environment=environment), after[1:]
        if word.split("/")[-1] == "vllm" and after[:2] == ["bench", "serve"]:
            return Command("bench", environment=environment), after[2:]
        if word.endswith(_SCRIPT):
            return Command("bench", environment=environment), after
        if word == _MODULE:
            return Command("serve", environment=environment), after
        if image:
            return Command("serve", version=image[1], environment=environment), after
    raise InputError(
        f"{_short(text)}: is neither `vllm serve` nor `vllm bench serve`; give one of each, in "
        "quotes"
    )


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word != "-" and not _NEGATIVE.fullmatch(word)


def _name(written: str, short: Mapping[str, str]) -> str:
    """``--max_num_seqs`` as ``max-num-seqs``, as vLLM's parser takes both."""
    if written.startswith("--"):
        head, dot, tail = written[2:].partition(".")
        return head.replace("_", "-") + dot + tail
    return short.get(written.rstrip("0123456789"), written.lstrip("-"))


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 50 else flat[:47] + "...")
