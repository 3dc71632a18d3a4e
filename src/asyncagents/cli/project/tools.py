"""`asyncagents tools`: list the tools of an agent, with the rules for each."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.options import data_dir_option, directory_option, json_option, project_folder
from asyncagents.cli.project.agents import find_agent, print_warnings
from asyncagents.cli.project.open import open_project
from asyncagents.cli.terminal.screen import print_table
from asyncagents.domain.agent.permission import (
    GUARDED_PLACE,
    UNCLEAR,
    WEBFETCH,
    WEBFETCH_LOCAL,
    Action,
    evaluate,
    is_hidden,
    match,
    permission_of,
)
from asyncagents.domain.call.call import Effect
from asyncagents.domain.conversation.session import Rule
from asyncagents.engine.tool import AnyTool


@click.command()
@click.option("--agent", metavar="NAME", help="The agent; default: the default agent.")
@click.option(
    "--all", "everything", is_flag=True, help="Include tools that are denied, and so hidden from the model."
)
@json_option
@directory_option
@data_dir_option
def tools(
    *, agent: str | None, everything: bool, as_json: bool, directory: Path, data_dir: Path | None
) -> None:
    """List the tools of an agent and the rules for each.

    `effect` says what a repeated run does: nothing (none), the same again (idempotent), or harm (once).
    Approvals (answers `always`) are not considered.
    """
    import asyncio

    asyncio.run(
        show_tools(project_folder(directory), data_dir, agent, everything=everything, as_json=as_json)
    )


MAX_EXCEPTIONS = 3
"""Exceptions shown for a tool; --json has all."""

_OTHER_PERMISSION = {"bash": UNCLEAR, WEBFETCH: WEBFETCH_LOCAL}
"""The other permission that a tool may ask for."""


class PatternAction(Struct, frozen=True):
    """A pattern with another action than the tool's default."""

    pattern: str
    action: Action


class ToolRow(Struct, frozen=True, kw_only=True):
    name: str
    description: str
    effect: Effect
    permission: str
    action: Action
    exceptions: tuple[PatternAction, ...]
    hidden: bool


async def show_tools(
    directory: Path, data_dir: Path | None, agent: str | None, *, everything: bool, as_json: bool
) -> None:
    async with open_project(directory, data_dir) as opened:
        agents = opened.project.agents
        rules = find_agent(agents, agent or agents.default().name).layers.rules
        rows = [tool_row(tool, rules) for tool in opened.project.tools.values()]
        rows = [row for row in rows if everything or not row.hidden]
        click.echo(msgspec.json.encode(rows)) if as_json else _print_rows(rows)
        print_warnings(opened.warnings)
        if any(server.config.enabled for server in opened.servers):
            click.echo("tools of MCP servers are listed by `asyncagents mcp list`", err=True)


def tool_row(tool: AnyTool, rules: Sequence[Rule]) -> ToolRow:
    permission = permission_of(tool.name)
    action = evaluate(rules, permission, "*")
    return ToolRow(
        name=tool.name,
        description=tool.description.strip().partition("\n")[0],
        effect=tool.effect,
        permission=permission,
        action=action,
        exceptions=tuple(_exceptions(permission, action, rules)),
        hidden=is_hidden(rules, tool.name),
    )


def _exceptions(permission: str, action: Action, rules: Sequence[Rule]) -> list[PatternAction]:
    patterns = dict.fromkeys(rule.pattern for rule in rules if match(rule.permission, permission))
    found = [PatternAction(each, evaluate(rules, permission, each)) for each in patterns if each != "*"]
    if (other := _OTHER_PERMISSION.get(permission)) is not None:
        found.append(PatternAction(other, evaluate(rules, other, "*")))
    if permission in {"bash", "edit", "read"} and action != "deny":
        found.append(PatternAction(GUARDED_PLACE, evaluate(rules, GUARDED_PLACE, "*")))
    return [each for each in found if each.action != action]


def _print_rows(rows: Sequence[ToolRow]) -> None:
    head = ("tool", "rules", "effect", "")
    print_table([head, *(_cells(row) for row in rows)], flexible=3)


def _cells(row: ToolRow) -> tuple[str, ...]:
    named = [f"{each.action} {each.pattern}" for each in row.exceptions[:MAX_EXCEPTIONS]]
    more = len(row.exceptions) - len(named)
    but = ", ".join([*named, *([f"{more} more"] if more else [])])
    action = f"{row.action} ({but})" if but else row.action
    return row.name, f"{action}, hidden" if row.hidden else action, row.effect, row.description
