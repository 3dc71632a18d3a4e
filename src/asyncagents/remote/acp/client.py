"""The client of one external agent: requests to it, and what becomes of its requests and notifications."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from asyncagents.engine.external.agent import AskVerdict, ExternalAsk, ExternalEvent
from asyncagents.engine.tool import Ask
from asyncagents.remote.acp.calls import CallLog, MergedCall
from asyncagents.remote.acp.replay import Replay
from asyncagents.remote.acp.updates import UpdateReader
from asyncagents.remote.acp.wire import (
    CANCELLED_OUTCOME,
    PROTOCOL_VERSION,
    AgentCapabilities,
    InitializeResponse,
    JsonObject,
    NewSessionResponse,
    PermissionOption,
    PermissionParams,
    PromptResponse,
    SessionNotification,
    initialize_params,
    selected_outcome,
)
from asyncagents.remote.json_rpc import (
    INTERNAL_ERROR,
    ConnectionLoss,
    JsonRpcConnection,
    RpcError,
    decode_params,
    no_such_method,
)
from asyncagents.version import VERSION

OPEN_SECONDS = 60.0
"""How long an agent may take to answer a request that opens it or a session."""
LOAD_SECONDS = 300.0
CANCEL_SECONDS = 2.0
"""How long an agent may take to end a prompt that was cancelled."""
MOST_QUEUED = 256
"""Events that wait for the step; the program is not read meanwhile."""
_KINDS: dict[AskVerdict, tuple[str, ...]] = {
    "allow": ("allow_once",),
    "reject": ("reject_once", "reject_always"),
}

FindAsks: TypeAlias = Callable[[MergedCall], Awaitable[tuple[Ask, ...]]]
T = TypeVar("T")


class AnswerTimeout(ConnectionLoss):
    """The agent did not answer in time; it may still run."""


class AcpClient:
    """Handles one session of an agent. Updates outside a prompt are dropped, those of a load are read."""

    def __init__(self, directory: str, find_asks: FindAsks) -> None:
        self._directory = directory
        self._find_asks = find_asks
        self._connection: JsonRpcConnection | None = None
        self._calls = CallLog()
        self._queue: asyncio.Queue[ExternalEvent | None] = asyncio.Queue(MOST_QUEUED)
        self._asking: set[asyncio.Future[AskVerdict]] = set()
        self._session_id = ""
        self._replay: Replay | None = None
        self._live = False
        self.updates = UpdateReader(self._calls)
        self.capabilities = AgentCapabilities()
        self.agent_version = ""

    def attach(self, connection: JsonRpcConnection) -> None:
        self._connection = connection

    async def _request(self, method: str, params: JsonObject, type: type[T], *, seconds: float) -> T:
        assert self._connection is not None, "attached before the first request"
        try:
            async with asyncio.timeout(seconds):
                raw = await self._connection.request(method, params)
        except TimeoutError as error:
            raise AnswerTimeout(f"it did not answer {method} within {seconds:g} s") from error
        try:
            return msgspec.json.decode(raw, type=type)
        except msgspec.DecodeError as error:
            raise RpcError(INTERNAL_ERROR, f"its answer to {method} is wrong: {error}") from error

    async def initialize(self, *, seconds: float = OPEN_SECONDS) -> InitializeResponse:
        """Agree on the protocol. Raises `RpcError` if the agent speaks another version."""
        answer = await self._request(
            "initialize", initialize_params(VERSION), InitializeResponse, seconds=seconds
        )
        if answer.protocol_version != PROTOCOL_VERSION:
            raise RpcError(INTERNAL_ERROR, f"it speaks version {answer.protocol_version} of the protocol")
        self.capabilities = answer.agent_capabilities
        self.agent_version = answer.agent_info.version if answer.agent_info else ""
        return answer

    async def new_session(self) -> str:
        params = {"cwd": self._directory, "mcpServers": []}
        answer = await self._request("session/new", params, NewSessionResponse, seconds=OPEN_SECONDS)
        self._session_id = answer.session_id
        return answer.session_id

    async def resume_session(self, external_id: str) -> None:
        self._session_id = external_id
        await self._request("session/resume", self._session_params(), Any, seconds=OPEN_SECONDS)

    async def load_session(self, external_id: str) -> Replay:
        """Load a session and return its replay, which is not shown."""
        self._session_id = external_id
        self._replay = replay = Replay()
        try:
            await self._request("session/load", self._session_params(), Any, seconds=LOAD_SECONDS)
        finally:
            self._replay = None
        return replay

    def _session_params(self) -> JsonObject:
        return {"sessionId": self._session_id, "cwd": self._directory, "mcpServers": []}

    async def prompt(
        self, blocks: list[JsonObject], group: asyncio.TaskGroup
    ) -> AsyncGenerator[ExternalEvent | PromptResponse, None]:
        """Send a prompt and yield its events, then its response. Closing it cancels the prompt.

        Raises `RpcError` and `ConnectionLoss`.
        """
        assert self._connection is not None, "attached before the first request"
        self._live = True
        params = {"sessionId": self._session_id, "prompt": blocks}
        sending = group.create_task(self._send_prompt(params))
        try:
            while (event := await self._queue.get()) is not None:
                yield event
            answer = sending.result()
            if isinstance(answer, Exception):
                raise answer
            yield answer
        finally:
            self._live = False
            await self._end_prompt(sending)

    async def _send_prompt(self, params: JsonObject) -> PromptResponse | Exception:
        """Return the response or the failure, after all events before it."""
        assert self._connection is not None, "attached before the first request"
        try:
            raw = await self._connection.request("session/prompt", params)
            answer: PromptResponse | Exception = msgspec.json.decode(raw, type=PromptResponse)
        except msgspec.DecodeError as error:
            answer = RpcError(INTERNAL_ERROR, f"its answer to session/prompt is wrong: {error}")
        except (RpcError, ConnectionLoss) as error:
            answer = error
        await self._queue.put(None)
        return answer

    async def _end_prompt(self, sending: "asyncio.Task[PromptResponse | Exception]") -> None:
        """Cancel a prompt that is still under way, and wait a little for its end."""
        assert self._connection is not None, "attached before the first request"
        if sending.done():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_SECONDS):
                await self._connection.notify("session/cancel", {"sessionId": self._session_id})
                for asking in self._asking:
                    if not asking.done():
                        asking.set_result("cancel")
                while await self._queue.get() is not None:
                    pass
        sending.cancel()
        await asyncio.wait([sending])

    async def handle_request(self, method: str, params: Raw) -> Any:
        if method != "session/request_permission":
            raise no_such_method(method)
        return await self._ask(decode_params(params, PermissionParams))

    async def _ask(self, params: PermissionParams) -> JsonObject:
        if not self._live:
            return CANCELLED_OUTCOME
        call = self._calls.merge(params.tool_call)
        asking: asyncio.Future[AskVerdict] = asyncio.get_running_loop().create_future()
        self._asking.add(asking)

        def respond(verdict: AskVerdict) -> None:
            if not asking.done():
                asking.set_result(verdict)

        try:
            await self._queue.put(ExternalAsk(call.as_update(), await self._find_asks(call), respond))
            return _outcome(await asking, params.options)
        finally:
            self._asking.discard(asking)

    async def handle_notification(self, method: str, params: Raw) -> None:
        if method != "session/update":
            return
        with suppress(msgspec.DecodeError):
            notification = msgspec.json.decode(params, type=SessionNotification)
            if notification.session_id != self._session_id:
                return  # a session of its own subagents
            if self._replay is not None:
                self._replay.add(notification.update)
            elif self._live:
                for event in self.updates.read(notification.update):
                    await self._queue.put(event)


def _outcome(verdict: AskVerdict, options: list[PermissionOption]) -> JsonObject:
    """Choose the option of a verdict. The agent's own `allow_always` is never chosen: our rules decide."""
    for kind in _KINDS.get(verdict, ()):
        for option in options:
            if option.kind == kind:
                return selected_outcome(option.option_id)
    return CANCELLED_OUTCOME
