"""`asyncagents agents`: list the agents of a directory, or show one with its rules and prompt."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.exit import USAGE, CliError
from asyncagents.cli.options import data_dir_option, directory_option, json_option, project_folder
from asyncagents.cli.project.open import open_project
from asyncagents.cli.terminal.screen import one_line, plain, print_table
from asyncagents.config.file.check import suggestion
from asyncagents.domain.agent.agent import Agent
from asyncagents.domain.agent.backend import AcpBackend
from asyncagents.domain.agent.sandbox import Sandbox
from asyncagents.domain.conversation.session import Rule
from asyncagents.engine.workplace.agents import Agents


@click.command()
@click.argument("name", required=False)
@click.option("--all", "everyone", is_flag=True, help="Include hidden agents.")
@json_option
@directory_option
@data_dir_option
def agents(
    *, name: str | None, everyone: bool, as_json: bool, directory: Path, data_dir: Path | None
) -> None:
    """List the agents of this directory, or show one in full.

    The default agent is marked with a star. With NAME, its rules are shown by origin (a later rule overrides
    an earlier one), then its prompt. Files that cannot be used are listed on stderr.
    """
    import asyncio

    asyncio.run(show_agents(project_folder(directory), data_dir, name, everyone=everyone, as_json=as_json))


LAYERS = ("defaults", "config", "built_in", "agent")


class AgentRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent as `--json` prints it; rules and prompt only if NAME was given."""

    name: str
    mode: str
    model: str | None
    description: str | None
    origin: str
    default: bool
    hidden: bool
    steps: int | None = None
    sandbox: Sandbox | None = None
    backend: AcpBackend | None = None
    temperature: float | None = None
    rules: dict[str, tuple[Rule, ...]] | None = None
    prompt: str | None = None


async def show_agents(
    directory: Path, data_dir: Path | None, name: str | None, *, everyone: bool, as_json: bool
) -> None:
    async with open_project(directory, data_dir) as opened:
        agents = opened.project.agents
        if name is not None:
            agent = find_agent(agents, name)
            _print_json(_row(agent, agents, whole=True)) if as_json else _print_one(agent)
        else:
            rows = [_row(agent, agents) for agent in agents.list(hidden=everyone)]
            _print_json(rows) if as_json else _print_rows(rows)
        print_warnings(opened.warnings)


def print_warnings(warnings: Sequence[str]) -> None:
    for warning in warnings:
        click.echo(f"warning: {plain(warning)}", err=True)


def find_agent(agents: Agents, name: str) -> Agent:
    known = {agent.name: agent for agent in agents.list(hidden=True)}
    agents.check_trust(name)
    if name not in known:
        near = suggestion(name, list(known))
        instead = f"did you mean {near!r}?" if near else f"there are {', '.join(known)}"
        raise CliError(f"there is no agent {name!r}: {instead}", code=USAGE)
    return known[name]


def _row(agent: Agent, agents: Agents, *, whole: bool = False) -> AgentRow:
    return AgentRow(
        name=agent.name,
        mode=agent.mode,
        model=_model(agent),
        description=agent.description,
        origin=agent.origin,
        default=agent.name == agents.default().name,
        hidden=agent.hidden,
        steps=agent.steps,
        sandbox=agent.sandbox,
        backend=agent.backend,
        temperature=agent.temperature,
        rules={layer: getattr(agent.layers, layer) for layer in LAYERS} if whole else None,
        prompt=agent.prompt if whole else None,
    )


def _model(agent: Agent) -> str | None:
    return f"{agent.model.provider_id}/{agent.model.model_id}" if agent.model else None


def _sandbox(sandbox: Sandbox | None) -> str | None:
    if sandbox is None:
        return None
    network = {True: "a network", False: "no network", None: "a network if webfetch is not denied"}
    return ", ".join(("writes the project", *sandbox.write, network[sandbox.network]))


def _print_json(what: AgentRow | list[AgentRow]) -> None:
    click.echo(msgspec.json.encode(what))


def _print_rows(rows: Sequence[AgentRow]) -> None:
    head = ("", "agent", "mode", "model", "from", "")
    print_table([head, *(_cells(row) for row in rows)], flexible=5)


def _cells(row: AgentRow) -> tuple[str, ...]:
    mark = "*" if row.default else ""
    mode = f"{row.mode}, hidden" if row.hidden else row.mode
    works = f"acp: {row.backend.command_line}" if row.backend else row.model or "-"
    return mark, row.name, mode, works, row.origin, row.description or ""


def _print_one(agent: Agent) -> None:
    click.echo(plain(f"{agent.name}: {one_line(agent.description or 'no description')}"))
    facts = {
        "mode": f"{agent.mode}, hidden" if agent.hidden else agent.mode,
        "model": None if agent.backend else _model(agent) or "the session's",
        "backend": f"acp: {agent.backend.command_line}" if agent.backend else None,
        "from": agent.origin,
        "steps": None if agent.steps is None else str(agent.steps),
        "temperature": None if agent.temperature is None else f"{agent.temperature:g}",
        "sandbox": _sandbox(agent.sandbox),
    }
    for key, value in facts.items():
        if value is not None:
            click.echo(plain(f"{key}: {value}"))
    for layer in LAYERS:
        rules: tuple[Rule, ...] = getattr(agent.layers, layer)
        if rules:
            click.echo(f"\nrules, {layer.replace('_', ' ')}:")
            print_table([("", rule.action, rule.permission, rule.pattern) for rule in rules], flexible=3)
    if agent.prompt:
        click.echo(f"\nprompt:\n{plain(agent.prompt.strip())}")
