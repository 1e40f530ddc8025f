"""Pydantic's findings as one sentence: the key, the value, what is allowed, what to do."""

from __future__ import annotations

import itertools
import re
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from simulator.scenario.arrivals import ArrivalsSpec
from simulator.scenario.autoscaler import AutoscalerSpec
from simulator.scenario.cost_model import CostModelSpec
from simulator.scenario.lengths import LengthsSpec
from simulator.scenario.overrides import Path, dotted
from simulator.scenario.unsupported import nearest
from simulator.scenario.workload import LognormalError
from simulator.words import counted


def _tags(union: Any, key: str) -> list[str]:
    """Values of the key that tells the members of an annotated union apart."""
    members = get_args(get_args(union)[0])
    return [get_args(member.model_fields[key].annotation)[0] for member in members]


_TAGS = {
    "process": _tags(ArrivalsSpec, "process"),
    "distribution": _tags(LengthsSpec, "distribution"),
    "kind": _tags(CostModelSpec, "kind"),
    "policy": _tags(AutoscalerSpec, "policy"),
}
# Names that pydantic puts in the path of an error and a file does not have.
_NOT_KEYS = frozenset(itertools.chain(*_TAGS.values(), [LognormalError.__name__]))
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "dict": "a mapping of keys",
    "model": "a mapping of keys",
    "model_attributes": "a mapping of keys",
    "tuple": "a list",
    "list": "a list",
}
_BOUNDS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_LENGTHS = {"too_short": ("min_length", "at least"), "too_long": ("max_length", "at most")}
_PREDICTOR = "{lognormal_error: sigma}"


def first_problem(error: ValidationError) -> tuple[Path, str]:
    """Path of the key that is wrong, and a sentence about it.

    A misspelt key is told first, since it makes others look missing.
    """
    found = error.errors(include_url=False)
    order = {"unknown_key": 0, "extra_forbidden": 0}
    details = min(found, key=lambda item: order.get(item["type"], 1))
    path = tuple(part for part in details["loc"] if part not in _NOT_KEYS)
    context: dict[str, Any] = details.get("ctx", {})
    if details["type"] in ("unknown_key", "missing_key"):
        path = (*path, context["key"])
    if not path and "error" in context:
        # About several sections: the sentence begins with the first key it is about.
        path = tuple(str(context["error"]).split()[0].rstrip(":").split("."))
    return path, _sentence(details, path, context)


def _sentence(details: ErrorDetails, path: Path, context: dict[str, Any]) -> str:
    kind, key = details["type"], dotted(path)
    if kind == "value_error":
        message = str(context["error"])
        # A section that can stand in several places does not know its own.
        return message if message.startswith(str(path[0])) else f"{key}: {message}"
    if kind == "unknown_key":
        return _unknown(key, path, context)
    if kind == "missing_key":
        about = f" ({context['about']})" if context["about"] else ""
        return f"{key}{about} is missing; add it"
    value = f"{key} is {show(details['input'])}"
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"{value}; it must be {words} {context[name]:g}"
    if kind in _LENGTHS:
        name, words = _LENGTHS[kind]
        return f"{value}; it must have {words} {counted(context[name], 'item')}"
    allowed = _allowed(kind, context)
    if allowed:
        given = details["input"]
        if kind == "union_tag_invalid" and _discriminator(context) in _TAGS:
            given = context["tag"]
            value = f"{key}.{_discriminator(context)} is {show(given)}"
        elif kind == "union_tag_not_found":
            return f"{key}.{_discriminator(context)} is missing; allowed: {', '.join(allowed)}"
        near = nearest(given, allowed) if isinstance(given, str) else None
        hint = f"; did you mean {near}?" if near else ""
        return f"{value}; allowed: {', '.join(allowed)}{hint}"
    if kind == "string_too_short":
        return f"{key} is empty; give it a value or remove it"
    if kind == "finite_number":
        return f"{value}; it must be a finite number"
    kind = kind.removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float")
    return f"{value}; it must be {_TYPES.get(kind, details['msg'])}"


def _unknown(key: str, path: Path, context: dict[str, Any]) -> str:
    allowed, section = context["allowed"], dotted(path[:-1])
    near = next(iter(context.get("near", [])), nearest(str(path[-1]), allowed))
    if near:
        return f"{key} is not a key of a scenario; did you mean {dotted((*path[:-1], near))}?"
    where = f"the keys of {section}" if section else "the keys"
    return f"{key} is not a key of a scenario; {where} are {', '.join(allowed)}"


def _allowed(kind: str, context: dict[str, Any]) -> list[str]:
    if kind == "not_allowed":
        return list(context["allowed"])
    if kind == "literal_error":
        names = re.findall(r"'([^']*)'|(True|False)", str(context["expected"]))
        return [quoted or bare.lower() for quoted, bare in names]
    if kind == "union_tag_invalid":
        names = re.findall(r"'([^']*)'", str(context["expected_tags"]))
        return [_PREDICTOR if name == LognormalError.__name__ else name for name in names]
    if kind == "union_tag_not_found":
        return _TAGS[_discriminator(context)]
    return []


def _discriminator(context: dict[str, Any]) -> str:
    return str(context["discriminator"]).strip("'")


def show(value: Any) -> str:
    """A value as the YAML file has it, cut to a readable length."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
