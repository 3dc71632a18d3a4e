"""`/agent`, `/command` and `/skill`: agents, commands and skills of a directory."""

from functools import partial
from typing import Any, Literal

from asyncagents.config.markdown.skills import Skill, read_skill
from asyncagents.domain.agent.agent import Agent, Mode
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import Rule
from asyncagents.domain.shape import Shape
from asyncagents.engine.input.intake import COMPACT_COMMANDS, CommandInfo
from asyncagents.engine.workplace.project import Project
from asyncagents.errors import ToolError
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.opencode.provider_shape import visible_options
from asyncagents.server.opencode.workplace import request_workplace
from asyncagents.server.params import directory
from asyncagents.server.route import Routes, ServerContext

routes = Routes()

_ASKS = Rule(permission="*", pattern="*", action="ask")


class AgentModel(Shape, frozen=True, kw_only=True):
    model_id: str
    provider_id: str


class AgentInfo(Shape, frozen=True, kw_only=True):
    name: str
    mode: Mode
    permission: tuple[Rule, ...]
    options: dict[str, Any]
    native: bool
    description: str | None = None
    hidden: bool = False
    top_p: float | None = None
    temperature: float | None = None
    color: str | None = None
    model: AgentModel | None = None
    variant: str | None = None
    prompt: str | None = None
    steps: int | None = None


class CommandShown(Shape, frozen=True, kw_only=True):
    name: str
    source: Literal["command", "mcp"]
    template: str
    hints: tuple[str, ...]
    description: str | None = None
    agent: str | None = None
    model: str | None = None
    subtask: bool | None = None


class SkillInfo(Shape, frozen=True, kw_only=True):
    name: str
    location: str
    content: str
    description: str


@routes.get("/agent", access="token", directory=True, response=tuple[AgentInfo, ...])
async def agents(server: ServerContext, request: Request) -> Response:
    """List the agents of a directory with their rules.

    The default first, then by name. Without config files there is one agent, which asks for everything."""
    workplace = await request_workplace(server, request)
    if isinstance(workplace, Project):
        return json_response([_agent(each) for each in workplace.agents.list(hidden=True)])
    name = server.runtime.defaults.agent
    return json_response([AgentInfo(name=name, mode="primary", permission=(_ASKS,), options={}, native=True)])


def _agent(agent: Agent) -> AgentInfo:
    return AgentInfo(
        name=agent.name,
        mode=agent.mode,
        permission=agent.layers.rules,
        options=visible_options(agent.options),
        native=agent.native,
        description=agent.description,
        hidden=agent.hidden,
        top_p=agent.top_p,
        temperature=agent.temperature,
        color=agent.color,
        model=_model(agent.model),
        variant=agent.variant,
        prompt=agent.prompt or None,
        steps=agent.steps,
    )


def _model(ref: ModelRef | None) -> AgentModel | None:
    return AgentModel(model_id=ref.model_id, provider_id=ref.provider_id) if ref else None


@routes.get("/command", access="token", directory=True, response=tuple[CommandShown, ...])
async def commands(server: ServerContext, request: Request) -> Response:
    """List the slash commands of a directory.

    Omits `compact`: OpenCode's clients have it built in, and would show it twice."""
    await request_workplace(server, request)
    known = await server.runtime.commands(directory(server, request))
    return json_response([_command(each) for each in known if each.name not in COMPACT_COMMANDS])


def _command(info: CommandInfo) -> CommandShown:
    return CommandShown(
        name=info.name,
        source="command",
        template=info.template,
        hints=info.hints,
        description=info.description,
        agent=info.agent,
        model=info.model,
        subtask=info.subtask,
    )


@routes.get("/skill", access="token", directory=True, response=tuple[SkillInfo, ...])
async def skills(server: ServerContext, request: Request) -> Response:
    """List the skills of a directory with their content."""
    workplace = await request_workplace(server, request)
    if not isinstance(workplace, Project):
        return json_response([])
    return json_response(await server.blocking.run(partial(_read_all, workplace.skills)))


def _read_all(skills: tuple[Skill, ...]) -> list[SkillInfo]:
    """Read all skills; one that has disappeared is skipped."""
    found = []
    for skill in skills:
        try:
            content = read_skill(skill)
        except ToolError:
            continue
        found.append(
            SkillInfo(
                name=skill.name, location=str(skill.path), content=content, description=skill.description
            )
        )
    return found
