"""The host of a `run`: a runtime in this process, or a server."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, Unpack

from asyncagents.domain.call.call import Reply
from asyncagents.domain.call.waiting import OpenCall
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.session import Rule, Session
from asyncagents.domain.conversation.status import Status
from asyncagents.domain.event import Event
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.engine.input.message import PromptOptions
from asyncagents.errors import StoreError


class HostTasks(Protocol):
    async def list(self, session_id: SessionId) -> tuple[BackgroundTask, ...]: ...

    async def list_awaited(self, session_id: SessionId, *, asks: bool = False) -> tuple[OpenCall, ...]: ...


class Host(Protocol):
    """What a run needs of its host; the methods are those of `Runtime`."""

    @property
    def tasks(self) -> HostTasks: ...

    @property
    def trouble(self) -> StoreError | None: ...

    async def begin(
        self,
        text: str,
        *,
        title: str | None,
        directory: Path,
        key: str | None,
        permission: Sequence[Rule],
        **options: Unpack[PromptOptions],
    ) -> tuple[Session, MessageId]: ...

    async def send(
        self, session_id: SessionId, text: str, *, key: str | None, **options: Unpack[PromptOptions]
    ) -> MessageId: ...

    def serve_tree(self, root_id: SessionId) -> None:
        """Run this tree (or follow it, if the host is a server)."""
        ...

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[Event]]: ...

    async def answer(self, ask_id: str, reply: Reply) -> object: ...

    async def abort(self, session_id: SessionId, *, seconds: float) -> bool: ...

    async def find_session(self, start: str) -> Session: ...

    async def roots(self, directory: Path, *, limit: int) -> tuple[Session, ...]: ...

    async def session(self, session_id: SessionId) -> Session: ...

    async def root_of(self, session_id: SessionId) -> SessionId: ...

    async def children(self, session_id: SessionId) -> tuple[Session, ...]: ...

    async def messages(self, session_id: SessionId, *, limit: int) -> tuple[MessageWithParts, ...]: ...

    async def answer_to(self, message_id: MessageId) -> MessageWithParts | None: ...

    async def statuses(self, root_id: SessionId) -> dict[SessionId, Status]: ...

    async def at_work(self, root_id: SessionId) -> bool: ...

    async def is_running(self, session_id: SessionId) -> bool: ...
