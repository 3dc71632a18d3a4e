"""An external agent that does anything such an agent may do, and some things that it may not."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw

from asyncagents.remote.json_rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ConnectionLoss,
    JsonRpcConnection,
    LineReader,
    RpcError,
    no_such_method,
)
from asyncagents.testing.acp_agent import PERMISSION_OPTIONS
from tests.simulation.foreign import (
    ASKED,
    DENIED,
    FREE,
    Allowed,
    Foreign,
    ForeignProgram,
    JsonObject,
    Prompted,
)

STOPS = ("end_turn", "end_turn", "end_turn", "end_turn", "max_tokens", "refusal", "cancelled")
ACTS = {
    "say": 30, "think": 6, "call": 14, "ask": 16, "plan": 4, "cost": 4, "rest": 10, "stranger": 3,
    "unknown": 4, "hang": 2, "break": 3, "garbage": 2, "request": 2, "ask and go": 3, "fail": 1,
    "ask once more": 6,
}  # fmt: skip
MOST_ACTS = 8


class WildAgent:
    """Serves one program. What it does depends on the seed and on the number of the program alone."""

    def __init__(self, foreign: Foreign, program: ForeignProgram, group: asyncio.TaskGroup) -> None:
        self._foreign = foreign
        self._program = program
        self._persona = foreign.personas[program.step.agent]
        self._group = group
        self._rng = random.Random(f"{foreign.seed}:{program.number}")
        self._cancelled = asyncio.Event()
        self._cancels = self._rng.random() < 0.85
        """Whether it heeds a cancel."""
        self._calls = 0
        self._chunks = 0
        self._after_load = b""
        """What it shows right behind the answer to a load."""
        self._connection = JsonRpcConnection(LineReader(program.agent_read), self._write, self, group=group)

    async def serve(self) -> None:
        """Answer until the client closes the stream."""
        with suppress(ConnectionLoss):
            await self._connection.run()

    async def _write(self, data: bytes) -> None:
        await self._program.agent_write(data)
        if self._after_load and b'"result"' in data:
            double, self._after_load = self._after_load, b""
            await self._program.agent_write(double)

    async def handle_notification(self, method: str, params: Raw) -> None:
        if method == "session/cancel":
            self._cancelled.set()

    async def handle_request(self, method: str, params: Raw) -> Any:
        given = msgspec.json.decode(params)
        await self._wait(self._rng.choice([0, 0.01, 0.3]))
        if method != "session/prompt":
            await self._stumble()
        match method:
            case "initialize":
                return self._initialize()
            case "session/new":
                external_id = f"ext-{len(self._foreign.sessions) + 1}"
                self._foreign.sessions[external_id] = []
                return {"sessionId": external_id}
            case "session/resume" if self._persona.resumes:
                self._require(given["sessionId"])
                return {}
            case "session/load" if self._persona.loads:
                return await self._load(given["sessionId"])
            case "session/prompt":
                texts = tuple(block["text"] for block in given["prompt"])
                return await self._prompt(given["sessionId"], texts)
            case _:
                raise no_such_method(method)

    async def _stumble(self) -> None:
        """Sometimes it ends, errs or hangs before it has begun."""
        drawn = self._rng.random()
        if drawn < 0.015:
            self._program.break_down()
        elif drawn < 0.025:
            self._program.erred = self._program.refused = True
            raise RpcError(INTERNAL_ERROR, "it is not in the mood")
        elif drawn < 0.03:
            self._program.erred = True
            await asyncio.sleep(400)

    def _initialize(self) -> JsonObject:
        persona = self._persona
        self._program.offers_nothing = not persona.loads and not persona.resumes
        return {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": persona.loads,
                "sessionCapabilities": {"resume": {}} if persona.resumes else {},
            },
        }

    def _require(self, external_id: str) -> list[JsonObject]:
        if self._rng.random() < self._persona.forgets:
            self._foreign.sessions.pop(external_id, None)
        if external_id not in self._foreign.sessions:
            self._program.refused = True
            raise RpcError(INVALID_PARAMS, f"there is no session {external_id}")
        return self._foreign.sessions[external_id]

    async def _load(self, external_id: str) -> JsonObject:
        replay = [
            each
            for each in self._require(external_id)
            if self._persona.shows_prompts or each["sessionUpdate"] != "user_message_chunk"
        ]
        self._program.replay = replay
        for update in replay:
            await self._notify(external_id, update)
        if self._persona.doubles:
            self._after_load = b"".join(_notification(external_id, update) for update in replay[-3:])
        return {}

    # A prompt.

    async def _prompt(self, external_id: str, texts: tuple[str, ...]) -> JsonObject:
        if not self._program.is_alive():
            return {}
        prompted = self._foreign.receive(self._program, external_id, texts)
        for text in texts if self._persona.splits else ("\n".join(texts),):
            self._store(external_id, _chunk("user_message_chunk", text))
        with suppress(ConnectionLoss):
            for act in self._draw_acts(external_id):
                await act(prompted)
                if not self._program.is_alive():
                    return {}
                if self._cancelled.is_set() and self._cancels:
                    prompted.outcome = "cancelled"
                    return {"stopReason": "cancelled"}
        return self._answer(prompted)

    def _answer(self, prompted: Prompted) -> JsonObject:
        if self._rng.random() < 0.15:
            self._group.create_task(self._go_on_after(prompted))
        prompted.outcome = self._rng.choice(STOPS)
        answer: JsonObject = {"stopReason": prompted.outcome}
        if self._rng.random() < 0.5:
            answer["usage"] = {"inputTokens": self._rng.randrange(50), "outputTokens": self._rng.randrange(9)}
        return answer

    async def _go_on_after(self, prompted: Prompted) -> None:
        """Say and do more after the answer."""
        await asyncio.sleep(self._rng.choice([0, 0.001, 0.01]))
        if self._program.is_alive():
            prompted.late.append(self._next_chunk())
            await self._notify(prompted.external_id, _chunk("agent_message_chunk", prompted.late[-1]))
            await self._notify(prompted.external_id, self._call_update("late", "in_progress"))

    def _draw_acts(self, external_id: str) -> list[Callable[[Prompted], Awaitable[None]]]:
        drawn = self._rng.choices(list(ACTS), list(ACTS.values()), k=self._rng.randrange(MOST_ACTS))
        acts: dict[str, Callable[[Prompted], Awaitable[None]]] = {
            "say": self._say,
            "think": self._think,
            "call": self._call,
            "ask": self._ask_new,
            "ask and go": self._ask_and_go,
            "ask once more": self._ask_once_more,
            "plan": self._plan,
            "cost": self._report_cost,
            "rest": self._rest,
            "stranger": self._show_stranger,
            "unknown": self._end_unknown,
            "hang": self._hang,
            "break": self._break,
            "garbage": self._babble,
            "request": self._request,
            "fail": self._fail,
        }
        again = [self._ask_again] if self._foreign.unfinished.get(external_id) else []
        return [*again, *(acts[each] for each in drawn)]

    async def _wait(self, seconds: float) -> None:
        if seconds:
            await asyncio.sleep(seconds)

    async def _show(self, prompted: Prompted, update: JsonObject) -> None:
        """Show an update and store it; in which order, the persona says."""
        if self._persona.stores_late:
            await self._notify(prompted.external_id, update)
            await asyncio.sleep(self._rng.choice([0.01, 0.5]))
            self._store(prompted.external_id, update)
        else:
            self._store(prompted.external_id, update)
            await self._notify(prompted.external_id, update)

    def _store(self, external_id: str, update: JsonObject) -> None:
        if self._program.is_alive():
            self._foreign.sessions.setdefault(external_id, []).append(update)

    async def _notify(self, external_id: str, update: JsonObject) -> None:
        await self._connection.notify("session/update", {"sessionId": external_id, "update": update})

    def _next_chunk(self) -> str:
        self._chunks += 1
        return f"w{self._program.number}_{self._chunks};"

    async def _say(self, prompted: Prompted) -> None:
        for _ in range(self._rng.choice([1, 1, 3])):
            if self._program.is_alive():
                prompted.said.append(self._next_chunk())
                await self._show(prompted, _chunk("agent_message_chunk", prompted.said[-1]))
                await self._wait(self._rng.choice([0, 0.05, 1.2]))

    async def _think(self, prompted: Prompted) -> None:
        await self._show(prompted, _chunk("agent_thought_chunk", self._next_chunk()))

    async def _plan(self, prompted: Prompted) -> None:
        entries = [{"content": f"step {n}", "status": self._rng.choice(["pending", "done"])} for n in "ab"]
        await self._show(prompted, {"sessionUpdate": "plan", "entries": entries})

    async def _report_cost(self, prompted: Prompted) -> None:
        cost = {"amount": self._rng.random(), "currency": "USD"}
        await self._notify(prompted.external_id, {"sessionUpdate": "usage_update", "cost": cost})

    async def _rest(self, prompted: Prompted) -> None:
        await asyncio.sleep(self._rng.choice([0.1, 1, 5]))

    async def _show_stranger(self, prompted: Prompted) -> None:
        await self._notify("ext-nobody", _chunk("agent_message_chunk", "a stranger;"))

    async def _end_unknown(self, prompted: Prompted) -> None:
        await self._end_call(prompted, self._next_call())

    async def _hang(self, prompted: Prompted) -> None:
        self._program.hangs = True
        await self._cancelled.wait()
        if not self._cancels:
            await asyncio.sleep(60)
        self._program.hangs = False

    async def _break(self, prompted: Prompted) -> None:
        await self._wait(self._rng.choice([0, 0.5]))
        self._program.break_down()

    async def _babble(self, prompted: Prompted) -> None:
        await self._program.agent_write(b'{"jsonrpc": "2.0", "method": \n[]\n\n{"id": 7}\n')

    async def _request(self, prompted: Prompted) -> None:
        with suppress(RpcError):
            await self._connection.request("fs/read_text_file", {"path": "/etc/passwd"})

    async def _fail(self, prompted: Prompted) -> None:
        self._program.erred = True
        raise RpcError(INTERNAL_ERROR, "it has had enough")

    # Calls.

    def _next_call(self) -> str:
        self._calls += 1
        return f"c{self._calls}" if self._persona.numbers_anew else f"c{self._program.number}_{self._calls}"

    def _call_update(self, key: str, status: str, kind: str = "tool_call", **more: Any) -> JsonObject:
        shown = {"toolCallId": key, "title": f"work {key}", "kind": "other", "status": status, **more}
        return {"sessionUpdate": kind, **shown}

    async def _call(self, prompted: Prompted) -> None:
        """Begin a call, report on it, and mostly end it, now and then twice and otherwise."""
        key = self._next_call()
        await self._show(prompted, self._call_update(key, self._rng.choice(["pending", "in_progress"])))
        for _ in range(self._rng.choice([0, 1, 3])):
            await self._wait(self._rng.choice([0, 0.4, 1.5]))
            await self._show(prompted, self._call_update(key, "in_progress", "tool_call_update"))
        for _ in range(self._rng.choice([0, 1, 1, 1, 2])):
            await self._end_call(prompted, key)

    async def _end_call(self, prompted: Prompted, key: str) -> None:
        status, output = self._rng.choice(["completed", "failed"]), self._next_chunk()
        if self._program.is_alive():
            prompted.ends.setdefault(key, (status, output))
            await self._show(prompted, self._call_update(key, status, "tool_call_update", rawOutput=output))

    async def _ask_new(self, prompted: Prompted) -> None:
        key = self._next_call()
        host = self._rng.choice([FREE, DENIED, ASKED, ASKED, ASKED])
        url = f"{host}/{self._program.number}/{key}"
        await self._ask(
            prompted, {"toolCallId": key, "kind": "fetch", "title": url, "rawInput": {"url": url}}
        )

    async def _ask_again(self, prompted: Prompted) -> None:
        """After an end it asks once more for what it did not finish, as the same call or as another."""
        for call in list(self._foreign.unfinished.get(prompted.external_id, ())):
            if self._program.is_alive() and self._rng.random() < 0.8:
                key = call["toolCallId"] if self._rng.random() < 0.5 else self._next_call()
                await self._ask(prompted, {**call, "toolCallId": key})

    async def _ask_once_more(self, prompted: Prompted) -> None:
        """Ask for another call that is the same as one before."""
        if before := self._foreign.asked.get(prompted.external_id):
            await self._ask(prompted, {**self._rng.choice(before), "toolCallId": self._next_call()})

    async def _ask_and_go(self, prompted: Prompted) -> None:
        """It does not wait for the answer."""
        self._group.create_task(self._ask_new(prompted))
        await self._wait(self._rng.choice([0, 0.1]))

    async def _ask(self, prompted: Prompted, call: JsonObject) -> None:
        url = call["rawInput"]["url"]
        unfinished = self._foreign.unfinished.setdefault(prompted.external_id, [])
        unfinished[:] = [each for each in unfinished if each["title"] != url] + [call]
        self._foreign.asked.setdefault(prompted.external_id, []).append(call)
        prompted.asked.add(call["toolCallId"])
        if self._rng.random() < 0.7:
            await self._show(prompted, {"sessionUpdate": "tool_call", "status": "pending", **call})
        params = {"sessionId": prompted.external_id, "toolCall": call, "options": PERMISSION_OPTIONS}
        self._foreign.stage.count("foreign asks")
        try:
            answer = msgspec.json.decode(await self._connection.request("session/request_permission", params))
        except (RpcError, ConnectionLoss):
            return
        chosen = answer["outcome"].get("optionId", "cancelled")
        self._program.answered |= chosen != "cancelled"
        if self._program.is_alive():
            await self._take(prompted, call, chosen)

    async def _take(self, prompted: Prompted, call: JsonObject, chosen: str) -> None:
        """Do what it may do; it may end before it has done it."""
        if chosen == "ever":
            self._foreign.stage.violate("X-03: the program's own 'always' was chosen")
        if chosen == "yes":
            url, key = call["rawInput"]["url"], call["toolCallId"]
            self._foreign.allowed.append(Allowed(prompted.session_id, url, (prompted.step_id, key)))
            self._foreign.stage.count("foreign calls allowed")
            await self._wait(self._rng.choice([0, 0.5, 2]))
            await self._end_call(prompted, key)
        elif chosen == "no":
            self._foreign.stage.count("foreign calls rejected")
        if self._program.is_alive() and chosen != "cancelled":
            unfinished = self._foreign.unfinished[prompted.external_id]
            unfinished[:] = [each for each in unfinished if each["title"] != call["title"]]


def _notification(external_id: str, update: JsonObject) -> bytes:
    params = {"sessionId": external_id, "update": update}
    return msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": params}) + b"\n"


def _chunk(kind: str, text: str) -> JsonObject:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
