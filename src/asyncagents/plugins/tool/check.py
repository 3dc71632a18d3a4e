"""Checks tools of plugins and files: a tool that a provider refuses would fail every request."""

import math
import re
from collections.abc import Iterable
from typing import Any, get_args

from asyncagents.domain.call.call import Effect
from asyncagents.engine.tool import AnyTool

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def usable_tools(tools: Iterable[AnyTool]) -> tuple[tuple[AnyTool, ...], list[str]]:
    """Return the usable tools, and a warning for each other one."""
    good: list[AnyTool] = []
    warnings: list[str] = []
    for tool in tools:
        why = why_unusable(tool)
        if why is None:
            good.append(tool)
        else:
            warnings.append(f"the tool {str(tool.name)[:80]!r} is ignored: {why}")
    return tuple(good), warnings


def why_unusable(tool: AnyTool) -> str | None:
    """Return why a tool cannot be offered, for its author; None if it can. Types are not trusted."""
    name: Any = tool.name
    text: Any = tool.description
    seconds: Any = tool.timeout
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return "its name must be up to 64 letters, digits, - and _"
    if not isinstance(text, str):
        return "its description must be a text"
    if tool.effect not in get_args(Effect):
        return f"its effect must be one of {', '.join(get_args(Effect))}"
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        return "its timeout must be a number of seconds"
    return _schema_problem(tool)


def _schema_problem(tool: AnyTool) -> str | None:
    try:
        schema = tool.spec().parameters
    except Exception as error:  # noqa: BLE001  foreign types
        return f"its arguments cannot be described: {error}"
    return None if schema.get("type") == "object" else "its arguments must be an object: use a Struct"
