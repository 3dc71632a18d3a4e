"""`task`: launch another agent; the call stays open until the child ends."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from asyncagents.config.config import DelegationConfig
from asyncagents.delegation.launch import LaunchRequest, TaskLauncher
from asyncagents.delegation.texts import load_text
from asyncagents.domain.agent.permission import TASK
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.fact import Resume, Spawn
from asyncagents.domain.id import SessionId
from asyncagents.engine.tool import Ask, Pending, Tool, ToolContext, WithFacts

Description = Annotated[str, Meta(description="Three to five words.", min_length=1, max_length=500)]
Prompt = Annotated[str, Meta(description="The task, with all that the agent must know.", min_length=1)]


class TaskArgs(Struct, frozen=True, kw_only=True):
    description: Description
    prompt: Prompt
    subagent_type: Annotated[str, Meta(description="The name of the agent.", min_length=1)]
    task_id: Annotated[
        str | None, Meta(description="Goes on with an earlier task of yours, which knows what it did.")
    ] = None
    command: str | None = None
    model: str | None = None


HIDDEN_ARGUMENTS = ("command", "model")
"""Arguments only for tasks that people start; ignored if a model sends them."""


def task(launcher: TaskLauncher, limits: DelegationConfig) -> Tool[TaskArgs]:
    async def plan(args: TaskArgs, context: ToolContext) -> tuple[Ask, ...]:
        return await launcher.asks(args.subagent_type, args.description, context)

    async def run(args: TaskArgs, context: ToolContext) -> WithFacts:
        if args.task_id:
            seen = await launcher.find_task(args.task_id, context)
            follow = await launcher.resume(seen, args.prompt, context, context.call_id)
            return WithFacts(_pending(args, context, seen.task.id, follow), (follow,))
        request = LaunchRequest(
            agent=args.subagent_type,
            prompt=args.prompt,
            description=args.description,
            background=False,
            model=args.model if context.by_hand else None,
        )
        spawn = await launcher.spawn(request, context, limits)
        return WithFacts(_pending(args, context, spawn.info.id, spawn), (spawn,))

    tool = Tool(TASK, TaskArgs, run, plan=plan, effect="idempotent", description=load_text("task"))
    tool.parameters = _visible_parameters(tool.spec().parameters)
    return tool


async def no_asks(args: object, context: ToolContext) -> tuple[Ask, ...]:
    """Ask nothing: an agent may read and end the tasks it launched."""
    return ()


def _pending(args: TaskArgs, context: ToolContext, child: SessionId, begun: Spawn | Resume) -> Pending:
    model = (begun.first if isinstance(begun, Spawn) else begun.follow).message.model
    return Pending(
        kind="task",
        seconds=None,
        title=args.description,
        metadata={
            "sessionId": child,
            "parentSessionId": context.session_id,
            "model": _model_json(model),
        },
    )


def _model_json(model: ModelRef) -> dict[str, str]:
    return {"providerID": model.provider_id, "modelID": model.model_id}


def _visible_parameters(schema: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(schema)
    shown["properties"] = {
        name: each for name, each in shown["properties"].items() if name not in HIDDEN_ARGUMENTS
    }
    return shown
