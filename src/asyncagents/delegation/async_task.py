"""`async_task` and `async_task_result`: launch a task and poll its result, with texts that are fixed."""

from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.config.config import DelegationConfig
from asyncagents.delegation.launch import LaunchRequest, TaskLauncher
from asyncagents.delegation.poll import answer_or_wait
from asyncagents.delegation.task import Description, Prompt, no_asks
from asyncagents.delegation.texts import load_text
from asyncagents.domain.call.call import Completed
from asyncagents.domain.fact import Retrieve
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.texts import (
    async_task_result_text,
    foreign_result_text,
    launched_text,
    missing_session_text,
)
from asyncagents.engine.tool import Ask, Outcome, Tool, ToolContext, WithFacts
from asyncagents.errors import NotFound

RESULT_TOOL = "async_task_result"


class AsyncTaskArgs(Struct, frozen=True, kw_only=True):
    agent: Annotated[str, Meta(description="The name of the agent.", min_length=1)]
    prompt: Prompt
    description: Description


class AsyncTaskResultArgs(Struct, frozen=True):
    task_id: Annotated[str, Meta(description="As async_task returned it.", min_length=1)]


def async_task(launcher: TaskLauncher, limits: DelegationConfig) -> Tool[AsyncTaskArgs]:
    async def plan(args: AsyncTaskArgs, context: ToolContext) -> tuple[Ask, ...]:
        return await launcher.asks(args.agent, args.description, context)

    async def run(args: AsyncTaskArgs, context: ToolContext) -> WithFacts:
        request = LaunchRequest(agent=args.agent, prompt=args.prompt, description=args.description)
        spawn = await launcher.spawn(request, context, limits)
        metadata = {"sessionId": spawn.info.id, "parentSessionId": context.session_id}
        return WithFacts(Completed(launched_text(spawn.task), args.description, metadata), (spawn,))

    text = load_text("async_task")
    return Tool("async_task", AsyncTaskArgs, run, plan=plan, effect="idempotent", description=text)


def async_task_result(launcher: TaskLauncher) -> Tool[AsyncTaskResultArgs]:
    async def run(args: AsyncTaskResultArgs, context: ToolContext) -> Outcome:
        task_id = SessionId(args.task_id)
        if not await launcher.session_exists(task_id):
            return Completed(missing_session_text(task_id))
        try:
            task = (await launcher.store.task(task_id)).task
        except NotFound:
            return Completed(foreign_result_text(task_id))
        if task.parent_id != context.session_id:
            return Completed(foreign_result_text(task_id))
        if task.live:
            return await answer_or_wait(
                launcher, task, context, tool=RESULT_TOOL, text=async_task_result_text(task)
            )
        result = Completed(async_task_result_text(task), task.description, {"sessionId": task.id})
        return WithFacts(result, (Retrieve(task.id, task.run),))

    return Tool(
        RESULT_TOOL,
        AsyncTaskResultArgs,
        run,
        plan=no_asks,
        effect="idempotent",
        description=load_text(RESULT_TOOL),
    )
