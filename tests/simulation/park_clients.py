"""The outside of worlds of async calls: it sends results once, often, at once, too late, or differently."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from asyncagents.config.secret import Secret
from asyncagents.domain.call.call import Completed, Failed, Result
from asyncagents.domain.call.pending_tool import PendingToolCall
from asyncagents.domain.conversation.status import Status
from asyncagents.domain.id import CallId, SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import AlreadySettled, Conflict, NotFound, RequestError, ResultRefused, Unavailable
from tests.simulation.park_stage import Refused
from tests.simulation.parks import BAD, Errand, Send
from tests.simulation.scenario import ACTIVE_SECONDS, Lost

if TYPE_CHECKING:
    from tests.simulation.park_world import ParkWorld


class ParkClients:
    def __init__(self, world: "ParkWorld") -> None:
        self._world = world
        self._book = world.book
        self._rng = world.rng
        self._group: asyncio.TaskGroup | None = None
        self._acts: list[asyncio.Task[None]] = []
        """All that goes on outside; it grows while calls are begun."""

    def begin(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        self._group = group
        for session_id in self._world.stage.sessions:
            self._acts.append(group.create_task(self._world.attempt(partial(self._world.send, session_id))))
        for _ in range(self._rng.randrange(4, 20)):
            self._acts.append(group.create_task(self._client()))
        if self._world.park.dark:
            self._acts.append(group.create_task(self._world.black_out()))
        return self._acts

    async def _client(self) -> None:
        await asyncio.sleep(self._rng.random() * ACTIVE_SECONDS)
        world, session_id = self._world, self._rng.choice(self._world.stage.sessions)
        acts = [world.prompt, world.send, world.quiet, world.abort, world.answer_asks, self._resume]
        weights = [25, 35, 6, 5, 25, 12]
        if world.park.deletes:
            acts, weights = [*acts, world.delete], [*weights, 4]
        if world.park.rotates:
            acts, weights = [*acts, self._rotate], [*weights, 9]
        act = self._rng.choices(acts, weights)[0]
        await world.attempt(partial(act, session_id))

    def serve(self, call_id: CallId, errand: Errand) -> None:
        """Whoever was hired works on, whatever becomes of us."""
        assert self._group is not None
        for send in errand.sends:
            self._acts.append(self._group.create_task(self._work(call_id, send)))

    async def _work(self, call_id: CallId, send: Send) -> None:
        await asyncio.sleep(send.after)
        await self.send(call_id, send.result, insists=send.insists)

    async def send(self, call_id: CallId, result: Result, *, insists: bool) -> None:
        book, give = self._book, partial(_give, call_id=call_id, result=result)
        book.offered.setdefault(call_id, []).append(result)
        opened = call_id in book.dues
        try:
            call = await (self._world.insist(give) if insists else self._world.request(give))
        except Lost:
            book.count("lost results")
        except (RequestError, Unavailable) as error:
            self._refused(call_id, result, error)
        else:
            known = call_id in book.settled
            book.acknowledged(call, result)
            book.count("duplicates" if known else "results")
            if not known and not opened:
                book.count("early")

    def _refused(self, call_id: CallId, result: Result, error: RequestError | Unavailable) -> None:
        book = self._book
        match error:
            case AlreadySettled():
                book.count("conflicts")
                book.refused.append(Refused(call_id, result, error.first))
            case NotFound():
                if not book.deleted and not self._world.may_be_forgotten(call_id):
                    book.violate(f"I0: what was acknowledged is gone: {error}")
            case ResultRefused():
                book.count("bad results")
                if not isinstance(result, Completed) or not result.output.startswith(BAD):
                    book.violate(f"P-05: {result} was refused for {call_id}, as if it were bad")
            case Unavailable():
                book.violate(f"P-05: nobody can say whether {call_id} takes {result}: {error}")
            case _:
                book.count("refused results")

    async def _resume(self, session_id: SessionId) -> None:
        """Of one who wants to be sure. It wakes a session that has nothing to do, or no more than it had."""
        for call_id in [*self._book.settled][-3:]:
            with suppress(NotFound):
                try:
                    await self._world.request(partial(_resume, call_id=call_id))
                except Conflict as error:
                    self._book.violate(f"P-15: it was settled, and {error}")
                self._book.count("woken")

    async def _rotate(self, session_id: SessionId) -> None:
        await self._world.request(lambda r: r.async_tools.rotate_key())

    async def check_secrets(self) -> None:
        """What a tool was once told counts, whoever is asked."""
        for call_id, told in self._book.secrets.items():
            secrets = await self._world.insist(partial(_secrets, call_id=call_id))
            if not told <= {each.reveal() for each in secrets}:
                self._book.violate(f"P-06: what {call_id} was told to sign with does not count any more")
            if len(told) > 1 and not self._world.park.rotates:
                self._book.violate(f"P-06: {call_id} was told {len(told)} secrets")


async def _give(runtime: Runtime, *, call_id: CallId, result: Result) -> PendingToolCall:
    tools = runtime.async_tools
    match result:
        case Completed(output, title, metadata):
            return await tools.submit_result(call_id, output, title=title, metadata=metadata)
        case Failed("cancelled"):
            return await tools.cancel(call_id)
        case Failed(error):
            return await tools.submit_error(call_id, error)


async def _resume(runtime: Runtime, *, call_id: CallId) -> Status:
    return await runtime.async_tools.resume(call_id)


async def _secrets(runtime: Runtime, *, call_id: CallId) -> tuple[Secret, ...]:
    return await runtime.async_tools.secrets(call_id)
