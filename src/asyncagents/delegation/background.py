"""The `asyncagents_*` tools: launch, fork, resume, list, cancel and clear background tasks."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from asyncagents.config.config import DelegationConfig
from asyncagents.delegation.launch import Desk, Order
from asyncagents.delegation.output import output_tool
from asyncagents.delegation.task import Prompt, launch_ask, unasked
from asyncagents.delegation.texts import described
from asyncagents.domain.call.call import Completed
from asyncagents.domain.envelope import line
from asyncagents.domain.fact import CancelTasks, ClearTasks
from asyncagents.domain.task.task import Follow, Task
from asyncagents.domain.task.task import resumed as as_resumed
from asyncagents.domain.task.texts import (
    cancelled,
    cleared,
    fork_and_resume,
    listing,
    resumed,
    started,
)
from asyncagents.engine.tool import AnyTool, Ask, Together, Tool, ToolContext
from asyncagents.errors import ToolError


class Launch(Struct, frozen=True, kw_only=True):
    """Arguments to launch a task or, with `resume`, to send a follow-up."""

    prompt: Prompt
    description: Annotated[str, Meta(description="Three to five words.", max_length=500)] = ""
    agent: Annotated[str, Meta(description="The name of the agent.")] = ""
    fork: Annotated[bool, Meta(description="Whether it begins with a copy of your conversation.")] = False
    resume: Annotated[
        str | None, Meta(description="The id of a task of yours that the prompt is a follow-up to.")
    ] = None


class Cancel(Struct, frozen=True, kw_only=True):
    task_id: Annotated[str | None, Meta(description="The task; the beginning of its id will do.")] = None
    batch: Annotated[str | None, Meta(description="A batch: all tasks of it that still run.")] = None


class Listed(Struct, frozen=True, kw_only=True):
    status: Annotated[
        Literal["running", "completed", "error", "cancelled", "resumed"] | None,
        Meta(description="Only tasks in this state; one that works again after a resume is `resumed`."),
    ] = None


class Clear(Struct, frozen=True):
    pass


def background_tools(desk: Desk, limits: DelegationConfig) -> tuple[AnyTool, ...]:
    return (_launch(desk, limits), output_tool(desk), _cancel(desk), _list(desk), _clear(desk))


def _launch(desk: Desk, limits: DelegationConfig) -> Tool[Launch]:
    async def plan(args: Launch, context: ToolContext) -> tuple[Ask, ...]:
        _check(args)
        if args.resume:
            return ()  # a follow-up asks no permission; `resume` refuses an agent that is denied by now
        return launch_ask(args.agent, args.description)

    async def run(args: Launch, context: ToolContext) -> Together:
        _check(args)
        if args.resume:
            return await _resumed(desk, args, context)
        order = Order(agent=args.agent, prompt=args.prompt, description=args.description, fork=args.fork)
        spawn, place = await desk.launch(order, context, limits)
        told = started(spawn.task, place or None)
        return Together(Completed(told, args.description, _metadata(spawn.task)), (spawn,))

    text = described("asyncagents_task")
    return Tool("asyncagents_task", Launch, run, plan=plan, effect="idempotent", description=text)


def _check(args: Launch) -> None:
    if args.fork and args.resume:
        raise ToolError(fork_and_resume())
    if not args.resume and not (args.agent.strip() and args.description.strip()):
        raise ToolError("A new task needs a description and an agent; with resume the prompt is enough.")


def _metadata(task: Task) -> dict[str, str]:
    return {"sessionId": task.id, "parentSessionId": task.parent_id, "batchId": task.batch}


async def _resumed(desk: Desk, args: Launch, context: ToolContext) -> Together:
    assert args.resume is not None
    seen = await desk.find(args.resume, context)
    follow = await desk.follow(seen, args.prompt, context)
    then = Follow(follow.follow.message.id, args.prompt, desk.clock.now())
    after = as_resumed(seen.task, then, None)
    told = resumed(after, queued=seen.task.live)
    return Together(Completed(told, after.description, _metadata(after)), (follow,))


def _cancel(desk: Desk) -> Tool[Cancel]:
    async def run(args: Cancel, context: ToolContext) -> Together:
        if bool(args.task_id) == bool(args.batch):
            raise ToolError("Say which: a task_id, or a batch.")
        if args.task_id:
            chosen = [(await desk.find(args.task_id, context)).task]
        else:
            own = await desk.store.tasks_of(context.session_id)
            background = [seen.task for seen in own if seen.task.background]
            chosen = [task for task in background if task.batch == args.batch]
            if not chosen:
                named = line(args.batch or "")
                raise ToolError(f'You have no batch "{named}": asyncagents_task names it at launch.')
        live = [task for task in chosen if task.live]
        told = Completed(cancelled(live, [task for task in chosen if not task.live]), "Cancel")
        return Together(told, (CancelTasks(tuple(task.id for task in live), "parent"),))

    text = described("asyncagents_cancel")
    return Tool("asyncagents_cancel", Cancel, run, plan=unasked, effect="idempotent", description=text)


def _list(desk: Desk) -> Tool[Listed]:
    async def run(args: Listed, context: ToolContext) -> Completed:
        own = [seen.task for seen in await desk.store.tasks_of(context.session_id)]
        shown = [task for task in own if task.background and args.status in (None, task.status)]
        title = "1 task" if len(shown) == 1 else f"{len(shown)} tasks"
        return Completed(listing(shown, desk.clock.now()), title)

    text = described("asyncagents_list")
    return Tool("asyncagents_list", Listed, run, plan=unasked, effect="none", description=text)


def _clear(desk: Desk) -> Tool[Clear]:
    async def run(args: Clear, context: ToolContext) -> Together:
        own = await desk.store.tasks_of(context.session_id)
        told = Completed(cleared(len(own)), "Clear")
        return Together(told, (ClearTasks(context.session_id),))

    text = described("asyncagents_clear")
    return Tool("asyncagents_clear", Clear, run, plan=unasked, effect="idempotent", description=text)
