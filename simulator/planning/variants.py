"""Variants of a scenario as people write them on a command line."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.errors import InputError
from simulator.scenario.overrides import Override, parse_override

OPENING, CLOSING = "[{(", "]})"


def parse_variant(text: str, option: str = "--variant") -> tuple[str, list[str]]:
    """Read ``"big batch: scheduler.max_num_seqs=256, kv_cache.block_size=32"``.

    Commas inside brackets, braces and quotes belong to the value.  Nothing behind the
    colon is the scenario as it is.

    Parameters
    ----------
    option : of the command line that it was given with, for messages about it.

    Raises
    ------
    InputError : without a name, or for a piece that is not ``key=value``.
    """
    name, colon, rest = text.partition(":")
    name = name.strip()
    if not colon or not name or "=" in name:
        raise InputError(
            f'{option} {text!r} has no name; write "name: key=value, key=value", such as '
            '"big batch: scheduler.max_num_seqs=256".'
        )
    overrides = [piece.strip() for piece in split_outside(rest) if piece.strip()]
    for piece in overrides:
        if "=" not in piece:
            raise InputError(
                f"{option} {name}: {piece!r} sets nothing; write key=value, such as "
                "scheduler.max_num_seqs=256."
            )
    return name, overrides


def split_outside(text: str) -> list[str]:
    """Split at the commas that stand in no bracket, brace or quote."""
    pieces, depth, quote, start = [], 0, "", 0
    for index, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in OPENING:
            depth += 1
        elif char in CLOSING:
            depth -= 1
        elif char == "," and depth == 0:
            pieces.append(text[start:index])
            start = index + 1
    return [*pieces, text[start:]]


def collect_variants(variants: Sequence[str], schedulers: str | None) -> dict[str, list[Override]]:
    """Overrides by name, from ``--variant`` and ``--schedulers``, in that order.

    Raises
    ------
    InputError : for fewer than two variants, or two of the same name.
    """
    found: dict[str, list[Override]] = {}
    triples = [(*parse_variant(text), "--variant") for text in variants]
    for name in (schedulers or "").split(","):
        if name.strip():
            triples.append((name.strip(), [f"scheduler.policy={name.strip()}"], "--schedulers"))
    for name, overrides, option in triples:
        if name in found:
            raise InputError(f"two variants are called {name!r}; give each its own name.")
        found[name] = [parse_override(text, f"{option} {name}") for text in overrides]
    if len(found) < 2:
        raise InputError(
            f"compare needs at least two variants and got {len(found)}; give --schedulers "
            'static,continuous,chunked_prefill, or --variant "name: key=value" twice.'
        )
    return found
