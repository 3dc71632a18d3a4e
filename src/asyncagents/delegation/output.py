"""`asyncagents_output`: return a task's progress, result or transcript."""

from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.delegation.launch import TaskLauncher
from asyncagents.delegation.poll import answer_or_wait, wait_for
from asyncagents.delegation.task import no_asks
from asyncagents.delegation.texts import load_text
from asyncagents.domain.call.call import Completed, WaitFor
from asyncagents.domain.conversation.transcript import Transcript, transcript
from asyncagents.domain.fact import Retrieve
from asyncagents.domain.task.task import TaskWithProgress
from asyncagents.domain.task.texts import task_gone_text, task_output_text
from asyncagents.engine.tool import Outcome, Tool, ToolContext, WithFacts
from asyncagents.errors import NotFound, ToolError

OUTPUT_TOOL = "asyncagents_output"
DEFAULT_SECONDS = 30.0
MOST_SECONDS = 600.0


class TaskOutputArgs(Struct, frozen=True, kw_only=True):
    task_id: Annotated[str, Meta(description="The task; the beginning of its id will do.", min_length=1)]
    block: Annotated[bool, Meta(description="Wait for it to end.")] = False
    timeout: Annotated[float, Meta(description="For how many seconds to wait at most, up to 600.", gt=0)] = (
        DEFAULT_SECONDS
    )
    full_session: Annotated[bool, Meta(description="Its messages, not only its result.")] = False
    include_thinking: bool = False
    include_tool_results: bool = False
    since_message_id: Annotated[str | None, Meta(description="Only messages after this one.")] = None
    message_limit: Annotated[int, Meta(ge=1)] | None = None
    thinking_max_chars: Annotated[int, Meta(ge=0)] = 2_000


def output_tool(launcher: TaskLauncher) -> Tool[TaskOutputArgs]:
    async def run(args: TaskOutputArgs, context: ToolContext) -> Outcome:
        seen = await launcher.find_task(args.task_id, context)
        task = seen.task
        if args.full_session:
            return await _build_transcript(launcher, seen, args)
        text = task_output_text(task, seen.progress, launcher.clock.now())
        if not task.live:
            result = Completed(text, task.description, {"sessionId": task.id})
            return WithFacts(result, (Retrieve(task.id, task.run),))
        if args.block:
            return wait_for(
                task, WaitFor(task.id, OUTPUT_TOOL), note=text, seconds=min(args.timeout, MOST_SECONDS)
            )
        return await answer_or_wait(launcher, task, context, tool=OUTPUT_TOOL, text=text)

    return Tool(
        OUTPUT_TOOL,
        TaskOutputArgs,
        run,
        plan=no_asks,
        effect="idempotent",
        description=load_text(OUTPUT_TOOL),
    )


async def _build_transcript(launcher: TaskLauncher, seen: TaskWithProgress, args: TaskOutputArgs) -> Outcome:
    task = seen.task
    wanted = Transcript(
        include_thinking=args.include_thinking,
        include_tool_results=args.include_tool_results,
        since_message_id=args.since_message_id,
        message_limit=args.message_limit,
        thinking_max_chars=args.thinking_max_chars,
    )
    try:
        text = transcript(await launcher.store.messages(task.id), wanted)
    except NotFound as error:
        raise ToolError(task_gone_text(task.id)) from error
    result = Completed(text, task.description, {"sessionId": task.id})
    return result if task.live else WithFacts(result, (Retrieve(task.id, task.run),))
