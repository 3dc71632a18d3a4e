"""A scripted external agent that speaks the Agent Client Protocol, in memory or as a program.

`python -m asyncagents.testing.acp_agent SCRIPT MEMORY`: SCRIPT is a JSON file, MEMORY a folder.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct, field

from asyncagents.remote.json_rpc import (
    INVALID_PARAMS,
    ConnectionLoss,
    JsonRpcConnection,
    LineReader,
    RpcError,
    no_such_method,
)
from asyncagents.testing.provider_reply import split_text

JsonObject: TypeAlias = dict[str, Any]
Memory: TypeAlias = MutableMapping[str, list[JsonObject]]
"""The updates of each session, prompts included."""
PERMISSION_OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "ever", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


class Act(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that the agent does in a turn; the fields that are set say what."""

    say: str = ""
    chunks: int = 1
    """Into how many pieces the text is cut."""
    gap: float = 0
    """Seconds between two pieces."""
    think: str = ""
    update: JsonObject | None = None
    """An update as it is sent."""
    ask: JsonObject | None = None
    """A call for which it asks a permission; the answer is said."""
    asks: tuple[JsonObject, ...] = ()
    """Calls for which it asks permissions at the same time; each answer is said when it comes."""
    hang: bool = False
    """Wait until the turn is cancelled."""
    exit: int | None = None
    """End the program at once."""
    request: str = ""
    """A method of ours to request; the code of the error is said."""
    spawn: str = ""
    """A shell command to leave running."""
    shell: str = ""
    """A shell command to wait for."""


class AgentScript(Struct, frozen=True, kw_only=True):
    loads: bool = True
    resumes: bool = True
    turns: dict[str, list[Act]] = field(default_factory=dict)
    """What the agent does if the prompt contains a text; the first that fits."""
    stop: str = "end_turn"
    usage: JsonObject | None = None


