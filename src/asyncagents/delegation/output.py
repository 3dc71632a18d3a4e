"""`asyncagents_output`: return a task's progress, result or transcript."""

from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.delegation.launch import Desk
from asyncagents.delegation.poll import polled, wait_for
from asyncagents.delegation.task import unasked
from asyncagents.delegation.texts import described
from asyncagents.domain.call.call import Completed, Watch
from asyncagents.domain.conversation.transcript import Transcript, transcript
from asyncagents.domain.fact import Retrieve
from asyncagents.domain.task.texts import output, vanished
from asyncagents.engine.tool import Outcome, Together, Tool, ToolContext
from asyncagents.errors import NotFound, ToolError
from asyncagents.store.verb.task_read import Seen

OUTPUT = "asyncagents_output"
PATIENCE = 30.0
LONGEST = 600.0


class Output(Struct, frozen=True, kw_only=True):
    task_id: Annotated[str, Meta(description="The task; the beginning of its id will do.", min_length=1)]
    block: Annotated[bool, Meta(description="Wait for it to end.")] = False
    timeout: Annotated[float, Meta(description="For how many seconds to wait at most, up to 600.", gt=0)] = (
        PATIENCE
    )
    full_session: Annotated[bool, Meta(description="Its messages, not only its result.")] = False
    include_thinking: bool = False
    include_tool_results: bool = False
    since_message_id: Annotated[str | None, Meta(description="Only messages after this one.")] = None
    message_limit: Annotated[int, Meta(ge=1)] | None = None
    thinking_max_chars: Annotated[int, Meta(ge=0)] = 2_000


def output_tool(desk: Desk) -> Tool[Output]:
    async def run(args: Output, context: ToolContext) -> Outcome:
        seen = await desk.find(args.task_id, context)
        task = seen.task
        if args.full_session:
            return await _transcript(desk, seen, args)
        told = output(task, seen.progress, desk.clock.now())
        if not task.live:
            result = Completed(told, task.description, {"sessionId": task.id})
            return Together(result, (Retrieve(task.id, task.run),))
        if args.block:
            return wait_for(task, Watch(task.id, OUTPUT), note=told, seconds=min(args.timeout, LONGEST))
        return await polled(desk, task, context, tool=OUTPUT, text=told)

    return Tool(OUTPUT, Output, run, plan=unasked, effect="idempotent", description=described(OUTPUT))


async def _transcript(desk: Desk, seen: Seen, args: Output) -> Outcome:
    task = seen.task
    wanted = Transcript(
        include_thinking=args.include_thinking,
        include_tool_results=args.include_tool_results,
        since_message_id=args.since_message_id,
        message_limit=args.message_limit,
        thinking_max_chars=args.thinking_max_chars,
    )
    try:
        said = transcript(await desk.store.messages(task.id), wanted)
    except NotFound as error:
        raise ToolError(vanished(task.id)) from error
    told = Completed(said, task.description, {"sessionId": task.id})
    return told if task.live else Together(told, (Retrieve(task.id, task.run),))
