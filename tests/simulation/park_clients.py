"""The outside of worlds of async calls: it sends results once, often, at once, too late, or differently."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from asyncagents.domain.call import Call, Completed, Result
from asyncagents.domain.id import CallId
from asyncagents.engine.runtime import Runtime
from asyncagents.errors import AlreadySettled, Conflict, NotFound
from tests.simulation.park_stage import Refused
from tests.simulation.parks import Errand, Send
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
        acts = [world.prompt, world.send, world.quiet, world.abort, world.answer_asks, world.delete]
        weights = [25, 35, 6, 5, 25, 4 if world.park.deletes else 0]
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
        except AlreadySettled as error:
            book.count("conflicts")
            book.refused.append(Refused(call_id, result, error.first))
        except NotFound as error:
            if not book.deleted:
                book.violate(f"I0: what was acknowledged is gone: {error}")
        except Conflict:
            book.count("refused results")
        else:
            known = call_id in book.settled
            book.acknowledged(call, result)
            book.count("duplicates" if known else "results")
            if not known and not opened:
                book.count("early")


async def _give(runtime: Runtime, *, call_id: CallId, result: Result) -> Call:
    if isinstance(result, Completed):
        return await runtime.complete(call_id, result.output)
    return await runtime.fail(call_id, result.error)
