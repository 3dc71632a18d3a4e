"""The agent side of the Agent Client Protocol: a client drives sessions of a server."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Raw

from asyncagents.acp.mcp_servers import MCP_CAPABILITIES, GivenServers, read_servers
from asyncagents.acp.options import AGENT, ChoiceCatalog
from asyncagents.acp.session import OpenSession
from asyncagents.acp.shape import (
    PROTOCOL_VERSION,
    ClientCapabilities,
    ExistingSessionParams,
    InitializeParams,
    ListSessionsParams,
    NewSessionParams,
    PromptParams,
    SessionInfo,
    SessionParams,
    SessionReply,
    SetModeParams,
    SetOptionParams,
)
from asyncagents.acp.surroundings import Surroundings
from asyncagents.client.client import Client
from asyncagents.client.json_client import fresh_key
from asyncagents.client.server_link import ServerLink
from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import Ids, SessionId
from asyncagents.domain.task.view import iso_time
from asyncagents.errors import AsyncAgentsError, InvalidInput, NotFound
from asyncagents.remote.json_rpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    JsonRpcConnection,
    RpcError,
    decode_params,
    no_such_method,
)
from asyncagents.version import VERSION

PAGE_SIZE = 50
RESOURCE_NOT_FOUND = -32002
MAX_LOCKS = 10_000
MAX_CLIENT_NAME = 200
"""Characters of the client's name that are stored with its answers."""
CAPABILITIES: dict[str, Any] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "embeddedContext": True},
    "mcpCapabilities": MCP_CAPABILITIES,
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
}

_log = logging.getLogger(__name__)
_Method: TypeAlias = Callable[[Raw], Awaitable[Any]]


