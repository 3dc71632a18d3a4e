"""Tools that files and plugins bring, beside the built-in ones and those of the program."""

from collections.abc import Sequence

from msgspec import Struct

from asyncagents.engine.tool import AnyTool

BUILT_IN = frozenset(
    {
        *("read", "list", "glob", "grep", "edit", "write", "patch", "bash"),
        *("webfetch", "todowrite", "todoread", "question", "skill", "wait"),
    }
)


class Added(Struct, frozen=True):
    """A tool, where it comes from, and whether that is the user's own."""

    tool: AnyTool
    origin: str
    own: bool


def with_added(tools: Sequence[AnyTool], added: Sequence[Added]) -> tuple[tuple[AnyTool, ...], list[str]]:
    """The first of a name counts. Only the user's own may stand in for a built-in one, in its place."""
    new: dict[str, Added] = {}
    told: list[str] = []
    known = {tool.name for tool in tools}
    for each in added:
        name = each.tool.name
        if name in new:
            told.append(
                f"{each.origin}: the tool {name} counts for nothing: {new[name].origin} has it already"
            )
        elif name in BUILT_IN and not each.own:
            told.append(
                f"{each.origin}: the tool {name} counts for nothing: a project may not replace this one"
            )
        elif name in known and name not in BUILT_IN:
            told.append(f"{each.origin}: the tool {name} counts for nothing: the program brings its own")
        else:
            new[name] = each
    laid = [new.pop(tool.name).tool if tool.name in new else tool for tool in tools]
    return (*laid, *(each.tool for each in new.values())), told
