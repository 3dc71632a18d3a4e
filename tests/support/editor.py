"""An editor in memory: the client side of the Agent Client Protocol before the agent of this process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from asyncagents.acp.agent import AcpAgent
from asyncagents.client.client import Client, open_client
from asyncagents.client.server_link import ServerLink
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.id import Ids
from asyncagents.remote.json_rpc import JsonRpcConnection, RpcError, no_such_method
from tests.support.acp.rules import ConnectionCheck
from tests.support.acp.schema import ProtocolSchema, Side, find_schema
from tests.support.wait import PATIENCE

Json = dict[str, Any]
Answer = Callable[[Json], Any]
"""Answers a request of the agent, by its parameters; an exception is an error."""

ALLOW_ONCE = {"outcome": {"outcome": "selected", "optionId": "once"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}


class Editor:
    """Writes down what the agent sends, and answers its requests as told beforehand."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Json]] = []
        self.requests: list[tuple[str, Json]] = []
        self.answers: dict[str, Answer] = {}
        self._connection: JsonRpcConnection | None = None
        self._news = asyncio.Event()

    def attach(self, connection: JsonRpcConnection) -> None:
        self._connection = connection

    async def handle_request(self, method: str, params: Raw) -> Any:
        given = msgspec.json.decode(params)
        self.requests.append((method, given))
        self._news.set()
        if method not in self.answers:
            raise no_such_method(method)
        answer = self.answers[method](given)
        return await answer if asyncio.iscoroutine(answer) else answer

    async def handle_notification(self, method: str, params: Raw) -> None:
        assert method == "session/update", method
        given = msgspec.json.decode(params)
        self.updates.append((given["sessionId"], given["update"]))
        self._news.set()

    async def request(self, method: str, **params: Any) -> Any:
        assert self._connection is not None
        async with asyncio.timeout(PATIENCE):
            return msgspec.json.decode(await self._connection.request(method, params))

    async def error(self, method: str, **params: Any) -> RpcError:
        """Return the error of a request that must fail."""
        try:
            result = await self.request(method, **params)
        except RpcError as error:
            return error
        raise AssertionError(f"{method} returned {result}")

    async def notify(self, method: str, **params: Any) -> None:
        assert self._connection is not None
        await self._connection.notify(method, params)

    async def initialize(self, **capabilities: Any) -> Json:
        result: Json = await self.request(
            "initialize",
            protocolVersion=1,
            clientCapabilities=capabilities,
            clientInfo={"name": "editor", "version": "1"},
        )
        return result

    async def new_session(self, directory: Path) -> str:
        created: Json = await self.request("session/new", cwd=str(directory), mcpServers=[])
        return str(created["sessionId"])

    async def prompt(self, session_id: str, text: str) -> str:
        content = [{"type": "text", "text": text}]
        ended: Json = await self.request("session/prompt", sessionId=session_id, prompt=content)
        return str(ended["stopReason"])

    def kinds(self, session_id: str | None = None) -> list[str]:
        return [update["sessionUpdate"] for about, update in self.updates if session_id in (None, about)]

    def of_kind(self, kind: str) -> list[Json]:
        return [update for _, update in self.updates if update["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.of_kind(kind))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._news.clear()
                await self._news.wait()


class Connected:
    """Connects to a server that is there."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def connect(self, directory: Path | None) -> Client:
        return self._client

    async def restore(self) -> None:
        raise AssertionError("the server is there")


@asynccontextmanager
async def open_editor(
    data: Path,
    *,
    initialized: bool = True,
    server: AbstractAsyncContextManager[Client] | None = None,
    **capabilities: Any,
) -> AsyncIterator[Editor]:
    """Connect an editor to an agent that uses the server of a data directory, or another one.

    At the end no frame of the agent may have had a problem, as far as npm gives us the schema.
    """
    schema = await find_schema(unstable="subagents" in capabilities)
    log = FrameLog(schema)
    to_agent: asyncio.Queue[bytes | None] = asyncio.Queue()
    to_editor: asyncio.Queue[bytes | None] = asyncio.Queue()
    editor = Editor()
    async with server or open_client(data=data) as client, asyncio.TaskGroup() as group:
        agent = AcpAgent(ServerLink(Connected(client)), Ids(SystemClock(), SystemRng()), group=group)
        agent_side = JsonRpcConnection(to_agent.get, log.writer("agent", to_editor), agent, group=group)
        editor_side = JsonRpcConnection(to_editor.get, log.writer("client", to_agent), editor, group=group)
        agent.attach(agent_side)
        editor.attach(editor_side)
        running = [group.create_task(each.run()) for each in (agent_side, editor_side)]
        try:
            if initialized:
                await editor.initialize(**capabilities)
            yield editor
        finally:
            agent.close()
            to_agent.put_nowait(None)
            to_editor.put_nowait(None)
            await asyncio.wait(running)
    assert log.problems == [], "\n".join(log.problems)


class FrameLog:
    """Checks the frames of the agent by the schema and the rules of the protocol."""

    def __init__(self, schema: ProtocolSchema | None) -> None:
        self.problems: list[str] = []
        self._check = None if schema is None else ConnectionCheck(schema)

    def writer(self, sender: Side, queue: "asyncio.Queue[bytes | None]") -> Callable[[bytes], Any]:
        """Return what writes the frames of one side into a queue."""

        async def write(data: bytes) -> None:
            queue.put_nowait(data.rstrip(b"\n"))
            found = (
                [] if self._check is None else self._check.find_problems(sender, msgspec.json.decode(data))
            )
            if sender == "agent":
                self.problems += [f"{problem}\n  in {data.decode():.1000}" for problem in found]

        return write
