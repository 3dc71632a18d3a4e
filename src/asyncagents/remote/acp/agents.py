"""Run external agents over the Agent Client Protocol: one program and one prompt for each step."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Protocol, TypeAlias

from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.failure import task_in_doubt, unknown_error
from asyncagents.domain.text import shorten_middle
from asyncagents.engine.external.agent import ExternalEvent, ExternalSessionUpdate, ExternalStep
from asyncagents.engine.tool import Ask
from asyncagents.errors import ToolError
from asyncagents.llm.model import (
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StepFinish,
    StreamError,
    TextDelta,
    TextEnd,
    TextStart,
)
from asyncagents.remote.acp.calls import MergedCall
from asyncagents.remote.acp.client import AcpClient, AnswerTimeout
from asyncagents.remote.acp.opening import Doubt, Opening, SessionOpener
from asyncagents.remote.acp.updates import UpdateReader, used_tokens
from asyncagents.remote.acp.wire import PromptResponse
from asyncagents.remote.json_rpc import ConnectionLoss, JsonRpcConnection, LineReader, RpcError

_FINISH: dict[str, Finish] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "max_turn_requests": "length",
    "refusal": "content-filter",
}
_FAILURES = (RpcError, AnswerTimeout, ConnectionLoss)
"""Raised while a program is asked something."""
NOTE_KEY = "note"
MOST_ERROR = 4_000
MOST_TEXT = 10_000_000
"""Characters of text and thoughts in one step; an agent that writes more has lost its way."""
PART_CHARACTERS = 500
"""What a part costs beside its text."""


class AgentProgram(Protocol):
    """A running program: the bytes of its stdout, and its stdin."""

    async def read(self) -> bytes:
        """Return the next bytes, empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Write; raises nothing once the program is gone."""
        ...

    async def end_text(self) -> str:
        """Say how the program ended, or that it still runs, and what it wrote last to its stderr."""
        ...

    def redact(self, text: str) -> str:
        """Remove the secrets from a text that the program was given in its environment."""
        ...


OpenProgram: TypeAlias = Callable[[ExternalStep], AbstractAsyncContextManager[AgentProgram]]
"""Starts the program of a step and ends it with all that it started. Raises `ToolError`."""
FindStepAsks: TypeAlias = Callable[[ExternalStep, MergedCall], Awaitable[tuple[Ask, ...]]]
"""Returns what a call of an external agent needs a permission for."""


class AcpAgents:
    """Implements `ExternalAgents`. `group` owns the tasks that read from the programs."""

    def __init__(
        self, open_program: OpenProgram, find_asks: FindStepAsks, *, group: asyncio.TaskGroup, clock: Clock
    ) -> None:
        self._open_program = open_program
        self._find_asks = find_asks
        self._group = group
        self._clock = clock

    async def stream(self, step: ExternalStep) -> AsyncGenerator[ExternalEvent, None]:
        """Yield the events of one step. See `ExternalAgents`."""
        try:
            async with (
                self._open_program(step) as program,
                aclosing(self._run_step(step, program)) as events,
            ):
                async for event in events:
                    yield event
        except ToolError as error:
            for event in _unopened_events(step, f"did not start. {error}"):
                yield event

    async def _run_step(
        self, step: ExternalStep, program: AgentProgram
    ) -> AsyncGenerator[ExternalEvent, None]:
        client = AcpClient(step.directory, lambda call: self._find_asks(step, call))
        try:
            async with connect(client, program, self._group):
                try:
                    await client.initialize()
                    opening = await SessionOpener(step, client, now=self._clock.now()).open()
                except _FAILURES as error:
                    for event in _unopened_events(step, await _describe_failure(error, program)):
                        yield event
                    return
                if isinstance(opening, Doubt):
                    for event in _doubt_events(step, _error_text(opening.why, program)):
                        yield event
                    return
                async with aclosing(self._prompt(step, client, opening, program)) as events:
                    async for event in events:
                        yield event
        except _FAILURES as error:
            yield _error_event(step, await _describe_failure(error, program))

    async def _prompt(
        self, step: ExternalStep, client: AcpClient, opening: Opening, program: AgentProgram
    ) -> AsyncGenerator[ExternalEvent, None]:
        yield ExternalSessionUpdate(opening.session)  # stored before the prompt is sent
        note: tuple[ExternalEvent, ...] = ()
        if opening.note:
            note = (ReasoningStart(NOTE_KEY), ReasoningDelta(NOTE_KEY, opening.note), ReasoningEnd(NOTE_KEY))
        async with aclosing(client.prompt(opening.blocks, self._group)) as events:
            written = 0
            async for event in events:
                for part in note:  # with the first sign that the prompt has arrived
                    yield part
                note = ()
                written += _count_characters(event)
                if written > MOST_TEXT:
                    why = f"wrote more than {MOST_TEXT:,} characters, so it was ended"
                    yield _error_event(step, f"{why}.")
                    return
                if not isinstance(event, PromptResponse):
                    yield event
                    continue
                for last in client.updates.end():
                    yield last
                if event.stop_reason == "cancelled":  # a cancel of ours reads no answer
                    yield _error_event(step, f"cancelled its turn by itself. {await program.end_text()}")
                else:
                    yield _finish(event, client.updates, opening.session.cost)


def _count_characters(event: ExternalEvent | PromptResponse) -> int:
    """Count the characters that an event adds to the step."""
    match event:
        case TextDelta(_, text) | ReasoningDelta(_, text):
            return len(text)
        case TextStart() | ReasoningStart():
            return PART_CHARACTERS
        case _:
            return 0


def _finish(answer: PromptResponse, updates: UpdateReader, before: float) -> StepFinish:
    spent = max(0.0, updates.cost - before) if updates.cost is not None else 0.0
    tokens = used_tokens(answer.usage) if answer.usage is not None else updates.usage
    return StepFinish(_FINISH.get(answer.stop_reason, "stop"), tokens, spent)


def _error_text(error: str, program: AgentProgram) -> str:
    """Return an error that the program may have written itself, as it can be stored and shown to a model."""
    return shorten_middle(program.redact(error), MOST_ERROR)


async def _describe_failure(error: RpcError | AnswerTimeout | ConnectionLoss, program: AgentProgram) -> str:
    match error:
        case RpcError():
            return f"failed: {_error_text(str(error), program)}."
        case AnswerTimeout():
            return f"hangs: {error}. {await program.end_text()}"
        case ConnectionLoss():
            return f"ended before its answer was complete. {await program.end_text()}"


def _error_event(step: ExternalStep, how: str) -> StreamError:
    return StreamError(unknown_error(f"The external agent {step.agent} {how}"))


def _unopened_events(step: ExternalStep, how: str) -> list[ExternalEvent]:
    """End a step whose session could not be opened: in doubt if a prompt was under way there."""
    if step.known is None or step.known.prompt is None:
        return [_error_event(step, how)]
    return _doubt_events(step, f"the program {how}".removesuffix("."))


def _doubt_events(step: ExternalStep, doubt: str) -> list[ExternalEvent]:
    """Show the text that was there before the crash, and end the step in doubt."""
    why = (
        f"The process stopped while the external agent {step.agent} worked, and how far it got is unknown: "
        f"{doubt}. Check what it did before you ask it again."
    )
    partial = step.input.partial
    shown: list[ExternalEvent] = [TextStart("0"), TextDelta("0", partial), TextEnd("0")] if partial else []
    return [*shown, StreamError(task_in_doubt(why))]


@asynccontextmanager
async def connect(
    client: AcpClient, program: AgentProgram, group: asyncio.TaskGroup
) -> AsyncIterator[JsonRpcConnection]:
    """Connect a client to a program for the duration of the block."""
    connection = JsonRpcConnection(LineReader(program.read), program.write, client, group=group)
    connection.answers_noise = (
        False  # a program that logs to its stdout does not read meanwhile: both would wait
    )
    client.attach(connection)
    reading = group.create_task(connection.run())
    try:
        yield connection
    finally:
        reading.cancel()
        await asyncio.wait([reading])