class AcpAgent:
    """Handles the requests of one client."""

    def __init__(self, server: ServerLink, ids: Ids, *, group: asyncio.TaskGroup) -> None:
        self._server = server
        self._ids = ids
        self._group = group
        self._connection: JsonRpcConnection | None = None
        self._capabilities: ClientCapabilities | None = None
        self._client_name = "acp"
        self._sessions: dict[str, OpenSession] = {}
        self._servers = GivenServers(server)
        self._locks: BoundedDict[str, asyncio.Lock] = BoundedDict(MAX_LOCKS)
        self._methods: dict[str, _Method] = {
            "authenticate": self._authenticate,
            "session/new": self._new_session,
            "session/load": self._load_session,
            "session/resume": self._resume_session,
            "session/list": self._list_sessions,
            "session/close": self._close_session,
            "session/delete": self._delete_session,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
        }

    def attach(self, connection: JsonRpcConnection) -> None:
        self._connection = connection

    async def handle_request(self, method: str, params: Raw) -> Any:
        if method == "initialize":
            return self._initialize(decode_params(params, InitializeParams))
        handler = self._methods.get(method)
        if handler is None:
            raise no_such_method(method)
        if self._capabilities is None:
            raise RpcError(INVALID_REQUEST, f"send initialize before {method}")
        try:
            return await handler(params)
        except NotFound as error:
            raise RpcError(RESOURCE_NOT_FOUND, str(error)) from error

    async def handle_notification(self, method: str, params: Raw) -> None:
        if method == "session/cancel":
            session_id = decode_params(params, SessionParams).session_id
            self._start(self._cancel(session_id))

    def _start(self, action: Coroutine[Any, Any, None]) -> None:
        """Start an action that has no answer; its failure ends nothing else."""
        self._group.create_task(_log_failure(action))

    def _initialize(self, params: InitializeParams) -> dict[str, Any]:
        self._capabilities = params.client_capabilities
        if params.client_info is not None:
            name = params.client_info.title or params.client_info.name
            self._client_name = name.replace("\0", " ")[:MAX_CLIENT_NAME]
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": CAPABILITIES,
            "agentInfo": {"name": "asyncagents", "title": "asyncagents", "version": VERSION},
            "authMethods": [],
        }

    async def _authenticate(self, params: Raw) -> None:
        raise RpcError(INVALID_PARAMS, "no login is needed: keys of models are set in the environment")

    async def _new_session(self, params: Raw) -> SessionReply:
        given = decode_params(params, NewSessionParams)
        directory, key = _check_directory(given.cwd), fresh_key()
        self._server.prefer_directory(directory)
        servers = read_servers(given.mcp_servers)
        session = await self._server.call(
            lambda client: client.create_session(directory=directory, key=key, mcp_servers=servers)
        )
        self._servers.note(session.id, servers)
        opened = self._sessions[session.id] = await self._open_session(session)
        await opened.begin(replay=False)
        self._start(opened.announce())  # begins after the reply is written
        return opened.reply(new=True)

    async def _load_session(self, params: Raw) -> SessionReply:
        return await self._reopen_session(decode_params(params, ExistingSessionParams), replay=True)

    async def _resume_session(self, params: Raw) -> SessionReply:
        return await self._reopen_session(decode_params(params, ExistingSessionParams), replay=False)

    async def _reopen_session(self, given: ExistingSessionParams, *, replay: bool) -> SessionReply:
        directory = _check_directory(given.cwd)
        self._server.prefer_directory(directory)
        session = await self._server.call(lambda client: client.session(SessionId(given.session_id)))
        if not _is_same_directory(session.directory, directory):
            raise RpcError(
                INVALID_PARAMS, f"session {session.id} is of {session.directory}: open it with that cwd"
            )
        await self._servers.replace(session, given.mcp_servers)
        async with self._lock(session.id):
            opened, previous = await self._open_session(session), self._sessions.pop(session.id, None)
            if previous is not None:
                opened.take_over(previous)
            self._sessions[session.id] = opened
            await opened.begin(replay=replay)
        self._start(opened.announce())
        return opened.reply()

    def _lock(self, session_id: str) -> asyncio.Lock:
        """Return the lock under which a session is opened, closed or deleted."""
        return self._locks.setdefault(session_id, asyncio.Lock())

    async def _open_session(self, session: Session) -> OpenSession:
        assert self._connection is not None
        assert self._capabilities is not None
        around = Surroundings(
            server=self._server,
            connection=self._connection,
            capabilities=self._capabilities,
            ids=self._ids,
            answerer=self._client_name,
            group=self._group,
        )
        catalog = await self._server.call(lambda client: _read_catalog(client, session.directory))
        return OpenSession(session, catalog, around)

    def _find_session(self, session_id: str) -> OpenSession:
        opened = self._sessions.get(session_id)
        if opened is None:
            raise RpcError(
                RESOURCE_NOT_FOUND, f"session {session_id[:80]} is not open: load or resume it first"
            )
        return opened

    async def _list_sessions(self, params: Raw) -> dict[str, Any]:
        given = decode_params(params, ListSessionsParams)
        start = _read_cursor(given.cursor)
        directory = _check_directory(given.cwd) if given.cwd is not None else None
        limit = start + PAGE_SIZE + 1
        found = await self._server.call(lambda client: client.roots(directory, limit=limit))
        page = found[start : start + PAGE_SIZE]
        listed = [
            SessionInfo(
                session_id=each.id,
                cwd=each.directory,
                title=each.title,
                updated_at=iso_time(each.time.updated),
            )
            for each in page
        ]
        more = {"nextCursor": str(start + PAGE_SIZE)} if len(found) > start + PAGE_SIZE else {}
        return {"sessions": listed, **more}

    async def _close_session(self, params: Raw) -> dict[str, Any]:
        session_id = decode_params(params, SessionParams).session_id
        async with self._lock(session_id):
            opened = self._find_session(session_id)
            await opened.cancel()
            opened.close()
            self._sessions.pop(session_id, None)
            self._servers.forget(session_id)
        return {}

    async def _delete_session(self, params: Raw) -> dict[str, Any]:
        session_id = decode_params(params, SessionParams).session_id
        async with self._lock(session_id):
            opened = self._sessions.pop(session_id, None)
            self._servers.forget(session_id)
            if opened is not None:
                opened.close()
            await self._server.call(lambda client: client.delete_session(SessionId(session_id)))
        return {}

    async def _prompt(self, params: Raw) -> dict[str, str]:
        given = decode_params(params, PromptParams)
        opened = self._find_session(given.session_id)
        return {"stopReason": await opened.prompt(given, self._servers)}

    async def _cancel(self, session_id: str) -> None:
        opened = self._sessions.get(session_id)
        if opened is not None:
            await opened.cancel()
        elif self._sessions:  # a child that the client shows as a subagent
            await self._server.call(lambda client: client.abort(SessionId(session_id), scope="turn"))

    async def _set_mode(self, params: Raw) -> dict[str, Any]:
        given = decode_params(params, SetModeParams)
        await self._find_session(given.session_id).choose(AGENT, given.mode_id)
        return {}

    async def _set_option(self, params: Raw) -> dict[str, Any]:
        given = decode_params(params, SetOptionParams)
        opened = self._find_session(given.session_id)
        await opened.choose(given.config_id, given.value)
        return {"configOptions": opened.options.config_options()}

    def close(self) -> None:
        """Stop following all sessions; their work goes on in the server."""
        for opened in self._sessions.values():
            opened.close()
        self._sessions.clear()


async def _log_failure(action: Coroutine[Any, Any, None]) -> None:
    try:
        await action
    except AsyncAgentsError as error:
        _log.warning("action=update_client failed: %s", error)


async def _read_catalog(client: Client, directory: str) -> ChoiceCatalog:
    agents = await client.catalog.agents(directory)
    models = await client.catalog.models(directory)
    speaking = tuple(each for each in agents if each.speaks_to_people)
    return ChoiceCatalog(agents=speaking, models=models, default_model=models.default)


def _check_directory(cwd: str) -> Path:
    path = Path(cwd)
    if not path.is_absolute():
        raise InvalidInput(f"cwd is {cwd[:200]!r}: expected an absolute path")
    if not os.path.isdir(path):  # `Path.is_dir` raises for a name that is too long
        raise InvalidInput(f"cwd is {cwd[:200]!r}: there is no such folder")
    return path


def _is_same_directory(known: str, given: Path) -> bool:
    """Whether two paths name one folder; sessions have the real path, editors also links to it."""
    return Path(known) == given or os.path.realpath(known) == os.path.realpath(given)


def _read_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 7):
        raise InvalidInput("cursor is not one that session/list returned")
    return int(cursor)