class FileMemory(MutableMapping[str, list[JsonObject]]):
    """Sessions in a folder, one JSON object per line: a program that was killed finds them again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def __getitem__(self, session_id: str) -> list[JsonObject]:
        try:
            lines = (self._folder / session_id).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            raise KeyError(session_id) from None
        return [json.loads(line) for line in lines]

    def __setitem__(self, session_id: str, updates: list[JsonObject]) -> None:
        text = "".join(f"{json.dumps(update)}\n" for update in updates)
        (self._folder / session_id).write_text(text, encoding="utf-8")

    def __delitem__(self, session_id: str) -> None:
        (self._folder / session_id).unlink()

    def __iter__(self) -> Any:
        return iter(sorted(each.name for each in self._folder.iterdir()))

    def __len__(self) -> int:
        return len(list(self._folder.iterdir()))


class ScriptedAgent:
    """Plays a script for each prompt, and remembers sessions."""

    def __init__(self, script: AgentScript, memory: Memory) -> None:
        self._script = script
        self._memory = memory
        self._connection: JsonRpcConnection | None = None
        self._cancelled: dict[str, asyncio.Event] = {}

    async def serve(
        self, read: Callable[[], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """Answer until the client closes the stream."""
        async with asyncio.TaskGroup() as group:
            self._connection = JsonRpcConnection(LineReader(read), write, self, group=group)
            await self._connection.run()

    async def handle_notification(self, method: str, params: Raw) -> None:
        if method == "session/cancel":
            session_id = msgspec.json.decode(params)["sessionId"]
            self._cancelled.setdefault(session_id, asyncio.Event()).set()

    async def handle_request(self, method: str, params: Raw) -> Any:
        given = msgspec.json.decode(params)
        match method:
            case "initialize":
                return self._initialize()
            case "session/new":
                session_id = f"ext-{len(self._memory) + 1}"
                self._memory[session_id] = []
                return {"sessionId": session_id}
            case "session/resume" if self._script.resumes:
                self._require(given["sessionId"])
                return {}
            case "session/load" if self._script.loads:
                for update in self._require(given["sessionId"]):
                    await self._notify(given["sessionId"], update)
                return {}
            case "session/prompt":
                return await self._prompt(given["sessionId"], given["prompt"])
            case _:
                raise no_such_method(method)

    def _initialize(self) -> JsonObject:
        sessions: JsonObject = {"resume": {}} if self._script.resumes else {}
        return {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": self._script.loads,
                "promptCapabilities": {"image": True},
                "sessionCapabilities": sessions,
            },
            "agentInfo": {"name": "scripted", "version": "1.0"},
        }

    def _require(self, session_id: str) -> list[JsonObject]:
        try:
            return self._memory[session_id]
        except KeyError:
            raise RpcError(INVALID_PARAMS, f"there is no session {session_id}") from None

    async def _prompt(self, session_id: str, blocks: list[JsonObject]) -> JsonObject:
        text = "\n".join(str(block.get("text", f"[{block['type']}]")) for block in blocks)
        chunk = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}
        self._remember(session_id, chunk)
        cancelled = self._cancelled[session_id] = asyncio.Event()
        turns = self._script.turns
        acts = next((turns[key] for key in turns if key in text), [Act(say="Done.")])
        for act in acts:
            await self._perform(session_id, act, cancelled)
            if cancelled.is_set():
                return {"stopReason": "cancelled"}
        answer: JsonObject = {"stopReason": self._script.stop}
        return {**answer, "usage": self._script.usage} if self._script.usage else answer

    async def _perform(self, session_id: str, act: Act, cancelled: asyncio.Event) -> None:
        if act.say:
            await self._say(session_id, act)
        if act.think:
            await self._show(session_id, _chunk("agent_thought_chunk", act.think))
        if act.update is not None:
            await self._show(session_id, act.update)
        if act.ask is not None:
            await self._ask(session_id, act.ask)
        await asyncio.gather(*(self._ask(session_id, call) for call in act.asks))
        if act.request:
            await self._request(session_id, act.request)
        await _perform_outside(act, cancelled)

    async def _say(self, session_id: str, act: Act) -> None:
        self._remember(session_id, _chunk("agent_message_chunk", act.say))
        for number, piece in enumerate(split_text(act.say, act.chunks)):
            if number:
                await asyncio.sleep(act.gap)
            await self._notify(session_id, _chunk("agent_message_chunk", piece))

    async def _ask(self, session_id: str, call: JsonObject) -> None:
        assert self._connection is not None
        params = {"sessionId": session_id, "toolCall": call, "options": PERMISSION_OPTIONS}
        answer = msgspec.json.decode(await self._connection.request("session/request_permission", params))
        outcome = answer["outcome"]
        await self._show(
            session_id, _chunk("agent_message_chunk", outcome.get("optionId", outcome["outcome"]))
        )

    async def _request(self, session_id: str, method: str) -> None:
        assert self._connection is not None
        try:
            await self._connection.request(method, {})
        except RpcError as error:
            await self._show(session_id, _chunk("agent_message_chunk", str(error.code)))

    async def _show(self, session_id: str, update: JsonObject) -> None:
        self._remember(session_id, update)
        await self._notify(session_id, update)

    def _remember(self, session_id: str, update: JsonObject) -> None:
        self._memory[session_id] = [*self._require(session_id), update]

    async def _notify(self, session_id: str, update: JsonObject) -> None:
        assert self._connection is not None
        await self._connection.notify("session/update", {"sessionId": session_id, "update": update})


async def _perform_outside(act: Act, cancelled: asyncio.Event) -> None:
    if act.spawn:
        await asyncio.create_subprocess_shell(act.spawn)
    if act.shell:
        await (await asyncio.create_subprocess_shell(act.shell)).wait()
    if act.exit is not None:
        os._exit(act.exit)
    if act.hang:
        await cancelled.wait()


def _chunk(kind: str, text: str) -> JsonObject:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


async def _serve_stdio(agent: ScriptedAgent) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def read() -> bytes:
        return await reader.read(65536)

    async def write(data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    with suppress(ConnectionLoss, BrokenPipeError):
        await agent.serve(read, write)


def main(script: str, memory: str) -> None:
    text = Path(script).read_bytes()
    agent = ScriptedAgent(msgspec.json.decode(text, type=AgentScript), FileMemory(Path(memory)))
    asyncio.run(_serve_stdio(agent))


if __name__ == "__main__":
    main(*sys.argv[1:])
