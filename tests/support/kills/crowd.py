"""People in virtual time: what they ask of whatever process lives, and what was acknowledged to them."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec import Struct

from asyncagents.domain.call.call import Answers, Completed, Failed, Once, Reject, Reply, Result
from asyncagents.domain.id import CallId, SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import RequestError
from tests.simulation.mirror import Mirror
from tests.simulation.stage import Stage, Violation

SESSIONS = 3
ACTS = 14
CROWD = 30
BUSY_SECONDS = 12
REST_SECONDS = 600


class Statement(Struct, frozen=True):
    session_id: SessionId
    text: str
    wakes: bool


class Crowd:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.stage = Stage()
        self.stage.mirrors.append(Mirror())
        self._unsure: dict[str, Statement] = {}
        """Sent, and the power went before it was acknowledged: sent again with the same key."""
        self._keys = 0

    async def busy(self, runtime: Runtime) -> None:
        """A day's work, if the power lasts; whoever still waits in the evening goes home."""
        await self._arrive(runtime)
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * BUSY_SECONDS), asyncio.TaskGroup() as group:
                for _ in range(ACTS):
                    group.create_task(self._act(runtime))

    async def _arrive(self, runtime: Runtime) -> None:
        for number in range(SESSIONS):
            session = await runtime.create_session(key=f"session{number}", directory="/project")
            if session.id not in self.stage.sessions:
                self.stage.sessions.append(session.id)
        for key, said in list(self._unsure.items()):
            await self._say(runtime, key, said)

    async def _act(self, runtime: Runtime) -> None:
        await asyncio.sleep(self.rng.random() * BUSY_SECONDS)
        acts: list[Callable[[Runtime], Awaitable[None]]] = [
            self._prompt,
            self._send,
            self._rush,
            self._answer,
            self._deliver,
            self._abort,
            self._follow,
        ]
        await self.rng.choices(acts, [25, 15, 8, 20, 15, 7, 10])[0](runtime)

    def _something(self, *, wakes: bool = True) -> tuple[str, Statement]:
        self._keys += 1
        name = self.rng.randrange(len(self.stage.sessions))
        text = f"s{name}:{'prompt' if wakes else 'quiet'} {self._keys}"
        return f"key{self._keys}", Statement(self.stage.sessions[name], text, wakes)

    async def _say(self, runtime: Runtime, key: str, said: Statement) -> None:
        self._unsure[key] = said
        message_id = await runtime.send(said.session_id, said.text, key=key, wakes=said.wakes)
        self.stage.prompts[message_id] = said.text
        del self._unsure[key]

    async def _prompt(self, runtime: Runtime) -> None:
        key, said = self._something()
        self._unsure[key] = said
        answer = await runtime.prompt(said.session_id, said.text, key=key)
        message_id = await runtime.send(said.session_id, said.text, key=key)
        self.stage.prompts[message_id] = said.text
        self.stage.answers[message_id] = answer.info.id
        del self._unsure[key]

    async def _send(self, runtime: Runtime) -> None:
        key, said = self._something(wakes=self.rng.random() < 0.8)
        await self._say(runtime, key, said)

    async def _rush(self, runtime: Runtime) -> None:
        """All at once, so that many share a commit."""
        async with asyncio.TaskGroup() as group:
            for _ in range(CROWD):
                key, said = self._something(wakes=self.rng.random() < 0.2)
                group.create_task(self._say(runtime, key, said))

    async def _answer(self, runtime: Runtime) -> None:
        for session_id in self.stage.sessions:
            for call in await runtime.open_calls(session_id):
                if call.ask_id is not None and call.open is not None:
                    yes: Reply = Once() if call.open.ask else Answers((("A",),))
                    await self._reply(runtime, call.ask_id, self.rng.choice([yes, yes, Reject()]))

    async def _reply(self, runtime: Runtime, ask_id: str, reply: Reply) -> None:
        try:
            await runtime.answer(ask_id, reply)
        except RequestError:
            self.stage.count("refused answers")
        else:
            self.stage.replies[ask_id] = reply

    async def _deliver(self, runtime: Runtime) -> None:
        for call_id in self.stage.jobs[-3:]:
            result: Result = Completed(f"result of {call_id}")
            await self._result(runtime, call_id, self.rng.choice([result, result, Failed("it broke")]))

    async def _result(self, runtime: Runtime, call_id: CallId, result: Result) -> None:
        try:
            if isinstance(result, Completed):
                await runtime.complete(call_id, result.output)
            else:
                await runtime.fail(call_id, result.error)
        except RequestError:
            self.stage.count("refused results")
        else:
            self.stage.acknowledged_result(call_id, result)

    async def _abort(self, runtime: Runtime) -> None:
        await runtime.abort(self.rng.choice(self.stage.sessions))

    async def _follow(self, runtime: Runtime) -> None:
        """A reader of the feed, which goes on from where it was when the power went."""
        mirror, more = self.stage.mirrors[0], True
        while more:
            piece = await runtime.feed(mirror.cursor)
            for event in piece.events:
                mirror.apply(event)
            mirror.cursor, more = piece.cursor, piece.more

    async def rest(self, runtime: Runtime) -> None:
        """Everything that waits is answered; then everybody is served and at rest, in bounded time."""
        await self._arrive(runtime)
        try:
            async with asyncio.timeout(REST_SECONDS):
                while await runtime.statuses():
                    await self._settle_all(runtime)
                    await asyncio.sleep(1)
        except TimeoutError:
            raise Violation(f"I6: not at rest: {await runtime.statuses()}") from None
        await self._follow(runtime)

    async def _settle_all(self, runtime: Runtime) -> None:
        for session_id in self.stage.sessions:
            for call in await runtime.open_calls(session_id):
                if call.ask_id is not None and call.blocks_session and call.open is not None:
                    reply: Reply = Once() if call.open.ask else Answers((("A",),))
                    await self._reply(runtime, call.ask_id, reply)
                elif call.open and call.open.kind == "async":
                    await self._result(runtime, call.id, Completed(f"result of {call.id}"))
