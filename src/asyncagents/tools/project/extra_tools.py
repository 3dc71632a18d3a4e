"""Merge tools of tool files and plugins with the built-in tools and those of the embedding program."""

from collections.abc import Sequence

from msgspec import Struct

from asyncagents.engine.tool import AnyTool

BUILT_IN = frozenset(
    {
        *("read", "list", "glob", "grep", "edit", "write", "patch", "bash"),
        *("webfetch", "todowrite", "todoread", "question", "skill", "wait"),
    }
)


class ExtraTool(Struct, frozen=True):
    """A tool with its origin; `own`: the user added it, not the project."""

    tool: AnyTool
    origin: str
    own: bool


def merge_tools(
    tools: Sequence[AnyTool], added: Sequence[ExtraTool]
) -> tuple[tuple[AnyTool, ...], list[str]]:
    """Return all tools, and a warning for each ignored one. The first tool of a name wins.

    Only a user's own tool may replace a built-in one; it takes that tool's position.
    """
    new: dict[str, ExtraTool] = {}
    warnings: list[str] = []
    known = {tool.name for tool in tools}
    for each in added:
        name = each.tool.name
        if name in new:
            warnings.append(
                f"{each.origin}: the tool {name} is ignored: {new[name].origin} defines it already"
            )
        elif name in BUILT_IN and not each.own:
            warnings.append(
                f"{each.origin}: the tool {name} is ignored: a project may not replace a built-in tool"
            )
        elif name in known and name not in BUILT_IN:
            warnings.append(f"{each.origin}: the tool {name} is ignored: the program defines it already")
        else:
            new[name] = each
    laid = [new.pop(tool.name).tool if tool.name in new else tool for tool in tools]
    return (*laid, *(each.tool for each in new.values())), warnings
