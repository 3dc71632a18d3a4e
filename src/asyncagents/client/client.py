"""Client of a server, with the method names and types of `Runtime`."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict, Unpack

from aiohttp import ClientSession, TCPConnector

from asyncagents.client.approvals import ClientApprovals
from asyncagents.client.async_tools import ClientAsyncTools
from asyncagents.client.catalog import ClientCatalog
from asyncagents.client.conversations import ClientConversations
from asyncagents.client.decode import read_answer, read_entries, read_entry
from asyncagents.client.events import BoardEvent, Reset, SessionNews, follow_board, follow_session
from asyncagents.client.json_client import JsonClient, build_path, fresh_key
from asyncagents.client.mcp_servers import ClientMcpServers
from asyncagents.client.server_finder import DataDirectoryFinder, ServerFinder, UrlFinder
from asyncagents.client.tasks import ClientTasks
from asyncagents.client.transport import Transport, count_tries
from asyncagents.domain.call.call import Call, Reply
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.mcp_server import NewMcpServer
from asyncagents.domain.conversation.message import MessageFormat, ModelRef
from asyncagents.domain.conversation.session import Rule, Session
from asyncagents.domain.conversation.status import Busy, Retry, Status
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import Event, PromptAnswered, SessionDeleted, SessionStatus
from asyncagents.domain.http_shapes import (
    AbortResult,
    BeginResult,
    FeedPosition,
    Health,
    SendResult,
    SentFile,
    SessionState,
)
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.task.board import KindFilter, TaskStats
from asyncagents.errors import InvalidInput, NotFound

RECONNECT_SECONDS = 30.0


class ClientPromptOptions(TypedDict, total=False):
    """Options of a prompt: agent, model, files and output format."""

    agent: str | None
    model: str | ModelRef | None
    variant: str | None
    files: Sequence[str | Path | SentFile]
    """Paths on the server, `file:` URLs, or files with their content."""
    format: MessageFormat | None
    message_id: MessageId | None
    """Chosen by the sender, for `send`, `prompt` and `stream`; the same id again is a repeat."""


@asynccontextmanager
async def open_client(
    url: str | None = None,
    *,
    token: str | None = None,
    data: str | Path | None = None,
    patience: float = RECONNECT_SECONDS,
) -> AsyncIterator["Client"]:
    """Connect to the server at `url`, or to the one that runs on the data directory `data` of this machine.

    `patience`: how many seconds the server may be unreachable, as during a restart, before `Unavailable` is
    raised. Until then requests are retried and streams resumed; no request takes effect twice.
    """
    async with ClientSession(connector=TCPConnector(limit=0), trace_configs=[count_tries()]) as http:
        yield Client(Transport(http, _server_finder(url, token, data), patience=patience))


def _server_finder(url: str | None, token: str | None, data: str | Path | None) -> ServerFinder:
    if url is not None and data is None:
        return UrlFinder(url, token)
    if data is not None and url is None and token is None:
        return DataDirectoryFinder(Path(data))
    raise InvalidInput("give either url (and token) or data, to find the server")


class Client:
    """A connection to a server; open one with `open_client`."""

    def __init__(self, transport: Transport) -> None:
        self._http = JsonClient(transport)
        self._transport = transport
        self.tasks = ClientTasks(self._http)
        self.async_tools = ClientAsyncTools(self._http)
        self.approvals = ClientApprovals(self._http)
        self.catalog = ClientCatalog(self._http)
        self.conversations = ClientConversations(self._http)
        self.mcp_servers = ClientMcpServers(self._http)

    async def health(self) -> Health:
        return await self._http.get("/v1/health", Health)

    async def stats(self) -> TaskStats:
        return await self._http.get("/v1/stats", TaskStats)

    async def create_session(
        self,
        *,
        title: str | None = None,
        parent_id: SessionId | None = None,
        directory: str | Path | None = None,
        key: str | None = None,
        permission: Sequence[Rule] = (),
        mcp_servers: Sequence[NewMcpServer] = (),
    ) -> Session:
        """Create a session; the same key again returns the same session. Default directory: the server's."""
        where = {"parentID": parent_id, "directory": _absolute_path(directory)}
        body = {"title": title, "permission": permission, "mcpServers": mcp_servers or None, **where}
        return await self._http.post("/session", Session, _without_none(body), key=key)

    async def begin(
        self,
        text: str,
        *,
        title: str | None = None,
        directory: str | Path | None = None,
        key: str | None = None,
        permission: Sequence[Rule] = (),
        **options: Unpack[ClientPromptOptions],
    ) -> tuple[Session, MessageId]:
        """Create a session with its first message, atomically, and return without waiting for an answer."""
        body = {
            "title": title,
            "directory": _absolute_path(directory),
            "permission": permission,
            **_prompt_body(text, options),
        }
        begun = await self._http.post("/v1/sessions", BeginResult, _without_none(body), key=key)
        return begun.session, begun.message_id

    async def send(
        self,
        session_id: SessionId,
        text: str,
        *,
        key: str | None = None,
        wakes: bool = True,
        **options: Unpack[ClientPromptOptions],
    ) -> MessageId:
        """Store a message without waiting for an answer; with `wakes=False` it waits for the next step."""
        return (await self._send(session_id, text, key=key, wakes=wakes, **options)).message_id

    async def _send(
        self,
        session_id: SessionId,
        text: str,
        *,
        key: str | None,
        wakes: bool = True,
        **options: Unpack[ClientPromptOptions],
    ) -> SendResult:
        body = {"wakes": wakes, "messageID": options.get("message_id"), **_prompt_body(text, options)}
        path = build_path("v1", "sessions", session_id, "prompts")
        return await self._http.post(path, SendResult, _without_none(body), key=key)

    async def prompt(
        self,
        session_id: SessionId,
        text: str,
        *,
        key: str | None = None,
        **options: Unpack[ClientPromptOptions],
    ) -> MessageWithParts:
        """Send a message and wait until its turn ends, or waits for something outside; return the answer."""
        async with self._session_stream(session_id) as stream:
            message_id = await self.send(session_id, text, key=key or fresh_key(), **options)
            return await self._await_answer(session_id, message_id, stream)

    async def wait_for_answer(self, session_id: SessionId, message_id: MessageId) -> MessageWithParts:
        """Wait for the answer to a sent message."""
        async with self._session_stream(session_id) as stream:
            return await self._await_answer(session_id, message_id, stream)

    async def _await_answer(
        self, session_id: SessionId, message_id: MessageId, stream: AsyncIterator[SessionNews]
    ) -> MessageWithParts:
        answer = await self.answer_to(message_id)
        while answer is None:
            match await anext(stream):
                case PromptAnswered(message_id=answered) if answered == message_id:
                    answer = await self.answer_to(message_id)
                case Reset():
                    answer = await self.answer_to(message_id)
                case SessionDeleted(session_id=gone) if gone == session_id:
                    raise NotFound("session", session_id)
                case _:
                    pass
        return answer

    async def stream(
        self,
        session_id: SessionId,
        text: str,
        *,
        key: str | None = None,
        **options: Unpack[ClientPromptOptions],
    ) -> AsyncGenerator[Event, None]:
        """Send a message and yield the events of its session until it is answered, or the session deleted."""
        async with self._session_stream(session_id) as stream:
            sent = await self._send(session_id, text, key=key or fresh_key(), **options)
            message_id = sent.message_id
            if key is not None and not sent.new and await self.answer_to(message_id) is not None:
                return
            async for event in stream:
                if isinstance(event, Reset) and await self.answer_to(message_id) is not None:
                    return
                if event is None or isinstance(event, Reset):
                    continue
                yield event
                answered = isinstance(event, PromptAnswered) and event.message_id == message_id
                if answered or isinstance(event, SessionDeleted):
                    return

    @asynccontextmanager
    async def events(
        self, session_id: SessionId, *, tree: bool = False, after: str | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Stream the events of a session, or of its whole tree, from now on, across restarts of the server.

        The stream ends when the session is deleted. `after`: a cursor to resume from.
        """
        async with (
            self._session_stream(session_id, tree=tree, after=after) as stream,
            aclosing(_events(stream)) as events,
        ):
            yield events

    @asynccontextmanager
    async def _session_stream(
        self, session_id: SessionId, *, tree: bool = False, after: str | None = None
    ) -> AsyncIterator[AsyncGenerator[SessionNews, None]]:
        """Open the stream of a session; it has begun when the block starts."""
        async with aclosing(follow_session(self._transport, session_id, tree=tree, after=after)) as stream:
            await anext(stream)
            yield stream

    def board(self, kind: KindFilter = "background") -> AsyncGenerator[BoardEvent, None]:
        """Yield a snapshot of all tasks of a kind, then each change; after a reset, a new snapshot."""
        return follow_board(self._transport, kind)

    async def wait(self, session_id: SessionId) -> Status:
        """Wait until a session is idle or waits for something outside; return its status."""
        async with self._session_stream(session_id) as stream:
            status = await self.status(session_id)
            while isinstance(status, Busy | Retry):
                match await anext(stream):
                    case SessionStatus(session_id=about, status=now) if about == session_id:
                        status = now
                    case SessionDeleted(session_id=gone) if gone == session_id:
                        raise NotFound("session", session_id)
                    case _:
                        pass
        return status

    async def answer(
        self,
        ask_id: str,
        reply: str | Reply | Sequence[Sequence[str]],
        *,
        input: dict[str, Any] | None = None,
        message: str = "",
        by: str = "",
    ) -> Call:
        """Answer a permission with "once", "always" or "reject", a question with a list for each question."""
        body = {"reply": reply, "input": input, "message": message, "by": by}
        return await self._http.post(build_path("v1", "asks", ask_id, "answer"), Call, _without_none(body))

    async def asks(self, session_id: SessionId | None = None) -> tuple[WaitingCall, ...]:
        """List calls that wait for a person, of a session's tree or of all sessions, oldest first."""
        query = {} if session_id is None else {"sessionID": session_id}
        return await self._http.get("/v1/asks", tuple[WaitingCall, ...], query)

    async def abort(
        self, session_id: SessionId, *, seconds: float = 5.0, scope: str = "tree", key: str | None = None
    ) -> bool:
        """Abort a session and its descendants. Returns False if a run was still stopping after `seconds`; the
        cancel itself is committed.

        The same key again does not abort later work; requests are retried under one key.
        """
        path, body = build_path("v1", "sessions", session_id, "abort"), {"seconds": seconds, "scope": scope}
        return (await self._http.post(path, AbortResult, body, key=key)).stopped

    async def session(self, session_id: SessionId) -> Session:
        return await self._http.get(build_path("session", session_id), Session)

    async def state(self, session_id: SessionId) -> SessionState:
        """Get a session with its state."""
        return await self._http.get(build_path("v1", "sessions", session_id), SessionState)

    async def find_session(self, start: str) -> Session:
        """Find a session by its id or an unambiguous prefix of it."""
        found = await self._http.get(build_path("v1", "sessions", start), SessionState, {"prefix": "true"})
        return found.session

    async def sessions(
        self, directory: str | Path | None = None, *, limit: int = 100, roots: bool = False
    ) -> tuple[Session, ...]:
        """List sessions of a directory (None: the server's), newest first. `roots`: without parents only."""
        query = _without_none(
            {"directory": _absolute_path(directory), "limit": str(limit), "roots": str(roots).lower()}
        )
        return await self._http.get("/session", tuple[Session, ...], query)

    async def roots(self, directory: str | Path | None = None, *, limit: int = 100) -> tuple[Session, ...]:
        """List sessions without a parent, of one directory (None: all), newest first."""
        query = _without_none({"directory": _absolute_path(directory), "limit": str(limit)})
        return await self._http.get("/v1/sessions", tuple[Session, ...], query)

    async def tree(self, session_id: SessionId) -> tuple[Session, ...]:
        """List all sessions of the session's tree, root first."""
        return await self._http.get(build_path("v1", "sessions", session_id, "tree"), tuple[Session, ...])

    async def root_of(self, session_id: SessionId) -> SessionId:
        return (await self.state(session_id)).root_id

    async def children(self, session_id: SessionId) -> tuple[Session, ...]:
        return await self._http.get(build_path("session", session_id, "children"), tuple[Session, ...])

    async def delete_session(self, session_id: SessionId) -> None:
        """Delete a session and all its descendants."""
        await self._http.delete(build_path("session", session_id), gone=b"true")

    async def messages(
        self, session_id: SessionId, *, limit: int = 1_000_000
    ) -> tuple[MessageWithParts, ...]:
        """List the newest `limit` messages, oldest first."""
        path = build_path("session", session_id, "message")
        return read_entries(await self._http.raw(path, {"limit": str(limit)}))

    async def message(self, session_id: SessionId, message_id: MessageId) -> MessageWithParts:
        return read_entry(await self._http.raw(build_path("session", session_id, "message", message_id)))

    async def answer_to(self, message_id: MessageId) -> MessageWithParts | None:
        """Get the message that answered a prompt, if there is one."""
        return read_answer(await self._http.raw(build_path("v1", "messages", message_id, "answer")))

    async def status(self, session_id: SessionId) -> Status:
        return (await self.state(session_id)).status

    async def statuses(self, session_id: SessionId | None = None) -> dict[SessionId, Status]:
        """Get the statuses of all non-idle sessions, or those of a session's tree."""
        path = (
            "/session/status" if session_id is None else build_path("v1", "sessions", session_id, "statuses")
        )
        return await self._http.get(path, dict[SessionId, Status])

    async def at_work(self, session_id: SessionId) -> bool:
        """Whether any session of the tree neither rests nor waits for something outside."""
        return (await self.state(session_id)).at_work

    async def is_run(self, session_id: SessionId) -> bool:
        """Whether a live process has a run of the session now."""
        return (await self.state(session_id)).is_run

    async def cursor(self) -> str:
        """Get the current cursor, from which `events` can resume later."""
        return (await self._http.get("/v1/cursor", FeedPosition)).cursor

    async def todos(self, session_id: SessionId) -> tuple[Todo, ...]:
        return await self._http.get(build_path("session", session_id, "todo"), tuple[Todo, ...])

    async def open_calls(self, session_id: SessionId) -> tuple[Call, ...]:
        return await self._http.get(build_path("v1", "sessions", session_id, "calls"), tuple[Call, ...])


async def _events(stream: AsyncGenerator[SessionNews, None]) -> AsyncGenerator[Event, None]:
    async for event in stream:
        if event is not None and not isinstance(event, Reset):
            yield event


def _prompt_body(text: str, options: ClientPromptOptions) -> dict[str, Any]:
    model, files = options.get("model"), options.get("files") or ()
    named = f"{model.provider_id}/{model.model_id}" if isinstance(model, ModelRef) else model
    sent = [file if isinstance(file, SentFile) else _file_path(file) for file in files]
    variant = options.get("variant") or (model.variant if isinstance(model, ModelRef) else None)
    chosen = {"agent": options.get("agent"), "variant": variant, "format": options.get("format")}
    return {"prompt": text, "model": named, "files": sent or None, **chosen}


def _file_path(file: str | Path) -> str:
    """Make a `Path` absolute: it is relative to this process's directory, not the server's."""
    return str(file.absolute()) if isinstance(file, Path) else file


def _absolute_path(directory: str | Path | None) -> str | None:
    return None if directory is None else str(Path(directory).absolute())


def _without_none(body: dict[str, Any]) -> dict[str, Any]:
    """Drop values that are None."""
    return {name: value for name, value in body.items() if value is not None}
