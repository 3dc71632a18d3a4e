"""Derives the arguments of a tool from a function's parameters: types, defaults and descriptions."""

import inspect
import re
from collections.abc import Callable
from copy import deepcopy
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct, field

from asyncagents.engine.tool import ToolContext
from asyncagents.errors import InvalidInput

_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters):\s*$", re.MULTILINE)
_ENTRY = re.compile(r"^\s*\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.+)$")
_OTHER = re.compile(r"^(Returns|Raises|Yields|Examples?|Notes?):\s*$")


class ToolSignature(Struct, frozen=True):
    args: type[Any]
    """A struct with a field for each parameter that the model gives."""
    description: str
    context: str | None
    """The parameter that gets the `ToolContext`."""


def tool_signature(function: Callable[..., Any]) -> ToolSignature:
    """Read the signature of a function. Raises `InvalidInput`, which says what to write instead."""
    name = getattr(function, "__name__", type(function).__name__)
    hints = _hints(function, name)
    description, entries = _split_docstring(inspect.getdoc(function) or "")
    fields: list[tuple[str, Any, Any]] = []
    context = None
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name)
        if hint is ToolContext:
            context = parameter.name
            continue
        fields.append(_field(parameter, hint, entries.get(parameter.name), name))
    args = msgspec.defstruct(name, fields, kw_only=True, frozen=True, module=function.__module__)
    try:
        msgspec.json.schema_components([args])
    except TypeError as error:
        why = f"{error}".rpartition("\n")[2]  # the lines before it are about msgspec
        raise InvalidInput(f"the tool {name} has a parameter that JSON cannot express: {why}") from error
    return ToolSignature(args, description or name.replace("_", " "), context)


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise InvalidInput(
            f"the types of the tool {name} cannot be read ({error}): name types that its module knows"
        ) from error


def _field(
    parameter: inspect.Parameter, hint: Any, description: str | None, name: str
) -> tuple[str, Any, Any]:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise InvalidInput(f"the tool {name} takes {parameter}: a model gives arguments by name, each once")
    if hint is None:
        raise InvalidInput(f"the parameter {parameter.name} of the tool {name} has no type: write one")
    kind = _with_description(hint, description)
    if parameter.default is parameter.empty:
        return parameter.name, kind, msgspec.NODEFAULT
    if isinstance(parameter.default, list | dict | set | bytearray):
        return parameter.name, kind, field(default_factory=lambda: deepcopy(parameter.default))
    return parameter.name, kind, parameter.default


def _with_description(hint: Any, description: str | None) -> Any:
    """Add the description of `Annotated[int, "how many"]`, or else of the docstring's entry."""
    if get_origin(hint) is Annotated:
        kind, *extras = get_args(hint)
        texts = [extra for extra in extras if isinstance(extra, str)]
        metas = [extra for extra in extras if isinstance(extra, Meta)]
        for meta in metas:
            kind = Annotated[kind, meta]
        description = (
            texts[0] if texts else (None if any(meta.description for meta in metas) else description)
        )
        hint = kind
    return Annotated[hint, Meta(description=description)] if description else hint


def _split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into the text before the list of arguments, and that list."""
    section = _SECTION.search(text)
    if section is None:
        return text.strip(), {}
    entries: dict[str, str] = {}
    last = None
    for line in text[section.end() :].splitlines():
        if _OTHER.match(line):
            break
        entry = _ENTRY.match(line)
        if entry:
            last = entry[1]
            entries[last] = entry[2].strip()
        elif last and line.strip():
            entries[last] += f" {line.strip()}"
    return text[: section.start()].strip(), entries
