"""The tools that an MCP client calls: their arguments, results and what they do."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeAlias

from mcp_types import InputRequiredResult, Tool, ToolAnnotations
from msgspec import Meta, Struct

from asyncagents.domain.call.call import Answers, Once, Reject
from asyncagents.domain.self_contained import schema_of_type
from asyncagents.errors import InvalidInput
from asyncagents.mcp_server.agent_tasks import AgentTasks, Launch
from asyncagents.mcp_server.asking import answer_forms, ask_person, put_asks, request_input
from asyncagents.mcp_server.caller import Caller
from asyncagents.mcp_server.transcript import write_transcript
from asyncagents.mcp_server.view import TaskView, wants_person
from asyncagents.mcp_server.wait import wait_for_tasks

RUN_SECONDS = 50.0
"""Many clients cut a call off after a minute."""
MOST_WAIT = 600.0
MOST_LISTED = 100
MOST_MESSAGES = 200

Prompt = Annotated[str, Meta(min_length=1, description="The whole task: the agent sees nothing else.")]
AgentName = Annotated[
    str | None, Meta(description="The name of an agent; default: the project's. A wrong name lists all.")
]
Description = Annotated[str | None, Meta(description="Three to five words that name the task for people.")]
Key = Annotated[
    str | None, Meta(description="A name of your choice: the same key again starts nothing twice.")
]
TaskId = Annotated[str, Meta(min_length=1, description="The id of a task, or the beginning of one.")]
Seconds = Annotated[float, Meta(ge=0, le=MOST_WAIT)]


class AgentRunArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: Prompt
    agent: AgentName = None
    description: Description = None
    key: Key = None
    wait: Annotated[Seconds, Meta(description="How long to wait for the result, in seconds.")] = RUN_SECONDS


class AgentLaunchArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: Prompt
    agent: AgentName = None
    description: Description = None
    key: Key = None


class AgentOutputArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task_id: TaskId
    transcript: Annotated[bool, Meta(description="Also return the conversation of the task.")] = False
    messages: Annotated[
        int, Meta(ge=1, le=MOST_MESSAGES, description="How many of the newest messages the transcript has.")
    ] = 20


class AgentWaitArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task_ids: Annotated[tuple[TaskId, ...], Meta(min_length=1, max_length=MOST_LISTED)]
    until: Annotated[
        Literal["all", "any"] | Annotated[int, Meta(ge=1)],
        Meta(description="all, any, or how many of them must have ended or want an answer."),
    ] = "all"
    seconds: Seconds = RUN_SECONDS


class AgentListArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: Literal["working", "input_required", "completed", "failed", "cancelled"] | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 20


class AgentCancelArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task_id: TaskId
    key: Key = None


class AgentFollowUpArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task_id: TaskId
    prompt: Prompt
    key: Key = None


class AgentAnswerArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ask_id: Annotated[str, Meta(min_length=1, description="The id of an open ask, from the task's `asks`.")]
    answers: Annotated[
        tuple[tuple[str, ...], ...], Meta(description="For each question, in order, the chosen answers.")
    ] = ()
    reject: Annotated[str | None, Meta(description="Why the ask is refused, instead of an answer.")] = None
    allow: Annotated[
        bool, Meta(description="Allow the tool call once; only where the person lets this client do so.")
    ] = False


class TaskList(Struct, frozen=True):
    tasks: tuple[TaskView, ...]


class TaskOutput(Struct, frozen=True, kw_only=True):
    task: TaskView
    transcript: str | None = None


class ToolCall(Struct, frozen=True):
    """A call of a tool: the tasks it may touch, and the client that makes it."""

    tasks: AgentTasks
    caller: Caller
    answers: dict[str, Any]
    """Filled forms, by ask, of a call that is made again."""
    state: str | None
    """The task of a call that is made again."""


ToolResult: TypeAlias = Struct | InputRequiredResult


async def run_agent(call: ToolCall, args: AgentRunArgs) -> ToolResult:
    now = asyncio.get_running_loop().time
    end = now() + args.wait
    if call.state is None:
        new = Launch(prompt=args.prompt, agent=args.agent, description=args.description, key=args.key)
        task_id = (await call.tasks.launch(new)).task_id
    else:
        task_id = (await call.tasks.find(call.state)).session.id
        with suppress(InvalidInput):  # an answer is missing: the ask stays open
            await answer_forms(call.tasks, task_id, call.answers)
    (view,) = await wait_for_tasks(
        call.tasks, [task_id], until=1, seconds=args.wait, report=call.caller.report
    )
    if view.status != "input_required" or not call.caller.fills_forms:
        return view
    if call.caller.is_modern:
        return await request_input(call.tasks, task_id, call.answers) or view
    return await put_asks(call.tasks, call.caller, task_id, seconds=end - now())


async def launch_agent(call: ToolCall, args: AgentLaunchArgs) -> TaskView:
    return await call.tasks.launch(
        Launch(prompt=args.prompt, agent=args.agent, description=args.description, key=args.key)
    )


async def read_output(call: ToolCall, args: AgentOutputArgs) -> TaskOutput:
    view = await call.tasks.view(args.task_id)
    if not args.transcript:
        return TaskOutput(task=view)
    return TaskOutput(
        task=view,
        transcript=write_transcript(await call.tasks.messages(view.task_id, limit=args.messages)),
    )


async def wait_for_agents(call: ToolCall, args: AgentWaitArgs) -> TaskList:
    ids = tuple(dict.fromkeys(args.task_ids))
    counts = {"all": len(ids), "any": 1}
    until = args.until if isinstance(args.until, int) else counts[args.until]
    return TaskList(
        await wait_for_tasks(
            call.tasks, ids, until=min(until, len(ids)), seconds=args.seconds, report=call.caller.report
        )
    )


async def list_agents(call: ToolCall, args: AgentListArgs) -> TaskList:
    return TaskList(await call.tasks.list(limit=args.limit, status=args.status))


async def cancel_agent(call: ToolCall, args: AgentCancelArgs) -> TaskView:
    return await call.tasks.cancel(args.task_id, key=args.key)


async def resume_agent(call: ToolCall, args: AgentFollowUpArgs) -> TaskView:
    return await call.tasks.resume(args.task_id, args.prompt, key=args.key)


async def fork_agent(call: ToolCall, args: AgentFollowUpArgs) -> TaskView:
    return await call.tasks.fork(args.task_id, args.prompt, key=args.key)


async def answer_agent(call: ToolCall, args: AgentAnswerArgs) -> ToolResult:
    """Answer a question; a permission is put to the person of the client."""
    waiting = await call.tasks.find_ask(args.ask_id)
    task_id = waiting.call.session_id
    state = waiting.call.open
    if args.reject is not None:
        await call.tasks.answer(args.ask_id, Reject(args.reject))
    elif args.allow and call.tasks.may_allow and state is not None and state.question is None:
        await call.tasks.answer(args.ask_id, Once())
    elif state is not None and (call.tasks.may_allow or not wants_person(state)) and state.question:
        if not args.answers:
            raise InvalidInput("answers is empty: give a list of answers for each question")
        await call.tasks.answer(args.ask_id, Answers(args.answers))
    elif (again := await ask_person(call.tasks, call.caller, waiting, call.answers)) is not None:
        return again
    return await call.tasks.view(task_id)


class AgentTool(Struct, frozen=True, kw_only=True):
    name: str
    title: str
    args: type[Struct]
    output: type[Struct]
    run: Callable[[ToolCall, Any], Awaitable[ToolResult]]
    annotations: ToolAnnotations

    def describe(self) -> Tool:
        """Describe the tool to a client; its schemas refer to nothing outside themselves."""
        return Tool(
            name=self.name,
            title=self.title,
            description=(files(__package__) / f"{self.name}.txt").read_text().strip(),
            input_schema=schema_of_type(self.args),
            output_schema=schema_of_type(self.output),
            annotations=self.annotations,
        )


_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_STARTS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False)
_CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True)
_ENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True)


TOOLS = (
    AgentTool(
        name="agent_run",
        title="Run an agent",
        args=AgentRunArgs,
        output=TaskView,
        run=run_agent,
        annotations=_STARTS,
    ),
    AgentTool(
        name="agent_launch",
        title="Launch a background agent",
        args=AgentLaunchArgs,
        output=TaskView,
        run=launch_agent,
        annotations=_STARTS,
    ),
    AgentTool(
        name="agent_output",
        title="Read a task",
        args=AgentOutputArgs,
        output=TaskOutput,
        run=read_output,
        annotations=_READS,
    ),
    AgentTool(
        name="agent_wait",
        title="Wait for tasks",
        args=AgentWaitArgs,
        output=TaskList,
        run=wait_for_agents,
        annotations=_READS,
    ),
    AgentTool(
        name="agent_list",
        title="List tasks",
        args=AgentListArgs,
        output=TaskList,
        run=list_agents,
        annotations=_READS,
    ),
    AgentTool(
        name="agent_cancel",
        title="Cancel a task",
        args=AgentCancelArgs,
        output=TaskView,
        run=cancel_agent,
        annotations=_ENDS,
    ),
    AgentTool(
        name="agent_resume",
        title="Send a follow-up",
        args=AgentFollowUpArgs,
        output=TaskView,
        run=resume_agent,
        annotations=_STARTS,
    ),
    AgentTool(
        name="agent_fork",
        title="Fork a task",
        args=AgentFollowUpArgs,
        output=TaskView,
        run=fork_agent,
        annotations=_STARTS,
    ),
    AgentTool(
        name="agent_answer",
        title="Answer an ask",
        args=AgentAnswerArgs,
        output=TaskView,
        run=answer_agent,
        annotations=_CHANGES,
    ),
)
"""In the order in which clients list them."""


@cache
def describe_tools() -> tuple[Tool, ...]:
    """Describe all tools to a client; their texts and schemas are read and built once."""
    return tuple(tool.describe() for tool in TOOLS)


RUN = TOOLS[0]
BY_NAME = {tool.name: tool for tool in TOOLS}
