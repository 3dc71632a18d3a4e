"""Clients of a server that dies under them: each asks again until it is answered, and remembers it."""

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout
from msgspec import Struct

from asyncagents.server.discovery import find_server
from asyncagents.store.verb.claim import CUT_OFF
from tests.simulation.stage import Violation
from tests.support.wait import wait_until

LOOK_SECONDS = 0.02
ASK_SECONDS = 10.0
LIFE_SECONDS = 120.0
FINISHED = "All of it is done."


class Deed(Struct):
    """A session, what was said to it, and the results that it was sent."""

    session_id: str
    prompts: list[str]
    results: dict[str, str]


class Outside:
    """What was accepted, as those know it who sent it."""

    def __init__(self) -> None:
        self.deeds: list[Deed] = []
        self.answers = 0
        self.counts: Counter[str] = Counter()
        self.over = asyncio.Event()

    def has_more_than(self, count: int) -> bool:
        """Whether more prompts and more results than this were accepted."""
        prompts = sum(len(deed.prompts) for deed in self.deeds)
        return min(prompts, self.counts["results accepted"]) > count


class Client:
    """Begins sessions, sends results, and sees to it that each session comes to its end."""

    def __init__(self, data: Path, outside: Outside, rng: random.Random, number: int = 0) -> None:
        self._data = data
        self._outside = outside
        self._rng = rng
        self._name = f"client{number}"
        self._keys = 0

    async def live(self) -> None:
        async with ClientSession(timeout=ClientTimeout(total=ASK_SECONDS)) as http:
            while not self._outside.over.is_set():
                async with asyncio.timeout(LIFE_SECONDS):
                    await self._session(http)

    async def _session(self, http: ClientSession) -> None:
        session = await self._ask(http, "POST", "/session", {"title": "load"}, key=self._key())
        deed = Deed(session["id"], [], {})
        self._outside.deeds.append(deed)
        for _ in range(self._rng.choice([1, 1, 2])):
            await self._prompt(http, deed)
            await self._until_answered(http, deed)

    async def _prompt(self, http: ClientSession, deed: Deed) -> None:
        """Sent twice now and then, though it was accepted: it is the same prompt."""
        steps: list[dict[str, Any]] = [self._batch() for _ in range(self._rng.choice([0, 1, 2]))]
        steps.append({"text": FINISHED, "chunks": 4, "gap": self._rng.random() * 0.03})
        text = f"{self._name} {len(deed.prompts)} [[{json.dumps({'steps': steps})}]]"
        body, key = {"parts": [{"type": "text", "text": text}]}, self._key()
        deed.prompts.append(text)
        for _ in range(self._rng.choice([1, 1, 2])):
            await self._ask(http, "POST", f"/session/{deed.session_id}/prompt_async", body, key=key)
            self._outside.counts["prompts accepted"] += 1

    def _batch(self) -> dict[str, Any]:
        if self._rng.random() < 0.4:
            seconds = self._rng.choice([0.05, 0.4, 1.0])
            call = {"name": "bash", "args": {"command": f"sleep {seconds} | sleep {seconds}"}}
            return {"text": "", "tools": [call], "delay": self._rng.random() * 0.03}
        calls = [{"name": "job", "args": {"n": n}} for n in range(self._rng.randrange(1, 4))]
        return {"text": "", "tools": calls, "delay": self._rng.random() * 0.03}

    async def _until_answered(self, http: ClientSession, deed: Deed) -> None:
        """Results for whatever waits for them, until the session rests."""
        path = f"/async-tool/pending?sessionID={deed.session_id}"

        async def is_answered() -> bool:
            for call in await self._ask(http, "GET", path):
                await self._deliver(http, deed, call["id"])
            return deed.session_id not in await self._ask(http, "GET", "/session/status")

        await wait_until(is_answered, seconds=None, pause=LOOK_SECONDS)

    async def _deliver(self, http: ClientSession, deed: Deed, call_id: str) -> None:
        """Again, too, though it was accepted; another one is refused."""
        text = f"<{call_id} {self._name}>"
        deed.results.setdefault(call_id, text)
        body = {"pendingID": call_id, "result": {"output": text}}
        for _ in range(self._rng.choice([1, 1, 2])):
            await self._ask(http, "POST", "/async-tool/result", body)
            self._outside.counts["results accepted"] += 1
        if self._rng.random() < 0.2:
            other = {"pendingID": call_id, "result": {"output": "another"}}
            await self._ask(http, "POST", "/async-tool/result", other, wanted=409)
            self._outside.counts["results refused"] += 1

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Once, on a connection of its own."""
        async with ClientSession(timeout=ClientTimeout(total=ASK_SECONDS)) as http:
            return await self._ask(http, method, path, body)

    def _key(self) -> str:
        self._keys += 1
        return f"{self._name}:{self._keys}"

    async def _ask(
        self,
        http: ClientSession,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        wanted: int = 200,
    ) -> Any:
        """Until somebody answers, and not that he stops."""

        async def ask() -> tuple[int, bytes] | None:
            answer = await self._try(http, method, path, body, key=key)
            self._outside.counts["asked in vain"] += answer is None
            return answer

        status, content = await wait_until(ask, seconds=None, pause=LOOK_SECONDS)
        self._outside.answers += 1
        if status not in {wanted, 204 if wanted == 200 else wanted}:
            raise Violation(f"{method} {path} was answered with {status}: {content!r}")
        return json.loads(content) if content else None

    async def _try(
        self, http: ClientSession, method: str, path: str, body: Any, *, key: str | None
    ) -> tuple[int, bytes] | None:
        found = find_server(self._data)
        if found is None:
            return None
        headers = {"authorization": f"Bearer {found.token}", **({"idempotency-key": key} if key else {})}
        try:
            async with http.request(method, f"{found.url}{path}", json=body, headers=headers) as response:
                content = await response.read()
        except (ClientError, TimeoutError, ConnectionError):
            return None
        return None if response.status == 503 else (response.status, content)


async def check(data: Path, outside: Outside) -> Counter[str]:
    """Each accepted prompt and result stands there once and is answered; nothing is half open."""
    counts = Counter(outside.counts)
    client = Client(data, outside, random.Random(0), -1)
    async with ClientSession(timeout=ClientTimeout(total=ASK_SECONDS)) as http:
        statuses = await client._ask(http, "GET", "/session/status")
        waiting = await client._ask(http, "GET", "/async-tool/pending")
        if statuses or waiting:
            raise Violation(f"not at rest: {statuses}; {waiting}")
        for deed in outside.deeds:
            entries = await client._ask(http, "GET", f"/session/{deed.session_id}/message")
            counts += _check_messages(deed, entries)
    counts["sessions"] = len(outside.deeds)
    return counts


def _check_messages(deed: Deed, entries: list[dict[str, Any]]) -> Counter[str]:
    said = [_text(entry) for entry in entries if entry["info"]["role"] == "user"]
    if [text for text in said if text.startswith("client")] != deed.prompts:
        raise Violation(f"{deed.session_id} was told {deed.prompts}, and has {said}")
    answers = [entry for entry in entries if entry["info"]["role"] == "assistant"]
    open_ones = [entry["info"]["id"] for entry in answers if "completed" not in entry["info"]["time"]]
    errors = [entry["info"]["error"]["data"]["message"] for entry in answers if "error" in entry["info"]]
    failed = [error for error in errors if error != CUT_OFF]
    finished = [entry for entry in answers if _text(entry) == FINISHED]
    if open_ones or failed or len(finished) != len(deed.prompts):
        raise Violation(
            f"{deed.session_id} has {len(finished)} answers to {len(deed.prompts)} prompts; "
            f"open: {open_ones}; failed: {failed}"
        )
    counts = _check_parts(deed, [part for entry in answers for part in entry["parts"]])
    return counts + Counter({"cut off answers": len(errors)})


def _check_parts(deed: Deed, parts: list[dict[str, Any]]) -> Counter[str]:
    states = [part["state"] for part in parts if part["type"] == "tool"]
    open_ones = [state for state in states if state["status"] not in ("completed", "error")]
    if open_ones:
        raise Violation(f"{deed.session_id} has open parts: {open_ones}")
    got = Counter(state.get("output", "") for state in states)
    wrong = {text: got[text] for text in deed.results.values() if got[text] != 1}
    if wrong:
        raise Violation(f"results of {deed.session_id} that were accepted stand there so often: {wrong}")
    jobs = [part for part in parts if part["type"] == "tool" and part["tool"] == "job"]
    if len(jobs) != len(deed.results):
        raise Violation(f"{deed.session_id} has {len(jobs)} jobs and {len(deed.results)} results")
    return Counter({"calls": len(states), "jobs": len(jobs), "answered prompts": len(deed.prompts)})


def _text(entry: dict[str, Any]) -> str:
    return "".join(part["text"] for part in entry["parts"] if part["type"] == "text")


def build_client(data: Path) -> Client:
    return Client(data, Outside(), random.Random(0))


def prompt_body(text: str) -> bytes:
    return json.dumps({"parts": [{"type": "text", "text": text}]}).encode()


async def create_prompted_session(client: Client, text: str) -> str:
    session = await client.ask("POST", "/session", {"title": text})
    await client.ask("POST", f"/session/{session['id']}/prompt_async", json.loads(prompt_body(text)))
    return str(session["id"])
