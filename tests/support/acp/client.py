"""A client of the Agent Client Protocol for tests: speaks to a program, records and checks every frame."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from tests.support.acp.rules import ConnectionCheck
from tests.support.acp.schema import Frame, ProtocolSchema, Side

T = TypeVar("T")
PATIENCE = 60.0
"""So long a test waits for what must come; a healthy run never does."""
MAX_LINE = 64 * 1024 * 1024
METHOD_NOT_FOUND = -32601
ASKING = ("session/request_permission", "elicitation/create")
SHOWN = 20
CANCELLED: Frame = {"outcome": {"outcome": "cancelled"}}

Policy = Callable[[Frame], Frame | None]
"""Answers a permission request or an elicitation, given as a frame; None leaves it open."""


class SeenFrame(Struct, frozen=True):
    sender: Side
    frame: Frame


class AgentFailed(Exception):
    """The agent answered a request with an error."""

    def __init__(self, error: Frame) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data = error.get("data")


def choose(kind: str) -> Policy:
    """Answer permission requests with the first option of a kind: `allow_once`, `reject_once`, …"""

    def answer(request: Frame) -> Frame:
        options = request["params"]["options"]
        chosen = next(each["optionId"] for each in options if each["kind"] == kind)
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    return answer


ALLOW = choose("allow_once")


def hold(request: Frame) -> None:
    """Leave a request open."""


def cancel(request: Frame) -> Frame:
    """Answer permission requests as an editor does whose person closes the dialogue."""
    return CANCELLED


class AcpClient:
    """Requests, what came in, and waiting for more. `problems` has all that was wrong with any frame."""

    def __init__(self, write: Callable[[bytes], None], schema: ProtocolSchema | None, policy: Policy) -> None:
        self.policy = policy
        self.frames: list[SeenFrame] = []
        self.problems: list[str] = []
        self.ended = False
        """Whether the agent closed its side."""
        self._write = write
        self._check = None if schema is None else ConnectionCheck(schema)
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._changed = asyncio.Event()

    async def request(self, method: str, /, **params: Any) -> Any:
        """Send a request and return its result. Raises `AgentFailed`."""
        return await self.post(method, **params)

    def post(self, method: str, /, **params: Any) -> asyncio.Future[Any]:
        """Send a request and return at once; the future holds its result."""
        self._last_id += 1
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._last_id] = waiting
        self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return waiting

    def notify(self, method: str, /, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, request: Frame, result: Frame) -> None:
        """Answer a request of the agent that a policy left open."""
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def send(self, frame: Frame) -> None:
        self._record("client", frame)
        self.send_bytes(json.dumps(frame).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        """Send anything, without recording it."""
        self._write(data)

    async def initialize(self, **capabilities: Any) -> Frame:
        result: Frame = await self.request(
            "initialize",
            protocolVersion=1,
            clientCapabilities=capabilities,
            clientInfo={"name": "test client", "version": "1"},
        )
        return result

    async def new_session(self, directory: Path) -> str:
        created = await self.request("session/new", cwd=str(directory), mcpServers=[])
        return str(created["sessionId"])

    def post_prompt(self, session_id: str, text: str) -> asyncio.Future[Any]:
        return self.post("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": text}])

    async def prompt(self, session_id: str, text: str) -> str:
        """Return the stop reason."""
        result = await self.post_prompt(session_id, text)
        return str(result["stopReason"])

    def receive(self, line: bytes) -> None:
        """Take a line of the agent: record and check it, and answer what it asks."""
        try:
            frame = json.loads(line)
        except ValueError:
            self.problems.append(f"agent: a line is no JSON: {line[:400]!r}")
            return
        self._record("agent", frame)
        if "method" not in frame:
            self._take_response(frame)
        elif "id" in frame:
            self._take_request(frame)
        self._changed.set()

    def receive_end(self) -> None:
        self.ended = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the agent closed the connection"))
                waiting.exception()  # marks it as seen: a test need not wait for it
        self._changed.set()

    def _record(self, sender: Side, frame: Any) -> None:
        found = [] if self._check is None else self._check.find_problems(sender, frame)
        self.problems += [f"{sender}: {problem}\n  in {json.dumps(frame)[:1000]}" for problem in found]
        self.frames.append(SeenFrame(sender, frame))

    def _take_response(self, frame: Frame) -> None:
        waiting = self._waiting.pop(frame.get("id", 0), None)
        if waiting is None or waiting.done():
            return
        if "error" in frame:
            waiting.set_exception(AgentFailed(frame["error"]))
            waiting.exception()
        else:
            waiting.set_result(frame["result"])

    def _take_request(self, frame: Frame) -> None:
        if frame["method"] in ASKING:
            answer = self.policy(frame)
            if answer is not None:
                self.answer(frame, answer)
            return
        error = {"code": METHOD_NOT_FOUND, "message": f"there is no method {frame['method']}"}
        self.send({"jsonrpc": "2.0", "id": frame["id"], "error": error})

    @property
    def unanswered(self) -> list[str]:
        """The methods of the requests that the agent has not answered."""
        return [] if self._check is None else self._check.open_requests("client")

    @property
    def asks(self) -> list[Frame]:
        """The permission requests and elicitations of the agent."""
        return [each for each in self._calls_of_agent() if each["method"] in ASKING]

    @property
    def withdrawn(self) -> list[Any]:
        """The ids of the requests that the agent cancelled."""
        return [
            each["params"]["requestId"]
            for each in self._calls_of_agent()
            if each["method"] == "$/cancel_request"
        ]

    def _calls_of_agent(self) -> list[Frame]:
        return [each.frame for each in self.frames if each.sender == "agent" and "method" in each.frame]

    def updates(self, session_id: str, *kinds: str) -> list[Frame]:
        """What the agent sent of a session, in order; only updates of these kinds, if any are given."""
        found = (
            each["params"]
            for each in self._calls_of_agent()
            if each["method"] == "session/update" and each["params"]["sessionId"] == session_id
        )
        return [each["update"] for each in found if not kinds or each["update"]["sessionUpdate"] in kinds]

    def text(self, session_id: str, kind: str = "agent_message_chunk") -> str:
        return "".join(each["content"].get("text", "") for each in self.updates(session_id, kind))

    def plan(self, session_id: str) -> list[tuple[str, str]]:
        """Content and status of the entries of the last plan."""
        plans = self.updates(session_id, "plan")
        return [(each["content"], each["status"]) for each in plans[-1]["entries"]] if plans else []

    def calls(self, session_id: str) -> dict[str, Frame]:
        """The tool calls of a session by id, each as its updates have left it."""
        found: dict[str, Frame] = {}
        for update in self.updates(session_id, "tool_call", "tool_call_update"):
            fields = {
                key: value for key, value in update.items() if value is not None and key != "sessionUpdate"
            }
            found.setdefault(update["toolCallId"], {}).update(fields)
        return found

    def states(self, session_id: str) -> list[str]:
        """The states of a session that the agent told, in order: running, requires_action, idle."""
        metas = (each.get("_meta") or {} for each in self.updates(session_id, "session_info_update"))
        return [each["asyncagents"]["state"] for each in metas if "asyncagents" in each]

    async def until(self, look: Callable[[], T | None]) -> T:
        """Wait until `look` returns something true, and return that; it is called after every frame."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not (found := look()):
                    assert not self.ended, f"the agent ended\n{self.describe()}"
                    self._changed.clear()
                    await self._changed.wait()
                return found
        except TimeoutError:
            raise AssertionError(f"nothing came for {PATIENCE} s\n{self.describe()}") from None

    async def until_text(self, session_id: str, text: str) -> None:
        await self.until(lambda: text in self.text(session_id))

    async def until_idle(self, session_id: str) -> None:
        await self.until(lambda: self.states(session_id)[-1:] == ["idle"])

    async def next_ask(self, count: int = 1) -> Frame:
        """Wait for the first (second, …) permission request or elicitation."""
        return await self.until(lambda: self.asks[count - 1] if len(self.asks) >= count else None)

    def describe(self) -> str:
        shown = [f"{each.sender}: {json.dumps(each.frame)[:400]}" for each in self.frames[-SHOWN:]]
        return "\n".join((*shown, *self.problems))


