"""The `asyncagents_*` tools: launch, fork, resume, list, cancel and clear background tasks."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from asyncagents.config.config import DelegationConfig
from asyncagents.delegation.launch import LaunchRequest, TaskLauncher
from asyncagents.delegation.output import output_tool
from asyncagents.delegation.task import Prompt, no_asks
from asyncagents.delegation.texts import load_text
from asyncagents.domain.call.call import Completed
from asyncagents.domain.envelope import one_line
from asyncagents.domain.fact import CancelTasks, ClearTasks
from asyncagents.domain.task.task import FollowUp, Task
from asyncagents.domain.task.task import resume_run as as_resumed
from asyncagents.domain.task.texts import (
    cancelled_text,
    cleared_text,
    fork_and_resume_text,
    listing_text,
    resumed_text,
    started_text,
)
from asyncagents.engine.tool import AnyTool, Ask, Tool, ToolContext, WithFacts
from asyncagents.errors import ToolError


class TaskLaunchArgs(Struct, frozen=True, kw_only=True):
    """Arguments to launch a task or, with `resume`, to send a follow-up."""

    prompt: Prompt
    description: Annotated[str, Meta(description="Three to five words.", max_length=500)] = ""
    agent: Annotated[str, Meta(description="The name of the agent.")] = ""
    fork: Annotated[bool, Meta(description="Whether it begins with a copy of your conversation.")] = False
    resume: Annotated[
        str | None, Meta(description="The id of a task of yours that the prompt is a follow-up to.")
    ] = None


class TaskCancelArgs(Struct, frozen=True, kw_only=True):
    task_id: Annotated[str | None, Meta(description="The task; the beginning of its id will do.")] = None
    batch: Annotated[str | None, Meta(description="A batch: all tasks of it that still run.")] = None


class TaskListArgs(Struct, frozen=True, kw_only=True):
    status: Annotated[
        Literal["running", "completed", "error", "cancelled", "resumed"] | None,
        Meta(description="Only tasks in this state; one that works again after a resume is `resumed`."),
    ] = None


class TaskClearArgs(Struct, frozen=True):
    pass


def background_tools(launcher: TaskLauncher, limits: DelegationConfig) -> tuple[AnyTool, ...]:
    return (
        _launch_tool(launcher, limits),
        output_tool(launcher),
        _cancel_tool(launcher),
        _list_tool(launcher),
        _clear_tool(launcher),
    )


def _launch_tool(launcher: TaskLauncher, limits: DelegationConfig) -> Tool[TaskLaunchArgs]:
    async def plan(args: TaskLaunchArgs, context: ToolContext) -> tuple[Ask, ...]:
        _check_args(args)
        if args.resume:
            return ()  # a follow-up asks no permission; `resume` refuses an agent that is denied by now
        return await launcher.asks(args.agent, args.description, context)

    async def run(args: TaskLaunchArgs, context: ToolContext) -> WithFacts:
        _check_args(args)
        if args.resume:
            return await _resume(launcher, args, context)
        request = LaunchRequest(
            agent=args.agent, prompt=args.prompt, description=args.description, fork=args.fork
        )
        spawn, place = await launcher.launch(request, context, limits)
        output = started_text(spawn.task, place or None)
        return WithFacts(Completed(output, args.description, _metadata(spawn.task)), (spawn,))

    text = load_text("asyncagents_task")
    return Tool("asyncagents_task", TaskLaunchArgs, run, plan=plan, effect="idempotent", description=text)


def _check_args(args: TaskLaunchArgs) -> None:
    if args.fork and args.resume:
        raise ToolError(fork_and_resume_text())
    if not args.resume and not (args.agent.strip() and args.description.strip()):
        raise ToolError("A new task needs a description and an agent; with resume the prompt is enough.")


def _metadata(task: Task) -> dict[str, str]:
    return {"sessionId": task.id, "parentSessionId": task.parent_id, "batchId": task.batch}


async def _resume(launcher: TaskLauncher, args: TaskLaunchArgs, context: ToolContext) -> WithFacts:
    assert args.resume is not None
    seen = await launcher.find_task(args.resume, context)
    follow = await launcher.resume(seen, args.prompt, context)
    then = FollowUp(follow.follow.message.id, args.prompt, launcher.clock.now())
    after = as_resumed(seen.task, then, None)
    output = resumed_text(after, queued=seen.task.live)
    return WithFacts(Completed(output, after.description, _metadata(after)), (follow,))


def _cancel_tool(launcher: TaskLauncher) -> Tool[TaskCancelArgs]:
    async def run(args: TaskCancelArgs, context: ToolContext) -> WithFacts:
        if bool(args.task_id) == bool(args.batch):
            raise ToolError("Say which: a task_id, or a batch.")
        if args.task_id:
            chosen = [(await launcher.find_task(args.task_id, context)).task]
        else:
            own = await launcher.store.tasks_of(context.session_id)
            background = [seen.task for seen in own if seen.task.background]
            chosen = [task for task in background if task.batch == args.batch]
            if not chosen:
                named = one_line(args.batch or "")
                raise ToolError(f'You have no batch "{named}": asyncagents_task names it at launch.')
        live = [task for task in chosen if task.live]
        result = Completed(cancelled_text(live, [task for task in chosen if not task.live]), "Cancel")
        return WithFacts(result, (CancelTasks(tuple(task.id for task in live), "parent"),))

    text = load_text("asyncagents_cancel")
    return Tool(
        "asyncagents_cancel", TaskCancelArgs, run, plan=no_asks, effect="idempotent", description=text
    )


def _list_tool(launcher: TaskLauncher) -> Tool[TaskListArgs]:
    async def run(args: TaskListArgs, context: ToolContext) -> Completed:
        own = [seen.task for seen in await launcher.store.tasks_of(context.session_id)]
        shown = [task for task in own if task.background and args.status in (None, task.status)]
        title = "1 task" if len(shown) == 1 else f"{len(shown)} tasks"
        return Completed(listing_text(shown, launcher.clock.now()), title)

    text = load_text("asyncagents_list")
    return Tool("asyncagents_list", TaskListArgs, run, plan=no_asks, effect="none", description=text)


def _clear_tool(launcher: TaskLauncher) -> Tool[TaskClearArgs]:
    async def run(args: TaskClearArgs, context: ToolContext) -> WithFacts:
        own = await launcher.store.tasks_of(context.session_id)
        result = Completed(cleared_text(len(own)), "Clear")
        return WithFacts(result, (ClearTasks(context.session_id),))

    text = load_text("asyncagents_clear")
    return Tool("asyncagents_clear", TaskClearArgs, run, plan=no_asks, effect="idempotent", description=text)
