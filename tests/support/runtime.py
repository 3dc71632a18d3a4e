"""A stage for flows: a real runtime on a directory, one session, and listener that heard everything."""

import asyncio
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from asyncagents.app import runtime as product
from asyncagents.app.assemble import Setup, start_runtime
from asyncagents.app.backend import Backend, PolledDatabase
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.call.call import Call
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage, UserMessage
from asyncagents.domain.conversation.part import (
    PartTime,
    ReasoningPart,
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolState,
)
from asyncagents.domain.conversation.status import Idle, Status
from asyncagents.domain.event import (
    Event,
    PartDelta,
    SessionIdle,
    SessionStatus,
)
from asyncagents.domain.id import Ids, SessionId
from asyncagents.engine.event.bus import Subscription
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool
from asyncagents.llm.model import ChatRequest, RequestMessage
from asyncagents.llm.scripted import Script, ScriptedModel
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.sqlite.owners import FlockOwners
from asyncagents.testing.inside import inside
from tests.support.store.template import FILE, copy_database
from tests.support.wait import PATIENCE, wait_until

E = TypeVar("E", bound=Event)


class EventListener:
    """Hears all events of a runtime from the moment it is made."""

    def __init__(self, subscription: Subscription) -> None:
        self._events = aiter(subscription)
        self.received: list[Event] = []

    async def until(self, kind: type[E], where: Callable[[E], bool] = lambda event: True) -> E:
        """The next event of this kind, after those that were waited for before."""
        async with asyncio.timeout(PATIENCE):
            while True:
                event = await anext(self._events)
                self.received.append(event)
                if isinstance(event, kind) and where(event):
                    return event

    async def until_status(self, kind: type[Status]) -> Status:
        event = await self.until(SessionStatus, lambda event: isinstance(event.status, kind))
        return event.status

    async def until_text(self, text: str) -> None:
        await self.until(PartDelta, lambda event: event.delta == text)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.received if isinstance(event, kind)]


class Stage:
    """One session in one runtime, with its model and its listener."""

    def __init__(
        self, runtime: Runtime, session_id: SessionId, model: ScriptedModel, listener: EventListener
    ) -> None:
        self.runtime = runtime
        self.session_id = session_id
        self.model = model
        self.listener = listener

    async def prompt(self, text: str, *, key: str | None = None) -> MessageWithParts:
        async with asyncio.timeout(PATIENCE):
            return await self.runtime.prompt(self.session_id, text, key=key)

    async def abort(self) -> bool:
        return await self.runtime.abort(self.session_id)

    async def open_call(self) -> Call:
        """The one call that is open."""
        (call,) = await self.runtime.open_calls(self.session_id)
        return call

    async def status(self) -> Status:
        return await self.runtime.status(self.session_id)

    async def messages(self) -> tuple[MessageWithParts, ...]:
        return await self.runtime.messages(self.session_id)

    async def states(self) -> list[ToolState]:
        """Of all tool parts of the session, in order."""
        entries = await self.messages()
        return [part.state for entry in entries for part in entry.parts if isinstance(part, ToolPart)]

    def request_messages(self, number: int = -1) -> list[RequestMessage]:
        """What one of the requests told the model."""
        return list(self.model.requests[number].messages)


@asynccontextmanager
async def open_runtime(data: str | Path | None = None, **options: Any) -> AsyncIterator[Runtime]:
    """As `asyncagents.open_runtime`; a new data directory begins with a copied database."""
    on_file = "ASYNCAGENTS_STORE" not in os.environ and options.get("fleet") is None
    if data is not None and on_file:
        copy_database(Path(data) / FILE)
    async with product.open_runtime(data, **options) as runtime:
        yield runtime


@asynccontextmanager
async def open_stage(
    data: Path,
    script: Script | ScriptedModel,
    *,
    tools: Sequence[AnyTool] = (),
    directory: Path | None = None,
    undoes: bool = False,
    **more: Any,
) -> AsyncIterator[Stage]:
    """A runtime with one session. At the end nothing is half open, and requests have only grown, unless
    what was said before is undone."""
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(script)
    async with open_runtime(data, model=model, tools=tools, **more) as runtime:
        with inside(runtime).bus.subscribe() as subscription:
            session = await runtime.create_session(directory=directory or data)
            yield Stage(runtime, session.id, model, EventListener(subscription))
        await assert_nothing_is_half_open(runtime, data)
    if not undoes:
        assert_requests_only_grow(model.requests)


@asynccontextmanager
async def open_sqlite_runtime(
    data: Path,
    setup: Setup,
    *,
    clock: Clock | None = None,
    behind: Callable[[PolledDatabase], PolledDatabase] = lambda database: database,
) -> AsyncIterator[Runtime]:
    """As `open_runtime`, with a clock of the test's own and something between engine and database."""
    clock, rng = clock or SystemClock(), SystemRng()
    copy_database(data / FILE)
    owners = FlockOwners(data / "owners", f"{rng.below(2**64):016x}")
    try:
        async with (
            open_sqlite(data / FILE, clock=clock, rng=rng) as database,
            start_runtime(Backend(behind(database), owners, clock, rng, Ids(clock, rng)), setup) as runtime,
        ):
            yield runtime
    finally:
        owners.close()


async def assert_nothing_is_half_open(runtime: Runtime, data: Path) -> None:
    """A session at rest has no message without an end and no part that still seems to move."""
    for session in await runtime.sessions(data):
        if isinstance(await runtime.status(session.id), Idle):
            for entry in await runtime.messages(session.id):
                assert isinstance(entry.info, UserMessage) or entry.info.time.completed
                assert not [part for part in entry.parts if _moves(part)]


def _moves(part: object) -> bool:
    match part:
        case ToolPart(state=state):
            return not isinstance(state, ToolCompleted | ToolFailed)
        case TextPart(time=PartTime(end=None)) | ReasoningPart(time=PartTime(end=None)):
            return True
        case _:
            return False


def assert_requests_only_grow(requests: Sequence[ChatRequest]) -> None:
    """What was sent to a provider never changes; sessions are told apart by their first message."""
    sent: dict[RequestMessage, Sequence[RequestMessage]] = defaultdict(tuple)
    for request in requests:
        before = sent[request.messages[0]]
        assert list(request.messages[: len(before)]) == list(before)
        sent[request.messages[0]] = request.messages


def roles(entries: Sequence[MessageWithParts]) -> list[str]:
    return ["user" if isinstance(entry.info, UserMessage) else "assistant" for entry in entries]


def answer_of(entry: MessageWithParts) -> AssistantMessage:
    assert isinstance(entry.info, AssistantMessage)
    return entry.info


async def resume_session(
    data: Path, session_id: SessionId, model: ScriptedModel, *tools: AnyTool
) -> tuple[MessageWithParts, ...]:
    """Let a new runtime work until the session rests; returns its messages."""
    async with open_runtime(data, model=model, tools=tools) as runtime:
        await wait_until_idle(runtime, session_id)
        return await runtime.messages(session_id)


async def wait_until_idle(runtime: Runtime, session_id: SessionId) -> None:
    with inside(runtime).bus.subscribe(session_id) as subscription:
        if await runtime.status(session_id) != Idle():
            await EventListener(subscription).until(SessionIdle)


async def wait_until_all_rest(runtime: Runtime, *, seconds: float = PATIENCE) -> None:
    """Wait until every session is idle, in whatever order they get there."""

    async def rest() -> bool:
        return not await runtime.statuses()

    await wait_until(rest, seconds=seconds)