class ProcessClient(AcpClient):
    """A client of a program on its stdin and stdout."""

    def __init__(
        self, process: Process, schema: ProtocolSchema | None = None, policy: Policy = ALLOW
    ) -> None:
        assert process.stdin is not None
        super().__init__(process.stdin.write, schema, policy)
        self.process = process
        self.errors = b""
        """The end of what the program wrote to stderr."""

    def describe(self) -> str:
        return f"{super().describe()}\nstderr: {self.errors.decode(errors='replace')}"

    async def read(self) -> None:
        """Read frames until the program ends."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.receive(line)
        self.receive_end()

    async def read_errors(self) -> None:
        assert self.process.stderr is not None
        while piece := await self.process.stderr.read(65_536):
            self.errors = (self.errors + piece)[-20_000:]

    async def kill(self) -> None:
        """End the program with SIGKILL; what it started goes on."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def kill_tree(self) -> None:
        """End the program and all its descendants with SIGKILL, as some editors do."""
        tree = find_descendants(self.process.pid)
        await self.kill()
        for pid in tree:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def end(self, number: signal.Signals) -> int:
        """End the program with a signal, and return the exit code."""
        self.process.send_signal(number)
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()

    async def close(self) -> int:
        """Close the connection as an editor does that is closed, and return the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


def find_descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and that those started, as the process table has them."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


@asynccontextmanager
async def open_client(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    schema: ProtocolSchema | None = None,
    policy: Policy = ALLOW,
) -> AsyncIterator[ProcessClient]:
    """Start a program and speak to it; at the end it is closed, and no frame may have had a problem."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env=env, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=MAX_LINE
    )
    client = ProcessClient(process, schema, policy)
    reading = asyncio.gather(client.read(), client.read_errors())
    try:
        yield client
        await client.close()
    finally:
        await client.kill()
        process._transport.close()  # type: ignore[attr-defined]  # pipes that a child of it keeps open
        await reading
    assert client.problems == [], "\n".join(client.problems)
