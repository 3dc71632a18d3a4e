"""Building blocks of the demo's acts: turns, repeated prompts, an approval, polling."""

import asyncio
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
from msgspec import Struct

from asyncagents.cli.demo.checks import state_of, tool_parts
from asyncagents.cli.demo.screen import DemoScreen
from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart, ToolWaiting
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.event import PartDelta, PartUpdated
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import AlreadySettled

T = TypeVar("T")
POLL_SECONDS = 0.02
APPROVAL = "approved by the manager"


class AcknowledgedPrompt(Struct, frozen=True):
    """An acknowledged prompt; sending it again with the same key has no effect."""

    session_id: SessionId
    text: str
    key: str
    message_id: MessageId


async def show_turn(
    screen: DemoScreen, runtime: Runtime, session_id: SessionId, text: str
) -> tuple[str, MessageWithParts]:
    """Send a prompt and print its turn; return the streamed text and the answer."""
    screen.line("you", text)
    key = f"demo:{text}"
    words: list[str] = []
    async for event in runtime.stream(session_id, text, key=key):
        match event:
            case PartUpdated(part=ToolPart() as part):
                _show_call(screen, part)
            case PartDelta(delta=word):
                screen.word("agent", word, first=not words)
                words.append(word)
            case _:
                pass
    if words:
        screen.end()
    return "".join(words), await runtime.prompt(session_id, text, key=key)


def _show_call(screen: DemoScreen, part: ToolPart) -> None:
    given = ", ".join(f"{name}={value}" for name, value in part.state.input.items())
    match part.state:
        case ToolCompleted(output=text) | ToolWaiting(output=text) | ToolFailed(error=text):
            screen.line("tool", f"{part.tool}({given}) -> {text}")
        case _:
            pass


async def send(screen: DemoScreen, runtime: Runtime, text: str) -> AcknowledgedPrompt:
    session = await runtime.create_session(title=text)
    message_id = await runtime.send(session.id, text, key=text)
    screen.line("you", f"{text}  (acknowledged)")
    return AcknowledgedPrompt(session.id, text, text, message_id)


async def send_again(
    screen: DemoScreen, runtime: Runtime, sent: AcknowledgedPrompt
) -> tuple[MessageWithParts, ...]:
    """Send a prompt again with its key: it is not repeated, and its one answer is returned."""
    screen.line("you", sent.text)
    answer = await runtime.prompt(sent.session_id, sent.text, key=sent.key)
    history = await runtime.messages(sent.session_id)
    for part in tool_parts(history):
        _show_call(screen, part)
    screen.line("agent", answer.text)
    return history


async def approve(screen: DemoScreen, runtime: Runtime, refund: Call) -> tuple[MessageWithParts, ...]:
    """Complete the call twice with one result; a different result is refused."""
    first = await runtime.complete(refund.id, APPROVAL)
    screen.line("manager", "approves the refund")
    second = await runtime.complete(refund.id, APPROVAL)
    screen.line("manager", "approves it again, as a webhook that is delivered twice")
    try:
        third: Call | AlreadySettled = await runtime.fail(refund.id, "rejected")
    except AlreadySettled as error:
        third = error
    screen.line("manager", "rejects it")
    history = await poll(lambda: _history_at_rest(runtime, refund.session_id))
    screen.line("agent", history[-1].text)
    state = state_of(history, "refund")
    screen.check(
        "The open call took one result: the same again was answered alike, the other one was refused.",
        holds=first == second
        and isinstance(third, AlreadySettled)
        and isinstance(state, ToolCompleted)
        and state.output == APPROVAL,
        seen=(first, second, third, state),
    )
    return history


async def _history_at_rest(runtime: Runtime, session_id: SessionId) -> tuple[MessageWithParts, ...] | None:
    at_rest = isinstance(await runtime.status(session_id), Idle)
    return await runtime.messages(session_id) if at_rest else None


async def text_so_far(runtime: Runtime, session_id: SessionId) -> str | None:
    """Return the stored part of an answer that another process writes."""
    newest = (await runtime.messages(session_id))[-1]
    return newest.text or None if isinstance(newest.info, AssistantMessage) else None


async def wait_for_lines(process: Process, *words: str) -> None:
    """Wait until the child has printed each of these lines."""
    assert process.stdout is not None
    missing = set(words)
    while missing:
        line = await process.stdout.readline()
        if not line:
            raise click.ClickException(f"the child process ended before {', '.join(sorted(missing))} began")
        missing.discard(line.decode().strip())


async def poll(look: Callable[[], Awaitable[T | None]]) -> T:
    """Poll until `look` returns a value."""
    while (seen := await look()) is None:  # noqa: ASYNC110  another process sets no event here
        await asyncio.sleep(POLL_SECONDS)
    return seen
