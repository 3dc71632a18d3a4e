"""`async_task` and `async_task_result`: launch a task and poll its result, with texts that are fixed."""

from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.config.config import DelegationConfig
from asyncagents.delegation.launch import Desk, Order
from asyncagents.delegation.poll import polled
from asyncagents.delegation.task import Description, Prompt, launch_ask, unasked
from asyncagents.delegation.texts import described
from asyncagents.domain.call.call import Completed
from asyncagents.domain.fact import Retrieve
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.texts import foreign_result, launched, missing, result
from asyncagents.engine.tool import Ask, Outcome, Together, Tool, ToolContext
from asyncagents.errors import NotFound

RESULT = "async_task_result"


class AsyncTask(Struct, frozen=True, kw_only=True):
    agent: Annotated[str, Meta(description="The name of the agent.", min_length=1)]
    prompt: Prompt
    description: Description


class AsyncTaskResult(Struct, frozen=True):
    task_id: Annotated[str, Meta(description="As async_task returned it.", min_length=1)]


def async_task(desk: Desk, limits: DelegationConfig) -> Tool[AsyncTask]:
    async def plan(args: AsyncTask, context: ToolContext) -> tuple[Ask, ...]:
        return launch_ask(args.agent, args.description)

    async def run(args: AsyncTask, context: ToolContext) -> Together:
        order = Order(agent=args.agent, prompt=args.prompt, description=args.description)
        spawn = await desk.spawn(order, context, limits)
        metadata = {"sessionId": spawn.info.id, "parentSessionId": context.session_id}
        return Together(Completed(launched(spawn.task), args.description, metadata), (spawn,))

    text = described("async_task")
    return Tool("async_task", AsyncTask, run, plan=plan, effect="idempotent", description=text)


def async_task_result(desk: Desk) -> Tool[AsyncTaskResult]:
    async def run(args: AsyncTaskResult, context: ToolContext) -> Outcome:
        task_id = SessionId(args.task_id)
        if not await desk.session_exists(task_id):
            return Completed(missing(task_id))
        try:
            task = (await desk.store.task(task_id)).task
        except NotFound:
            return Completed(foreign_result(task_id))
        if task.parent_id != context.session_id:
            return Completed(foreign_result(task_id))
        if task.live:
            return await polled(desk, task, context, tool=RESULT, text=result(task))
        told = Completed(result(task), task.description, {"sessionId": task.id})
        return Together(told, (Retrieve(task.id, task.run),))

    return Tool(
        RESULT, AsyncTaskResult, run, plan=unasked, effect="idempotent", description=described(RESULT)
    )
